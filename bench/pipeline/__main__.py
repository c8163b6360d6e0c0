"""Measures the data pipeline on this machine and writes a page with the goals beside the figures."""

import argparse
import datetime
import tempfile
from pathlib import Path

from arauto.bench.machine import describe_machine, short_commit
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.session import open_spark
from bench.pipeline.lake import measure_lake, write_segments
from bench.pipeline.live import measure_idle, measure_latency
from bench.pipeline.rules import STATEFUL, WINDOWED, measure_rules, write_journal
from bench.pipeline.sql import measure_sql, write_messages

_ROOT = Path(__file__).parents[2]
_PARTS = ("lake", "rules", "sql", "latency", "idle")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument("--parts", default=",".join(_PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    parts = options.parts.split(",")
    scale = 10 if options.quick else 1
    machine = describe_machine()
    lines = [
        f"# The data pipeline, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "",
        f"`make bench-pipeline` at commit {short_commit(_ROOT)}, on {machine.cores} cores of {machine.cpu}, "
        f"Linux {machine.kernel}, Python {machine.python}; load before the run {machine.load_average}.",
        "CPU is processor time of Spark and its Python workers, in seconds per million rows. "
        "For alert latency, node, pipeline, publisher and subscriber share the cores.",
        "",
        "| what | goal | reached | CPU s per million |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="arauto-bench-") as made:
        directory = Path(made)
        _measure(parts, directory, scale, lines)
    page = "\n".join(lines) + "\n"
    print(page)
    if options.out is not None:
        options.out.write_text(page, encoding="utf-8")


def _measure(parts: list[str], directory: Path, scale: int, lines: list[str]) -> None:
    if {"lake", "rules", "sql"} & set(parts):
        with open_spark("bench", directory / "spark", driver_memory_mb=3_000) as spark:
            if "lake" in parts:
                write_segments(spark, directory / "segments", files=40, rows=100_000 // scale)
                rates = measure_lake(
                    Lake(spark, directory / "lake"), directory / "segments", files_max=5
                )
                for name, rate in rates.items():
                    goal = {"bronze": "≥ 50,000/s", "rollup_5m": "≥ 200,000/s"}.get(name, "")
                    _row(
                        lines,
                        f"lake: {name}",
                        goal,
                        f"{rate.per_s:,.0f} rows/s",
                        rate.cpu_s_per_million,
                    )
                together = sum(1 / rate.per_s for rate in rates.values())
                _row(
                    lines,
                    "lake: bronze and all derived tables",
                    "≥ 50,000/s",
                    f"{1 / together:,.0f} rows/s",
                )
            if "rules" in parts:
                feed = directory / "journal"
                feed.mkdir()
                write_journal(spark, feed, files=6, rows=100_000 // scale, keys=5_000, per_s=10_000)
                for name, text in (("stateful", STATEFUL), ("windowed", WINDOWED)):
                    found = measure_rules(spark, feed, text, warm_up=2)
                    goal = "≥ 10,000/s" if name == "stateful" else ""
                    reached = f"{found['rows_per_s']:,.0f} events/s"
                    _row(lines, f"rules: {name}", goal, reached, found["cpu_s_per_million"])
            if "sql" in parts:
                lake = Lake(spark, directory / "sql-lake")
                write_messages(lake, rows=10_000_000 // scale, files=8)
                for timing in measure_sql(lake):
                    reached = f"{timing.spark_s:.2f} s, DuckDB {timing.duckdb_s:.2f} s: {timing.ratio:.1f} ×"
                    _row(lines, f"sql: {timing.name}", "≤ 2 × DuckDB", reached)
    if "latency" in parts:
        for wanted, archive in ((1_000, True), (5_000, True), (10_000, True), (10_000, False)):
            beside = "beside archive and roll-ups" if archive else "rules alone"
            found_latency = measure_latency(
                directory / f"latency-{wanted}-{archive}",
                events_per_s=wanted,
                seconds=60,
                archive=archive,
            )
            reached = (
                f"p50 {found_latency.p50_s:.1f} s, p95 {found_latency.p95_s:.1f} s, "
                f"p99 {found_latency.p99_s:.1f} s ({found_latency.alerts:,} alerts at "
                f"{found_latency.events_per_s:,.0f} events/s)"
            )
            if found_latency.missing:
                reached += f"; {found_latency.missing:,} alerts had not come after three minutes"
            _row(lines, f"alert latency at {wanted:,} events/s, {beside}", "p95 ≤ 5 s", reached)
    if "idle" in parts:
        idle = measure_idle(directory / "idle", seconds=120)
        reached = f"{idle.core_share:.1%} of a core"
        _row(lines, f"idle for {idle.seconds:.0f} s", "< 15 % of a core", reached)


def _row(lines: list[str], what: str, goal: str, reached: str, cpu: float | None = None) -> None:
    print(what, reached, flush=True)
    lines.append(f"| {what} | {goal} | {reached} | {'' if cpu is None else f'{cpu:.1f}'} |")


if __name__ == "__main__":
    main()
