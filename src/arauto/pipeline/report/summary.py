"""The top of the report: a sentence or two, and the headline numbers. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from arauto.pipeline.report.charts import spark_line
from arauto.pipeline.report.markup import Markup, el, joined
from arauto.pipeline.report.model import Point, Report, Totals
from arauto.pipeline.report.words import Kind, amount, change, clock, number, span

__all__ = ["cards", "lead"]

#: A change under this share is none worth a word.
_SAME = 0.005


@dataclass(frozen=True, slots=True)
class _Card:
    name: str
    value: Callable[[Totals], float | None]
    kind: Kind = "count"
    more_is: str = ""
    """`good`, `bad`, or neither."""
    line: Callable[[Point], float | None] | None = None


_CARDS = (
    _Card("Messages published", lambda t: t.messages_in, "count", "good", lambda p: p.messages_in),
    _Card(
        "Messages delivered", lambda t: t.messages_out, "count", "good", lambda p: p.messages_out
    ),
    _Card("Data sent", lambda t: t.bytes_out, "bytes", "", lambda p: p.bytes_out),
    _Card(
        "Most sessions at once",
        lambda t: t.sessions_peak,
        "count",
        "good",
        lambda p: p.sessions,
    ),
    _Card("Users who published", lambda t: t.users, "count", "good"),
    _Card("Session length, mean", lambda t: t.duration_mean_ms, "ms", "", lambda p: p.mean_ms),
    _Card("Refused requests", lambda t: t.refused, "count", "bad", lambda p: p.refused),
    _Card("Alerts from rules", lambda t: t.rules_fired, "count", ""),
)


def cards(report: Report) -> Markup:
    """The headline numbers, each with its change and a small line."""
    return el("ul", *(_card(one, report) for one in _CARDS), class_="cards")


def _card(one: _Card, report: Report) -> Markup:
    now = one.value(report.now)
    before = one.value(report.before) if report.before else None
    line = Markup("")
    if one.line is not None:
        line = spark_line([one.line(point) for point in report.points])
    return el(
        "li",
        el("h2", one.name),
        el("p", amount(now, one.kind), class_="value"),
        _delta(now, before, one),
        line,
        class_="card",
    )


def _delta(now: float | None, before: float | None, one: _Card) -> Markup:
    grown = change(now, before)
    if before is None:
        return el("p", "nothing to compare with", class_="delta")
    was = f" from {amount(before, one.kind)}"
    if grown is None:
        return el("p", "none before" if now else "none, as before", class_="delta")
    if abs(grown) < _SAME:
        return el("p", "as before", class_="delta")
    sign = "▲" if grown > 0 else "▼"
    good = {"good": grown > 0, "bad": grown < 0}.get(one.more_is)
    look = "" if good is None else ("good" if good else "bad")
    return el("p", el("span", f"{sign} {_share(grown)}", class_=look or None), was, class_="delta")


def _share(grown: float) -> str:
    size = abs(grown)
    return f"{size:.1%}" if size < 0.1 else f"{size:.0%}" if size < 10 else f"× {size + 1:,.0f}"


def lead(report: Report) -> Markup:
    """What happened, in words."""
    return el("p", *(joined(said, " ") for said in _sentences(report)), class_="lead")


def _sentences(report: Report) -> list[str]:
    now = report.now
    cut = []
    if report.cut_ms:
        at = clock(report.cut_ms, with_day=False)
        cut = [f"What happened from {at} on is left out: it is still being counted."]
    if not (now.messages_in or now.published or now.sessions_started):
        return ["Nothing happened in this time, or nothing of it has reached the lake.", *cut]
    said = [
        f"{number(now.messages_in)} messages were published and delivered {number(now.messages_out)} times"
    ]
    grown = change(now.messages_in, report.before.messages_in if report.before else None)
    if grown is not None:
        how = (
            "about as many"
            if abs(grown) < _SAME
            else f"{_share(grown)} {'more' if grown > 0 else 'fewer'}"
        )
        said[0] += f"; {how} {'as' if abs(grown) < _SAME else 'than'} in the same time before"
    said[0] += "."
    if report.hours:
        peak = report.hours[0]
        said.append(
            f"The busiest hour began {clock(peak.start_ms)} with {number(peak.messages)} stored messages, "
            f"{peak.channel_messages / max(1, peak.messages):.0%} of them in {peak.channel}."
        )
    if now.duration_mean_ms is not None:
        said.append(
            f"{number(now.sessions_started)} sessions were started; they lasted {span(now.duration_mean_ms)} "
            "on average."
        )
    asked = now.messages_in + now.refused
    if now.refused and asked:
        said.append(f"{now.refused / asked:.2%} of requests were refused.")
    return said + cut
