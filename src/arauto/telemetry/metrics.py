"""What a node counts. Plain integers on slotted objects; reading, labels and formats live elsewhere.

Whoever handles a message adds to its hub's `Counters` and to nothing else: that is one attribute
addition. Sums over the node are made when someone looks (`Metrics.total`). `intervals.py` cuts the sums
into five-minute pieces, `prometheus.py` shows them to a scraper. Everything here runs on the event loop.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from arauto.telemetry.counters import (
    COUNTER_FIELDS,
    TIMING_BOUNDS_NS,
    Counters,
    Sampler,
    Timing,
    read_counters,
)

__all__ = [
    "SLICE_LEN",
    "HubGauges",
    "Metrics",
    "NodeGauges",
    "Sums",
    "TimingTotals",
    "Totals",
]

#: Hubs looked at in one turn of the event loop, by whoever looks at all of them.
SLICE_LEN = 100
#: Hubs closed since the last interval that are still remembered by name.
_CLOSED_MAX = 10_000


class TimingTotals(msgspec.Struct, rename="camel"):
    """A `Timing` at one moment, or over one interval."""

    count: int = 0
    sum_ns: int = 0
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(TIMING_BOUNDS_NS) + 1))

    def add(self, timing: "Timing | TimingTotals", sign: int = 1) -> None:
        if not timing.count:
            return
        self.count += sign * timing.count
        self.sum_ns += sign * timing.sum_ns
        self.buckets = [
            mine + sign * theirs for mine, theirs in zip(self.buckets, timing.buckets, strict=True)
        ]


class Totals(msgspec.Struct, rename="camel", omit_defaults=True):
    """Counters at one moment, or their growth over one interval. Ready to be written as JSON."""

    backlogs_refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    deliveries: int = 0
    dropped: int = 0
    gaps: int = 0
    history_evicted: int = 0
    keys_evicted: int = 0
    messages_in: int = 0
    messages_out: int = 0
    publishes: int = 0
    retained_failures: int = 0
    retained_refused: int = 0
    session_duration_ms: int = 0
    sessions_ended: int = 0
    sessions_restored: int = 0
    sessions_started: int = 0
    slow_disconnects: int = 0
    snapshot_failures: int = 0
    stored: int = 0
    unknown_fields: int = 0
    refused: dict[int, int] = {}
    publish_time: TimingTotals = msgspec.field(default_factory=TimingTotals)
    document_time: TimingTotals = msgspec.field(default_factory=TimingTotals)

    def add(self, counters: "Counters | Totals", sign: int = 1) -> None:
        """Add (or with sign -1 take away) all of `counters`."""
        for name, value in zip(COUNTER_FIELDS, read_counters(counters), strict=True):
            if value:
                setattr(self, name, getattr(self, name) + sign * value)
        self._add_rest(counters, sign)

    def _add_rest(self, counters: "Counters | Totals", sign: int = 1) -> None:
        for code, count in counters.refused.items():
            left = self.refused.get(code, 0) + sign * count
            if left:
                self.refused[code] = left
            else:
                self.refused.pop(code, None)
        # Most hubs have no documents, and many no publication that was timed.
        if counters.publish_time.count:
            self.publish_time.add(counters.publish_time, sign)
        if counters.document_time.count:
            self.document_time.add(counters.document_time, sign)

    @classmethod
    def of_row(cls, row: Sequence[int]) -> "Totals":
        """Plain counters alone, as `read_counters` has read them."""
        totals = cls()
        for name, value in zip(COUNTER_FIELDS, row, strict=True):
            if value:
                setattr(totals, name, value)
        return totals

    @classmethod
    def of(cls, counters: "Counters | Totals") -> "Totals":
        totals = cls()
        totals.add(counters)
        return totals

    def since(self, earlier: "Totals | None") -> "Totals":
        """What was added after `earlier`."""
        growth = Totals.of(self)
        if earlier is not None:
            growth.add(earlier, sign=-1)
        return growth

    def plus(self, other: "Totals | None") -> "Totals":
        """This and another; itself if there is none."""
        if other is None:
            return self
        both = Totals.of(self)
        both.add(other)
        return both

    @classmethod
    def sum_of(cls, all_counters: "Iterable[Counters | Totals]") -> "Totals":
        totals = cls()
        rows = []
        for counters in all_counters:
            rows.append(read_counters(counters))
            totals._add_rest(counters)
        for name, column in zip(COUNTER_FIELDS, zip(*rows, strict=True), strict=bool(rows)):
            setattr(totals, name, sum(column))
        return totals

    @property
    def is_zero(self) -> bool:
        return not (
            any(read_counters(self))
            or self.refused
            or self.publish_time.count
            or self.document_time.count
        )


class HubGauges(msgspec.Struct, frozen=True, gc=False):
    """How much of everything one hub has right now."""

    hub: str
    channels: int
    sessions: int
    subscriptions: int
    live_history_bytes: int = 0
    idempotency_bytes: int = 0
    retained_bytes: int = 0
    backlogs_bytes: int = 0
    documents_bytes: int = 0


class NodeGauges(msgspec.Struct, frozen=True, gc=False):
    """How much of everything the node has right now."""

    hubs: int = 0
    channels: int = 0
    sessions: int = 0
    subscriptions: int = 0

    @classmethod
    def sum_of(cls, all_hubs: Iterable[HubGauges]) -> "NodeGauges":
        return cls().plus(all_hubs)

    def plus(self, more_hubs: Iterable[HubGauges]) -> "NodeGauges":
        """With so many hubs more."""
        hubs, channels = self.hubs, self.channels
        sessions, subscriptions = self.sessions, self.subscriptions
        for hub in more_hubs:
            hubs += 1
            channels += hub.channels
            sessions += hub.sessions
            subscriptions += hub.subscriptions
        return NodeGauges(hubs, channels, sessions, subscriptions)


class Sums:
    """The node's counters, each hub's read once, though not all in the same turn. Between two of these
    nothing goes down, and what is counted meanwhile is in the one or in the next."""

    __slots__ = ("closed", "node", "open_hubs", "rows", "total")

    def __init__(
        self, node: Totals, open_hubs: dict[str, Counters], closed: list[tuple[str, Counters]]
    ) -> None:
        self.node = node
        """What belongs to no hub."""
        self.open_hubs = open_hubs
        self.closed = closed
        """Hubs that have closed of late."""
        self.rows: dict[Counters, tuple[int, ...]] = {}
        """What was read of each of them."""
        self.total = Totals()


class Metrics:
    """All counters of a node.

    A hub keeps the same `Counters` object from `hub()` to `close_hub()`, so it may hold on to it. The
    counts of a closed hub stay in the node's total, and in its own interval until that ends.
    """

    __slots__ = (
        "_closed",
        "_closed_max",
        "_hubs",
        "_read_gauges",
        "_retired",
        "_retiring",
        "node",
        "on_forget",
        "sampler",
    )

    def __init__(self, *, closed_max: int = _CLOSED_MAX) -> None:
        self.node = Counters()
        """What belongs to no hub: refused handshakes, plain HTTP requests."""
        self.sampler = Sampler()
        """Which publications are timed."""
        self._hubs: dict[str, Counters] = {}
        self._closed: dict[str, Counters] = {}
        self._retiring: dict[str, Counters] = {}
        """Those of `_closed` that are about to be let go of."""
        self._closed_max = closed_max
        self.on_forget: Callable[[Counters], object] | None = None
        """Told of a hub's counters that are let go of at once, when too many hubs have closed."""
        self._retired = Totals()
        self._read_gauges: Callable[[], Iterable[HubGauges]] = tuple

    def hub(self, name: str) -> Counters:
        """Return the hub's counters, new ones if it has none."""
        counters = self._hubs.get(name)
        if counters is None:
            counters = self._closed.pop(name) if name in self._closed else Counters()
            self._hubs[name] = counters
        return counters

    def close_hub(self, name: str) -> None:
        """Forget a hub that has closed, once the current interval is over."""
        counters = self._hubs.pop(name, None)
        if counters is None:
            return
        if len(self._closed) < self._closed_max:
            self._closed[name] = counters
        else:
            if self.on_forget is not None:
                self.on_forget(counters)
            self._retired.add(counters)

    def retire_closed(self) -> None:
        """Let go of the names of closed hubs; their counts stay in the total."""
        for name in self.begin_retiring():
            self.retire(name)

    def begin_retiring(self) -> dict[str, Counters]:
        """The hubs that have closed until now, each to be given to `retire`; called per interval."""
        for name in self._retiring.keys() & self._closed.keys():
            self.retire(name)
        self._retiring |= self._closed
        self._closed = {}
        return dict(self._retiring)

    def retire(self, name: str) -> None:
        """Let go of the name of a closed hub; its counts stay in the total."""
        self._retired.add(self._retiring.pop(name))

    def hubs(self) -> Iterator[tuple[str, Counters]]:
        """Every open hub, and those closed in this interval."""
        yield from self._hubs.items()
        yield from self._retiring.items()
        yield from self._closed.items()

    @property
    def open_hubs(self) -> Iterable[tuple[str, Counters]]:
        return self._hubs.items()

    def total(self) -> Totals:
        """The whole node since it started."""
        return Totals.sum_of(
            [
                self._retired,
                self.node,
                *self._hubs.values(),
                *self._retiring.values(),
                *self._closed.values(),
            ]
        )

    def adding_up(self) -> Generator[None, None, Sums]:
        """The same in steps of `SLICE_LEN` hubs."""
        # All there is now, so that what is closed or let go of meanwhile is neither missing nor there twice.
        closed = [*self._retiring.items(), *self._closed.items()]
        sums = Sums(Totals.of(self.node), dict(self._hubs), closed)
        everything = [*self._hubs.values(), *(counters for _, counters in closed)]
        sums.total = Totals.sum_of([self._retired, sums.node])
        for start in range(0, len(everything), SLICE_LEN):
            yield
            some = everything[start : start + SLICE_LEN]
            sums.total.add(Totals.sum_of(some))
            sums.rows.update(zip(some, map(read_counters, some), strict=True))
        return sums

    def set_gauges(self, read: Callable[[], Iterable[HubGauges]]) -> None:
        """Say how to count what exists right now, hub by hub. Called when someone looks, who may take the
        hubs one by one over several turns: `read` decides at once which they are."""
        self._read_gauges = read

    def gauges_in_slices(self) -> Iterator[list[HubGauges]]:
        """What exists, `SLICE_LEN` hubs at a time; may be taken over several turns."""
        hubs = iter(self._read_gauges())
        while found := list(islice(hubs, SLICE_LEN)):
            yield found

    def hub_gauges(self) -> list[HubGauges]:
        return list(self._read_gauges())

    def adding_up_gauges(self) -> Generator[None, None, NodeGauges]:
        """`gauges`, in steps."""
        gauges = NodeGauges()
        for hubs in self.gauges_in_slices():
            gauges = gauges.plus(hubs)
            yield
        return gauges

    def gauges(self) -> NodeGauges:
        return NodeGauges.sum_of(self._read_gauges())
