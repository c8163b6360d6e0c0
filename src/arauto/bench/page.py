"""Writes a report to `bench/results/`: the figures as JSON, and a page a person can read."""

from pathlib import Path

import msgspec

from arauto.bench.results import Report
from arauto.bench.tables import (
    check_table,
    comparison_table,
    idle_table,
    latency_table,
    markdown,
)

__all__ = ["page", "write_report"]


def write_report(report: Report, directory: Path) -> tuple[Path, Path]:
    """Write `<date>-<commit>.json` and `.md`; returns both paths."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"{report.date}-{report.commit.rstrip('+')}"
    data_path, page_path = directory / f"{stem}.json", directory / f"{stem}.md"
    data_path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    page_path.write_text(page(report))
    return data_path, page_path


def page(report: Report) -> str:
    """Return the report as Markdown."""
    machine = report.machine
    changed = " with uncommitted changes" if report.commit.endswith("+") else ""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    head = [
        f"# Benchmark of {report.date}",
        "",
        f"- commit: {report.commit.rstrip('+')}{changed}",
        f"- machine: {machine.cores} cores, {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB,"
        f" Linux {machine.kernel}, load before the run {machine.load_average}",
        f"- Python {machine.python}; {versions}",
        f"- load generator: {report.generator}, on the same machine as the servers",
        *(f"- note: {note}" for note in report.notes),
        "",
        "Medians over the rounds, all targets in turns; ± is half the range. One publisher, 100-byte",
        "payloads. *exact* = every subscriber got every message once. *generator* = the most of one core the",
        "load generator used; near 100 % it may have been the limit. See `bench/README.md` for the rules.",
        "",
    ]
    tables = [
        check_table(report.checks),
        *(comparison_table(comparison) for comparison in report.comparisons),
        *(latency_table(result) for result in report.latencies),
        *(idle_table(result) for result in report.idle),
    ]
    return "\n".join([*head, *(markdown(table) for table in tables)])
