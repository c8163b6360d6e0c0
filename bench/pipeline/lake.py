"""How fast segments go into the lake, and how fast roll-ups are made of them."""

import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arauto.pipeline.archive.archive import Archive
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.metrics import PipelineMetrics
from arauto.pipeline.schemas import JOURNAL
from bench.pipeline.procs import cpu_s

__all__ = ["Rate", "measure_lake", "write_segments"]

_T0_MS = 1_793_577_600_000
_HUBS, _CHANNELS, _USERS = 20, 500, 5_000
_PAYLOAD_BYTES = 120


@dataclass(frozen=True, slots=True)
class Rate:
    """How long some rows took."""

    rows: int
    took_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.rows / self.took_s

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.rows * 1e6


def write_segments(spark: SparkSession, directory: Path, *, files: int, rows: int) -> None:
    """Segments as a busy node exports them: JSON messages of many hubs and channels, a thousand a second,
    and the ends of sessions between them."""
    directory.mkdir(parents=True)
    for number in range(files):
        ids = spark.range(number * rows, (number + 1) * rows, 1, 1)
        part = directory / f".part-{number}"
        ids.select(*_columns()).write.parquet(str(part))
        [written] = part.glob("*.parquet")
        first, last = number * rows + 1, (number + 1) * rows
        written.rename(directory / f"seg-n1-{first:019d}-{last:019d}.parquet")


def _columns() -> list[F.Column]:  # type: ignore[name-defined]
    id_ = F.col("id")
    is_end = id_ % 50 == 49
    body = F.format_string(
        '{"order":%d,"price":%d,"note":"%s"}', id_, id_ % 997, F.lit("x" * (_PAYLOAD_BYTES - 40))
    )
    ended = F.format_string(
        '{"durationMs":%d,"code":5000,"transport":"websocket","address":"10.0.0.1"}', id_ % 90_000
    )
    made = {
        "node": F.lit("n1"),
        "seq": id_ + 1,
        "kind": F.when(is_end, 3).otherwise(1),
        "ts": F.timestamp_millis(F.lit(_T0_MS) + id_),
        "hub": F.format_string("hub-%02d", F.pmod(F.hash("id"), F.lit(_HUBS))),
        "channel": F.format_string("orders:%03d", F.pmod(F.xxhash64("id"), F.lit(_CHANNELS))),
        "session": F.format_string("s%d", id_ % _USERS),
        "user": F.format_string("u%d", id_ % _USERS),
        "content_type": F.lit("application/json"),
        "payload": F.when(is_end, ended).otherwise(body).cast("binary"),
    }
    return [
        made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in JOURNAL.fields
    ]


def measure_lake(lake: Lake, segments: Path, *, files_max: int) -> dict[str, Rate]:
    """Take segments in as the running pipeline does; what each part took, after a first batch each."""
    bronze, marks = lake.table("journal"), []

    archive = Archive(lake, segments, PipelineMetrics(), files_max=files_max)
    while archive.take_next() is not None:
        marks.append((bronze.state().rows, time.monotonic(), cpu_s()))
    rates = {"bronze": _between(marks[0], marks[-1])}
    for name in ("rollup_5m", "messages", "sessions", "quarantine"):
        # Once before, so that what is compiled is compiled; then the whole of it.
        DERIVED[name].make(bronze.read_files(list(bronze.state().files.values())[:1])).count()
        before = (0, time.monotonic(), cpu_s())
        rows = follow(lake, name)
        rates[name] = _between(before, (rows, time.monotonic(), cpu_s()))
    return rates


def _between(one: tuple[int, float, float], other: tuple[int, float, float]) -> Rate:
    return Rate(other[0] - one[0], other[1] - one[1], other[2] - one[2])
