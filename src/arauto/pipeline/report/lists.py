"""The report's tables: peaks, sessions by hour, channels, users, errors, rules, data quality. Pure."""

from collections.abc import Sequence

from arauto.pipeline.report.charts import heat_map
from arauto.pipeline.report.markup import Markup, el, joined
from arauto.pipeline.report.model import Peak, Ranked, Report
from arauto.pipeline.report.words import clock, number, size

__all__ = [
    "channels_section",
    "errors_section",
    "peaks_section",
    "quality_section",
    "rules_section",
    "sessions_section",
    "table",
    "users_section",
]

_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A plain table: the first column is a name, the others are numbers."""
    head = el(
        "tr",
        *(el("th", name, scope="col", class_="n" if i else None) for i, name in enumerate(names)),
    )
    body = [
        el(
            "tr",
            el("th", row[0], scope="row", class_="name"),
            *(el("td", c, class_="n") for c in row[1:]),
        )
        for row in rows
    ]
    return el("table", el("thead", head), el("tbody", *body))


def peaks_section(report: Report) -> Markup:
    inner = el(
        "div",
        el("div", el("h3", "Busiest hours"), _peaks(report.hours)),
        el("div", el("h3", "Busiest minutes"), _peaks(report.minutes)),
        class_="inner",
    )
    note = "By stored messages, with the channel that had the most of them."
    return _section("peaks", "Peaks", note, inner)


def _peaks(peaks: Sequence[Peak]) -> Markup:
    most = max((peak.messages for peak in peaks), default=1)
    rows = [
        (
            joined(
                clock(peak.start_ms),
                el("br"),
                el("small", f"{peak.channel} · {_percent(peak.channel_messages, peak.messages)}"),
                _bar(peak.messages, most, 1),
            ),
            f"{peak.messages:,}",
        )
        for peak in peaks
    ]
    return table(("when", "messages"), rows) if rows else _none("No messages were stored.")


def sessions_section(report: Report) -> Markup:
    values = [[report.starts.get((day, hour), 0) for hour in range(24)] for day in range(7)]
    total = sum(map(sum, values))
    note = f"{total:,} sessions were started. By weekday and hour, UTC: the stronger the colour, the more."
    gone = report.now.sessions_started - total
    if gone > 0:
        note += f" {gone:,} more are in the sums alone: the rows of users who were erased are gone."
    steps = [el("i", class_=f"h{level}") for level in range(1, 7)]
    scale = el("p", "few", *steps, "many", class_="scale", aria_hidden="true")
    hours = [f"{hour:02}" for hour in range(24)]
    shown = joined(heat_map(_WEEK, hours, values, "Sessions started"), scale)
    return _section(
        "sessions", "When sessions start", note, shown if total else _none("There were none.")
    )


def channels_section(report: Report) -> Markup:
    most = max((row.messages for row in report.channels), default=1)
    rows = [
        (joined(row.name, _bar(row.messages, most, 1)), number(row.messages), size(row.size_bytes))
        for row in report.channels
    ]
    shown = (
        table(("channel", "messages", "data"), rows) if rows else _none("No messages were stored.")
    )
    return _section("channels", "Top channels", "By stored messages.", shown)


def users_section(report: Report) -> Markup:
    shown = _ranked(
        report.users, ("user", "messages"), 2, "No user published anything that was stored."
    )
    return _section("users", "Top users", "By stored messages they published.", shown)


def errors_section(report: Report) -> Markup:
    shown = _ranked(report.errors, ("kind", "times"), 4, "Nothing was refused.")
    return _section(
        "errors", "Refused, by kind", "Requests and connections that were turned down.", shown
    )


def rules_section(report: Report) -> Markup:
    most = max((row.count for row in report.rules), default=1)
    rows = [
        (joined(row.name, _bar(row.count, most, 3)), f"{row.count:,}", clock(row.last_ms))
        for row in report.rules
    ]
    shown = table(("rule", "alerts", "last"), rows) if rows else _none("No rule fired.")
    return _section("rules", "Rules that fired", "Alerts of correlation rules.", shown)


def quality_section(report: Report) -> Markup:
    quality = report.quality
    missing = quality.missing_rows
    parts = [
        el(
            "p",
            f"{quality.journal_rows:,} rows of the journal are in the lake"
            + (f", {missing:,} are missing." if missing else ", none is missing."),
            class_="warn" if missing else "ok",
        )
    ]
    if quality.gaps:
        rows = [
            (gap.node, f"{gap.first:,} – {gap.last:,}", f"{gap.last - gap.first + 1:,}")
            for gap in quality.gaps
        ]
        parts.append(table(("node", "places", "rows"), rows))
        others = missing - sum(gap.last - gap.first + 1 for gap in quality.gaps)
        if others:
            parts.append(el("p", f"{others:,} more are missing at other places.", class_="note"))
    count = quality.quarantined_rows
    if count:
        parts.append(
            el("p", f"{count:,} rows could not be read and are kept in quarantine.", class_="warn")
        )
        parts.append(_ranked(quality.quarantined, ("reason", "rows"), 4, ""))
        others = count - sum(row.count for row in quality.quarantined)
        if others:
            parts.append(el("p", f"{others:,} more are there for other reasons.", class_="note"))
    else:
        parts.append(el("p", "Every row could be read.", class_="ok"))
    note = "Whether the numbers above are about everything that happened."
    return _section("quality", "Data quality", note, joined(*parts))


def _ranked(rows: Sequence[Ranked], names: Sequence[str], colour: int, none: str) -> Markup:
    most = max((row.count for row in rows), default=1)
    cells = [(joined(row.name, _bar(row.count, most, colour)), f"{row.count:,}") for row in rows]
    return table(names, cells) if cells else _none(none)


def _section(key: str, name: str, note: str, *children: str) -> Markup:
    return el("section", el("h2", name), el("p", note, class_="note"), *children, id=key)


def _bar(value: int, most: int, colour: int) -> Markup:
    return el("span", class_=f"bar c{colour}", style=f"width:{100 * value / max(1, most):.1f}%")


def _percent(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.0%}"


def _none(text: str) -> Markup:
    return el("p", text, class_="none")
