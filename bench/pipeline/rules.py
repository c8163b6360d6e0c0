"""How fast the rules query goes through a backlog: rows of a journal, with rules of both paths."""

import os
import time
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rules
from arauto.pipeline.rules.stream import by_query, start_query
from arauto.pipeline.schemas import JOURNAL
from bench.pipeline.procs import cpu_s

__all__ = ["STATEFUL", "WINDOWED", "measure_rules", "write_journal"]

_T0_MS = 1_789_999_200_000

#: Each event concerns both stateful rules, so it is two events to the matcher.
STATEFUL = """
rule: held
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
let: {p: cast(payload.price as double)}
hold: {start: p >= 150, for: 2s}
emit: {channel: alerts, payload: {symbol: key.symbol, price: last.p}}
---
rule: fell
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
let: {p: cast(payload.price as double)}
sequence:
  - {as: high, where: p > 195}
  - {as: low, where: p < high.p - 140}
within: 5s
emit: {channel: alerts, payload: {from: high.p, to: low.p}}
"""
WINDOWED = """
rule: busy
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
count: {of: cast(payload.price as double)}
window: 10s
when: count(*) >= 3 and max(of) > 150
emit: {channel: alerts, payload: {symbol: key.symbol, n: count, top: max}}
"""


def write_journal(
    spark: SparkSession, directory: Path, *, files: int, rows: int, keys: int, per_s: int
) -> None:
    """Segments of `rows` prices each, in order of time, `per_s` of them a second of event time."""
    for number in range(files):
        ids = spark.range(number * rows, (number + 1) * rows, 1, 1)
        symbol, price = F.pmod(F.hash("id"), F.lit(keys)), F.pmod(F.xxhash64("id"), F.lit(200))
        body = F.format_string('{"symbol": "S%d", "price": %d}', symbol, price)
        known = {
            "node": F.lit("n1"),
            "seq": F.col("id"),
            "kind": F.lit(1),
            "ts": F.timestamp_millis(F.lit(_T0_MS) + (F.col("id") * 1_000 / per_s).cast("bigint")),
            "hub": F.lit("shop"),
            "channel": F.lit("prices:x"),
            "payload": body.cast("binary"),
        }
        columns = [
            known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in JOURNAL.fields
        ]
        part = directory / f"part-{number:04}"
        ids.select(*columns).write.parquet(str(part))
        [written] = part.glob("*.parquet")
        final = directory / f"seg-{number:04}.parquet"
        written.rename(final)
        os.utime(final, (_T0_MS / 1_000 + number,) * 2)
        for rest in part.iterdir():
            rest.unlink()
        part.rmdir()


def measure_rules(
    spark: SparkSession, directory: Path, text: str, *, warm_up: int = 1
) -> dict[str, float]:
    """Run rules over the segments of a directory, one a batch; what the batches after the first took.

    Args:
        spark: a session.
        directory: segments, as `write_journal` leaves them; the checkpoint goes beside it.
        text: rules of one query.
        warm_up: batches left out.
    """
    programs = [compile_rule("shop", rule) for rule in load_rules(text)]
    source = (
        spark.readStream.schema(JOURNAL)
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", "seg-*")
        .parquet(str(directory))
    )
    matches = 0
    marks: list[tuple[float, float]] = []

    def count(frame: DataFrame, _batch_id: int) -> None:
        nonlocal matches
        matches += frame.count()
        marks.append((time.monotonic(), cpu_s()))

    checkpoint = directory.parent / f"checkpoint-{time.monotonic_ns()}"
    [(name, chosen)] = [(name, found) for name, found in by_query(programs).items() if found]
    query = start_query(spark, source, name, chosen, checkpoint, count, available_now=True)
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p.numInputRows]
    files = sorted(directory.glob("seg-*.parquet"))[warm_up : len(progress)]
    rows = float(sum(pq.read_metadata(file).num_rows for file in files))
    took_s = marks[len(progress) - 1][0] - marks[warm_up - 1][0]
    used_s = marks[len(progress) - 1][1] - marks[warm_up - 1][1]
    if not matches:
        raise ValueError("no rule matched anything: this is no measurement")
    return {
        "rows_per_s": rows / took_s,
        "cpu_s_per_million": used_s / rows * 1e6,
    }
