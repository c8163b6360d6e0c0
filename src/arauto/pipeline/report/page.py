"""The report as one HTML page: no scripts, nothing fetched from anywhere. Pure."""

from collections.abc import Sequence

from arauto.pipeline.report.charts import Series, line_chart
from arauto.pipeline.report.lists import (
    channels_section,
    errors_section,
    peaks_section,
    quality_section,
    rules_section,
    sessions_section,
    table,
    users_section,
)
from arauto.pipeline.report.markup import Markup, el, joined
from arauto.pipeline.report.model import Point, Report, Step
from arauto.pipeline.report.style import STYLE
from arauto.pipeline.report.summary import cards, lead
from arauto.pipeline.report.words import Kind, amount, clock, date_range, day

__all__ = ["render"]

_MARKS_MAX = 8
_SECTIONS = (
    ("traffic", "Traffic"),
    ("peaks", "Peaks"),
    ("sessions", "Sessions"),
    ("durations", "Durations"),
    ("channels", "Channels"),
    ("users", "Users"),
    ("errors", "Errors"),
    ("rules", "Rules"),
    ("quality", "Data quality"),
)
_STEPS: dict[Step, str] = {"5m": "five minutes", "hour": "hour", "day": "day"}
#: Nothing may be fetched, whatever a name in the data says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(report: Report) -> str:
    """The whole page."""
    who = f"Hub {report.hub}" if report.hub else "All hubs"
    period = date_range(report.from_ms, report.to_ms)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{who}, {period} – Arauto"),
        Markup(f"<style>{STYLE}</style>"),
    )
    top = el(
        "header",
        el("h1", who),
        el("p", f"{period}, UTC"),
        el(
            "nav",
            *(el("a", name, href=f"#{key}") for key, name in _SECTIONS),
            aria_label="Sections",
        ),
    )
    pairs = joined(
        el("div", channels_section(report), users_section(report), class_="two"),
        el("div", errors_section(report), rules_section(report), class_="two"),
    )
    main = el(
        "main",
        top,
        lead(report),
        cards(report),
        _traffic(report),
        peaks_section(report),
        sessions_section(report),
        _durations(report),
        pairs,
        quality_section(report),
        el(
            "footer",
            f"Made {clock(report.made_ms)} UTC by Arauto. Times are UTC; the end is exclusive.",
        ),
    )
    return f'<!doctype html>\n<html lang="en">{head}{el("body", main)}</html>\n'


def _traffic(report: Report) -> Markup:
    points = report.points
    messages = (
        Series("in", [p.messages_in for p in points], 1, filled=True),
        Series("out", [p.messages_out for p in points], 2),
    )
    volume = (
        Series("in", [p.bytes_in for p in points], 1, filled=True),
        Series("out", [p.bytes_out for p in points], 2),
    )
    step = _STEPS[report.step]
    return el(
        "section",
        el("h2", "Traffic"),
        el(
            "p",
            f"Messages that were published (in) and deliveries to subscribers (out), per {step}.",
            class_="note",
        ),
        el("h3", "Messages"),
        _chart(report, messages, "count", "Messages in and out over time"),
        el("h3", "Data"),
        _chart(report, volume, "bytes", "Bytes in and out over time"),
        id="traffic",
    )


def _durations(report: Report) -> Markup:
    points = report.points
    series = (
        Series("mean", [p.mean_ms for p in points], 1, filled=True),
        Series("median", [p.p50_ms for p in points], 2),
        Series("95 % are shorter", [p.p95_ms for p in points], 3),
        Series("99 % are shorter", [p.p99_ms for p in points], 4),
    )
    step = _STEPS[report.step]
    return el(
        "section",
        el("h2", "How long sessions last"),
        el("p", f"Of the sessions that ended, per {step}.", class_="note"),
        _chart(report, series, "ms", "Durations of sessions over time"),
        id="durations",
    )


def _chart(report: Report, series: Sequence[Series], kind: Kind, name: str) -> Markup:
    labels = [_label(point, report.step) for point in report.points]
    if not labels:
        return el("p", "Nothing is known of this time.", class_="none")
    drawn = line_chart(series, labels, _marks(report), kind, name)
    rows = [
        (label, *(amount(one.values[step], kind) for one in series))
        for step, label in enumerate(labels)
    ]
    numbers = table(("when", *(one.name for one in series)), rows)
    details = el(
        "details", el("summary", "Numbers"), el("div", numbers, class_="wide", tabindex="0")
    )
    return joined(drawn, details)


def _label(point: Point, step: Step) -> str:
    return day(point.start_ms) if step == "day" else clock(point.start_ms)


def _marks(report: Report) -> list[tuple[int, str]]:
    """A few steps whose times stand under the axis: midnights if there are some, else round times."""
    starts = [point.start_ms for point in report.points]
    if report.step == "day":
        every = max(1, -(-len(starts) // _MARKS_MAX))
        return [(i, day(ms)[4:]) for i, ms in enumerate(starts) if i % every == 0]
    if starts[-1] - starts[0] > 2 * 86_400_000:
        midnights = [i for i, ms in enumerate(starts) if ms % 86_400_000 == 0]
        every = max(1, -(-len(midnights) // _MARKS_MAX))
        return [(i, day(starts[i])) for i in midnights[::every]]
    found: list[int] = []
    for minutes in (5, 10, 15, 30, 60, 120, 180, 360, 720):
        found = [i for i, ms in enumerate(starts) if ms % (minutes * 60_000) == 0]
        if len(found) <= _MARKS_MAX + 1:
            break
    return [(i, clock(starts[i], with_day=False)) for i in found]
