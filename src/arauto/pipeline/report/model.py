"""What a report says, as plain records: made by `queries.py`, shown by `page.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "ChannelRow",
    "Gap",
    "Peak",
    "Point",
    "Quality",
    "Ranked",
    "Report",
    "RuleRow",
    "Step",
    "Totals",
]

Step = Literal["5m", "hour", "day"]


@dataclass(frozen=True, slots=True)
class Totals:
    """The numbers of a whole period."""

    messages_in: int = 0
    """Published, whether stored or not."""
    messages_out: int = 0
    """Delivered to subscribers."""
    bytes_in: int = 0
    """Of the requests that were read; where counters are missing, of the messages that were stored."""
    bytes_out: int = 0
    published: int = 0
    refused: int = 0
    dropped: int = 0
    sessions_started: int = 0
    sessions_ended: int = 0
    sessions_peak: int = 0
    users: int = 0
    channels: int = 0
    duration_mean_ms: float | None = None
    duration_p95_ms: int | None = None
    rules_fired: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One step of the charts."""

    start_ms: int
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    sessions: int = 0
    """The most at one time."""
    refused: int = 0
    mean_ms: float | None = None
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """A busy minute or hour."""

    start_ms: int
    messages: int
    channel: str
    """The one with the most messages in it."""
    channel_messages: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A name and how often."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel's part of the traffic."""

    name: str
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A correlation rule and what it did."""

    name: str
    count: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows of a node's journal that never arrived."""

    node: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Quality:
    """How far the numbers can be trusted."""

    journal_rows: int = 0
    """Rows of the journal that are in the lake now."""
    missing_rows: int = 0
    """Of all gaps, also of those that are not listed."""
    gaps: tuple[Gap, ...] = ()
    """The first ones."""
    quarantined_rows: int = 0
    """For all reasons, also for those that are not listed."""
    quarantined: tuple[Ranked, ...] = ()
    """The most frequent reasons."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    hub: str
    """Empty = all hubs."""
    from_ms: int
    to_ms: int
    made_ms: int
    step: Step
    now: Totals
    before: Totals | None
    """The period of the same length before; None if nothing is known of it."""
    points: tuple[Point, ...] = ()
    minutes: tuple[Peak, ...] = ()
    hours: tuple[Peak, ...] = ()
    starts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(weekday, 0 = Monday; hour) → sessions started."""
    errors: tuple[Ranked, ...] = ()
    channels: tuple[ChannelRow, ...] = ()
    users: tuple[Ranked, ...] = ()
    rules: tuple[RuleRow, ...] = ()
    quality: Quality = field(default_factory=Quality)
    cut_ms: int = 0
    """Where it ends early, since the rest of what was asked for is still being counted; 0 = it does not."""
