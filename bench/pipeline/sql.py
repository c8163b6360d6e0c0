"""Queries of `arauto pipeline sql` next to DuckDB, on the same files. Start-up does not count."""

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pyspark.sql import functions as F

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import TABLES
from arauto.pipeline.sql.plan import check_plan
from arauto.pipeline.sql.run import Limits, run_query
from arauto.pipeline.sql.views import VIEWS, open_views

__all__ = ["QUERIES", "SqlTiming", "measure_sql", "write_messages"]

_T0_MS = 1_793_577_600_000
_LIMITS = Limits(rows_max=10_000, timeout_s=600)

#: Each is written so that both engines understand it and must give the same rows.
QUERIES = {
    "count by channel": """
        SELECT channel, count(*) AS n FROM messages GROUP BY channel ORDER BY n DESC, channel LIMIT 20
    """,
    "bytes by hour": """
        SELECT date_trunc('hour', ts) AS h, sum(size_bytes) AS b FROM messages GROUP BY 1 ORDER BY 1
    """,
    "distinct users": """
        SELECT count(DISTINCT user) AS n FROM messages WHERE channel LIKE 'prices:1%'
    """,
    "needles": """
        SELECT seq, channel FROM messages WHERE size_bytes = 77 AND channel = 'prices:7' ORDER BY seq LIMIT 50
    """,
    "text search": """
        SELECT count(*) AS n FROM messages WHERE text LIKE '%"n":777%'
    """,
}


@dataclass(frozen=True, slots=True)
class SqlTiming:
    """The best of some rounds of one query."""

    name: str
    spark_s: float
    duckdb_s: float

    @property
    def ratio(self) -> float:
        """How many times as long Spark takes."""
        return self.spark_s / max(1e-9, self.duckdb_s)


def write_messages(lake: Lake, *, rows: int, files: int) -> None:
    """Fill the table `messages` of an empty lake with made-up ones of one hub."""
    ids = lake.spark.range(0, rows, 1, files)
    text = F.concat(F.lit('{"n":'), F.col("id").cast("string"), F.lit(',"price":12.5}'))
    made = {
        "node": F.lit("n1"),
        "seq": F.col("id"),
        "ts": F.timestamp_millis(F.lit(_T0_MS) + F.col("id") * 10),
        "hub": F.lit("shop"),
        "channel": F.concat(F.lit("prices:"), F.pmod(F.xxhash64("id"), F.lit(500)).cast("string")),
        "user": F.concat(F.lit("u"), F.pmod(F.hash("id"), F.lit(20_000)).cast("string")),
        "text": text,
        "payload": text.cast("binary"),
        "is_json": F.lit(True),
        "size_bytes": F.pmod(F.hash("id"), F.lit(400)).cast("long"),
    }
    columns = [
        made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in TABLES["messages"].columns
    ]
    lake.table("messages").append(ids.select(*columns), query="bench", batch_id=0)


def measure_sql(lake: Lake, *, rounds: int = 5) -> list[SqlTiming]:
    """Time each query in both engines, in turns; the best round counts.

    Raises:
        ValueError: the two gave different rows.
    """
    table = lake.table("messages")
    paths = [str(Path(table.directory) / name) for name in table.state().files]
    duck = duckdb.connect(config={"threads": 2})
    duck.execute("SET TimeZone = 'UTC'")
    duck.read_parquet(paths).create_view("messages")
    session = open_views(lake, "shop")
    timings = []
    for name, text in QUERIES.items():
        best = {"spark": float("inf"), "duckdb": float("inf")}
        for _ in range(rounds):
            began = time.perf_counter()
            check_plan(session, text, VIEWS)
            ours = run_query(session, text, _LIMITS).rows
            between = time.perf_counter()
            theirs = duck.execute(text).fetchall()
            ended = time.perf_counter()
            best["spark"] = min(best["spark"], between - began)
            best["duckdb"] = min(best["duckdb"], ended - between)
            if [_plain(row) for row in ours] != [_plain(row) for row in theirs]:
                raise ValueError(f"{name}: the answers differ")
        timings.append(SqlTiming(name, best["spark"], best["duckdb"]))
    return timings


def _plain(row: tuple[object, ...]) -> list[object]:
    """Times of the two have different clothes; what they say is the same."""
    return [value.timestamp() if hasattr(value, "timestamp") else value for value in row]
