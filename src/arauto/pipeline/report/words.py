"""Numbers and times as people read them. Pure."""

from datetime import UTC, datetime
from typing import Literal

__all__ = ["Kind", "amount", "change", "clock", "date_range", "day", "number", "size", "span"]

Kind = Literal["count", "bytes", "ms"]

_MONTHS = "January February March April May June July August September October November December"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def amount(value: float | None, kind: Kind) -> str:
    """A value of a kind."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    return {"count": number, "bytes": size, "ms": span}[kind](value)


def number(value: float) -> str:
    """123, 45.6 k, 7.8 M."""
    return _scaled(value, 1000, ("", " k", " M", " bn"))


def size(value: float) -> str:
    """123 B, 45.6 kB, 7.8 MB."""
    return _scaled(value, 1000, (" B", " kB", " MB", " GB", " TB", " PB"))


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    step = 0
    # 999.95 would be shown as 1000.0
    while abs(value) >= base - 0.05 * (step > 0) and step < len(units) - 1:
        value /= base
        step += 1
    if step == 0 or abs(value) >= 100:
        return f"{value:,.0f}{units[step]}"
    return f"{value:.1f}{units[step]}"


def span(ms: float) -> str:
    """250 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for unit, below, name, part in (
        (60, 1, "min", "s"),
        (3_600, 60, "h", "min"),
        (86_400, 3_600, "d", "h"),
    ):
        if seconds < unit * (60 if name != "h" else 24) or name == "d":
            rest = seconds % unit // below
            return f"{seconds // unit} {name}" + (f" {rest} {part}" if rest else "")
    raise AssertionError  # days take the rest


def change(now: float | None, before: float | None) -> float | None:
    """By which share a number grew; None if that means nothing."""
    if now is None or not before:
        return None
    return now / before - 1


def clock(ms: int, *, with_day: bool = True) -> str:
    """Tue 3 Nov 14:05."""
    at = _at(ms)
    time = f"{at.hour:02}:{at.minute:02}"
    return f"{day(ms)} {time}" if with_day else time


def day(ms: int) -> str:
    """Tue 3 Nov."""
    at = _at(ms)
    return f"{_DAYS[at.weekday()]} {at.day} {_month(at)[:3]}"


def date_range(from_ms: int, to_ms: int) -> str:
    """What a period is called: whole days by their dates, anything else with times. The end is exclusive."""
    start, end = _at(from_ms), _at(to_ms)
    if from_ms % 86_400_000 or to_ms % 86_400_000:
        first, last = (f"{at.hour:02}:{at.minute:02}" for at in (start, end))
        return f"{_date(start)} {first} – {_date(end)} {last}"
    final = _at(to_ms - 1)
    return _date(start) if start.date() == final.date() else f"{_date(start)} – {_date(final)}"


def _date(at: datetime) -> str:
    return f"{at.day} {_month(at)} {at.year}"


def _month(at: datetime) -> str:
    return _MONTHS.split()[at.month - 1]


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
