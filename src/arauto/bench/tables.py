"""Turns results into tables: rows of text, once, for the terminal and for the Markdown page alike."""

from collections.abc import Callable, Sequence

import msgspec
from rich import box
from rich.table import Table as RichTable

from arauto.bench.results import Check, Comparison, IdleResult, LatencyResult, Row
from arauto.bench.stats import Spread, best_of, ratio

__all__ = [
    "Table",
    "check_table",
    "comparison_table",
    "count_text",
    "idle_table",
    "latency_table",
    "markdown",
    "rich_table",
]

_NONE = "–"


class Table(msgspec.Struct, frozen=True):
    """A titled grid of text. The first column is left-aligned, the others right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[int] = frozenset()
    """Rows to show in bold."""
    notes: tuple[str, ...] = ()


def count_text(value: float) -> str:
    """Return a rate as people write it: 8.81 M, 62.0 k, 950."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.1f} k"
    return f"{value:,.0f}"


def _with_spread(spread: Spread, text: Callable[[float], str]) -> str:
    return f"{text(spread.median)} ±{spread.width:.0%}"


def _notes(left_out: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{label}: {reason}" for label, reason in left_out.items())


def comparison_table(comparison: Comparison) -> Table:
    """One line per target: throughput with its spread, ratio to the best peer, processor time."""
    medians = comparison.medians()
    best = best_of(medians, [row.label for row in comparison.rows if not row.is_arauto])
    unit = "acknowledged/s" if comparison.load.mode == "stored" else "deliveries/s"
    per = "ack" if comparison.load.mode == "stored" else "delivery"
    header = ("", unit, "× best peer", "publishes/s", f"CPU µs/{per}", "generator", "exact")

    def line(row: Row) -> tuple[str, ...]:
        times = ratio(row.per_s.median, best[1]) if best else None
        return (
            row.label,
            _with_spread(row.per_s, count_text),
            f"{times:.2f} ×" if times is not None else _NONE,
            count_text(row.publishes_per_s.median),
            _with_spread(row.server_cpu_us, lambda value: f"{value:.3f}"),
            f"{row.generator_share:.0%}",
            "yes" if row.is_exact else "NO",
        )

    strong = frozenset(i for i, row in enumerate(comparison.rows) if row.is_arauto)
    rows = tuple(line(row) for row in comparison.rows)
    return Table(comparison.name, header, rows, strong, _notes(comparison.left_out))


def latency_table(result: LatencyResult) -> Table:
    """One line per target and condition: percentiles in milliseconds."""
    header = ("", "publishes/s", "p50", "p90", "p99", "p99.9", "max ms", "p99 moved by", "exact")
    lines: list[tuple[str, ...]] = []
    strong: set[int] = set()
    for row in result.rows:
        change = row.p99_change
        conditions = [(row.label, row.alone, _NONE)]
        if row.with_stalled is not None:
            moved = f"{change:+.1%}" if change is not None else _NONE
            conditions.append(
                (f"{row.label}, {result.load.stalled} stalled", row.with_stalled, moved)
            )
        for label, latency, moved in conditions:
            if row.is_arauto:
                strong.add(len(lines))
            figures = (
                latency.p50_ms,
                latency.p90_ms,
                latency.p99_ms,
                latency.p999_ms,
                latency.max_ms,
            )
            exact = "yes" if row.is_exact else "NO"
            texts = (f"{value:.2f}" for value in figures)
            lines.append((label, count_text(row.rate), *texts, moved, exact))
    return Table(result.name, header, tuple(lines), frozenset(strong), _notes(result.left_out))


def idle_table(result: IdleResult) -> Table:
    """One line per target: memory of idle sessions."""
    header = (
        "",
        "sessions",
        "KiB each",
        "MiB before",
        "MiB after",
        "PSS MiB after",
        "connected in s",
    )
    rows = tuple(
        (
            row.label,
            f"{row.sessions:,}",
            f"{row.bytes_per_session / 1024:.1f}",
            f"{row.before.rss_bytes / 2**20:.0f}",
            f"{row.after.rss_bytes / 2**20:.0f}",
            f"{row.after.pss_bytes / 2**20:.0f}",
            f"{row.connect_s:.1f}",
        )
        for row in result.rows
    )
    strong = frozenset(i for i, row in enumerate(result.rows) if row.is_arauto)
    return Table(result.name, header, rows, strong, _notes(result.left_out))


def check_table(checks: Sequence[Check]) -> Table:
    """One line per goal."""
    words = {True: "met", False: "missed", None: "not measured"}
    rows = tuple((c.what, c.goal, c.reached, words[c.is_met]) for c in checks)
    return Table("Goals", ("", "goal", "reached", ""), rows)


def rich_table(table: Table) -> RichTable:
    """Return the table for the terminal, without its notes."""
    shown = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(table.header):
        shown.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for number, row in enumerate(table.rows):
        shown.add_row(*row, style="bold" if number in table.strong else None)
    return shown


def markdown(table: Table) -> str:
    """Return the table as Markdown, its title as a heading."""
    lines = [f"### {table.title}", ""]
    if table.rows:
        lines.append("| " + " | ".join(table.header) + " |")
        lines.append("|---|" + "---:|" * (len(table.header) - 1))
        for number, row in enumerate(table.rows):
            cells = [f"**{cell}**" if number in table.strong and cell else cell for cell in row]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines.extend(f"- {' '.join(note.split())}" for note in table.notes)
    return "\n".join(lines).rstrip() + "\n"
