"""Roll-ups: the records, and where each is kept. Pure.

The pipeline sums up the journal; the node keeps the sums, so that charts need neither Spark nor the lake.
Rows that lie beside each other in time are kept together in a chunk: an hour of five-minute rows, a day of
hourly rows, a year of daily rows.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

from arauto.limits import UINT53_MAX

__all__ = [
    "FUTURE_MS",
    "PAGE_LEN_MAX",
    "PERIODS",
    "ROWS_LEN_MAX",
    "Period",
    "PeriodName",
    "Rollup",
    "RollupBody",
    "RollupPage",
    "RollupPoint",
    "RollupRow",
    "RollupsStored",
]

ROWS_LEN_MAX = 1_000
PAGE_LEN_MAX = 1_500

_DAY_MS = 86_400_000

#: How far ahead of this node's clock a row may begin: clocks differ, but not by more than a day.
FUTURE_MS = _DAY_MS

PeriodName = Literal["5m", "hour", "day"]
_Count = Annotated[int, msgspec.Meta(ge=0, le=UINT53_MAX)]
_Ms = Annotated[float, msgspec.Meta(ge=0, le=float(UINT53_MAX))]


class _Record(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    pass


class Rollup(_Record, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over one period. What is not known is left out."""

    messages_in: _Count | None = None
    """Requests read from clients."""
    messages_out: _Count | None = None
    """Frames written to clients."""
    bytes_in: _Count | None = None
    bytes_out: _Count | None = None
    published: _Count | None = None
    """Messages stored in the journal; what a channel does not store is not among them."""
    published_bytes: _Count | None = None
    """Payload bytes of the stored ones."""
    deliveries: _Count | None = None
    """Messages handed to subscribers."""
    dropped: _Count | None = None
    """Deliveries given up for slow subscribers."""
    refused: _Count | None = None
    """Requests and connections refused."""
    hubs: _Count | None = None
    """Hubs open: the most at the end of any interval of counters, added up over the nodes."""
    channels: _Count | None = None
    """Channels open, counted as `hubs`: each node's most, added up over the nodes."""
    sessions: _Count | None = None
    """Sessions connected, counted as `hubs`: each node's most, added up over the nodes."""
    sessions_peak: _Count | None = None
    """The most sessions at a time, sampled also within intervals; added up over the nodes."""
    subscriptions: _Count | None = None
    """Subscriptions, counted as `hubs`: each node's most, added up over the nodes."""
    sessions_started: _Count | None = None
    sessions_ended: _Count | None = None
    duration_mean_ms: _Ms | None = None
    """How long the sessions lasted that ended in the period."""
    duration_p50_ms: _Ms | None = None
    duration_p95_ms: _Ms | None = None
    duration_p99_ms: _Ms | None = None
    distinct_channels: _Count | None = None
    """Channels with stored messages, estimated."""
    distinct_users: _Count | None = None
    """Users who published stored messages, estimated."""


class RollupRow(_Record, frozen=True, kw_only=True):
    """One period of one hub, or of all hubs together."""

    period: PeriodName
    hub: str
    """"" = all hubs together."""
    start_ms: Annotated[int, msgspec.Meta(ge=0, le=UINT53_MAX)]
    """A multiple of the period; days are those of UTC."""
    values: Rollup


class RollupBody(_Record, frozen=True, kw_only=True):
    """Rows to keep. Each replaces the row of the same period, hub and start."""

    rows: list[RollupRow]


class RollupsStored(_Record, frozen=True, kw_only=True):
    """What became of the rows."""

    stored: int
    skipped: int
    """Rows too old to be kept."""


class RollupPoint(_Record, frozen=True, kw_only=True):
    """One period."""

    start_ms: int
    values: Rollup


class RollupPage(_Record, frozen=True, kw_only=True):
    """Periods in order of time. Those of which nothing is known are left out."""

    period: PeriodName
    hub: str
    """"" = all hubs together."""
    items: list[RollupPoint]
    next: int
    """Give this as `fromMs` for the next page; 0 on the last. A page may be empty and not the last."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """How rows of one period are kept."""

    name: PeriodName
    step_ms: int
    keep_ms: int
    """0 = for ever."""
    shown_ms: int
    """What is shown when nobody says which."""
    chunk_format: str
    """Which chunk a moment belongs to."""
    chunk_ms: int
    """No chunk is longer, and none but the last of a calendar's irregular ones is shorter."""

    def chunk_of(self, start_ms: int) -> str:
        """The key of the chunk that holds the row."""
        at = datetime.fromtimestamp(start_ms / 1000, UTC)
        return f"analytics/{self.name}/{at.strftime(self.chunk_format)}"

    def chunks(self, from_ms: int, to_ms: int) -> Iterator[str]:
        """The keys of the chunks that may hold rows from `from_ms` up to, and not at, `to_ms`, in order."""
        last = ""
        # Half a chunk at a time, so that no chunk is stepped over, however irregular.
        for at_ms in (*range(from_ms, to_ms, self.chunk_ms // 2), to_ms - 1):
            key = self.chunk_of(at_ms)
            if key > last:
                yield key
                last = key

    def ttl_s(self, start_ms: int, now_ms: int) -> float:
        """How long the chunk of that row is kept from now on; 0 = for ever, below 0 = no longer."""
        if not self.keep_ms:
            return 0
        # Each chunk as long as its last row; the row itself tells where that can be.
        left_ms = start_ms + self.chunk_ms + self.keep_ms - now_ms
        return left_ms / 1000 if left_ms > 0 else -1

    def oldest_ms(self, now_ms: int) -> int:
        """Nothing before this is kept."""
        return max(0, now_ms - self.keep_ms) if self.keep_ms else 0


PERIODS: Final[dict[str, Period]] = {
    period.name: period
    for period in (
        Period(
            name="5m",
            step_ms=300_000,
            keep_ms=90 * _DAY_MS,
            shown_ms=_DAY_MS,
            chunk_format="%Y-%m-%dT%H",
            chunk_ms=3_600_000,
        ),
        Period(
            name="hour",
            step_ms=3_600_000,
            keep_ms=3 * 366 * _DAY_MS,
            shown_ms=30 * _DAY_MS,
            chunk_format="%Y-%m-%d",
            chunk_ms=_DAY_MS,
        ),
        Period(
            name="day",
            step_ms=_DAY_MS,
            keep_ms=0,
            shown_ms=366 * _DAY_MS,
            chunk_format="%Y",
            chunk_ms=366 * _DAY_MS,
        ),
    )
}
