"""A hub's share of the memory for what channels remember: where it is used up, the oldest of the hub goes.

One for live history, one for idempotency keys. Which channel has the oldest is found in a heap of channels,
by the time of the oldest each had when it was last looked at. Since that only grows, an entry is looked at
again when it comes up, and nothing is kept up to date meanwhile: publishing does not touch the heap. If it is
the node that holds too much, the hub with the most gives.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Protocol

from mypy_extensions import mypyc_attr

from arauto.clock import Clock
from arauto.hub.share import Pool, Share
from arauto.telemetry.counters import Counters

__all__ = ["KeyMemory", "LiveMemory", "OldestGoes", "Place", "Remembering"]

#: Entries looked at again before the next goes that comes up, be it the oldest or not.
_STALE_LEN_MAX = 256
#: How many go for one that comes: enough, unless a quota was lowered. Then the rest go with the next.
_ROOM_LEN_MAX = 1_024
#: What a hub gives at once where the node holds too much.
_RELIEF_BYTES = 65_536
#: The heap is cleaned when it has this many more entries than twice those of channels that are there.
_SWEEP_LEN = 64


class Remembering(Protocol):
    """What one channel remembers. Only asked if it is something."""

    @property
    def oldest_ms(self) -> int:
        """By what time the oldest comes before that of others."""
        ...

    def drop_oldest(self) -> None:
        """Forget the oldest, for the hub needs the room."""
        ...


class Place:
    """A channel's entry in the heap."""

    __slots__ = ("oldest_ms", "recent", "seq")

    def __init__(self, oldest_ms: int, seq: int, recent: Remembering) -> None:
        self.oldest_ms = oldest_ms
        self.seq = seq
        self.recent: Remembering | None = recent
        """None once it remembers nothing."""

    def __lt__(self, other: "Place") -> bool:
        if self.oldest_ms != other.oldest_ms:
            return self.oldest_ms < other.oldest_ms
        return self.seq < other.seq


@mypyc_attr(allow_interpreted_subclasses=True)
class OldestGoes(Share):
    """Counts what channels remember and makes room for what comes."""

    __slots__ = ("_heap", "_len", "_seq")

    def __init__(self, pool: Pool, limit_bytes: int) -> None:
        super().__init__(pool, limit_bytes)
        self._heap: list[Place] = []
        self._len = 0
        self._seq = 0

    def note_dropped(self, oldest_ms: int) -> None:
        """The oldest, of that time, went for lack of room: what follows is for each kind of memory to say."""
        raise NotImplementedError

    def enter(self, recent: Remembering, oldest_ms: int) -> Place:
        """A channel begins to remember."""
        self._seq += 1
        self._len += 1
        place = Place(oldest_ms, self._seq, recent)
        heappush(self._heap, place)
        return place

    def leave(self, place: Place) -> None:
        """A channel remembers nothing any more."""
        place.recent = None
        self._len -= 1
        if len(self._heap) > 2 * self._len + _SWEEP_LEN:
            self._heap = [other for other in self._heap if other.recent is not None]
            heapify(self._heap)

    def make_room(self) -> None:
        """More is used than was granted: get more, or let the oldest go."""
        if self.fits():
            return
        if not self.is_over_quota:
            self._relieve_pool()
        for _ in range(_ROOM_LEN_MAX):
            if self.fits() or not self.drop_oldest():
                return

    def drop_oldest(self) -> bool:
        """Let go of the oldest that the hub's channels remember; whether there was any."""
        stale_len = 0
        while self._heap:
            place = self._heap[0]
            recent = place.recent
            if recent is None:
                heappop(self._heap)
                continue
            oldest_ms = recent.oldest_ms
            if oldest_ms > place.oldest_ms and stale_len < _STALE_LEN_MAX:
                stale_len += 1
                place.oldest_ms = oldest_ms
                heapreplace(self._heap, place)
                continue
            recent.drop_oldest()
            self.note_dropped(oldest_ms)
            return True
        return False

    def _relieve_pool(self) -> None:
        """Have the hub that holds the most give more than is needed now, so that it is not looked for with
        every message."""
        largest = self
        for share in self.pool.shares:
            if isinstance(share, OldestGoes) and share.used_bytes > largest.used_bytes:
                largest = share
        enough_bytes = self.pool.granted_bytes - _RELIEF_BYTES
        while self.pool.granted_bytes > enough_bytes and largest.drop_oldest():
            largest.settle()


class LiveMemory(OldestGoes):
    """What live history holds: messages, by when they were published."""

    __slots__ = ("_counters",)

    def __init__(self, pool: Pool, limit_bytes: int, counters: Counters) -> None:
        super().__init__(pool, limit_bytes)
        self._counters = counters

    def note_dropped(self, oldest_ms: int) -> None:
        self._counters.history_evicted += 1


class KeyMemory(OldestGoes):
    """What idempotency keys take, by when their time is over."""

    __slots__ = ("_clock", "_counters")

    def __init__(self, pool: Pool, limit_bytes: int, counters: Counters, clock: Clock) -> None:
        super().__init__(pool, limit_bytes)
        self._counters = counters
        self._clock = clock

    def note_dropped(self, oldest_ms: int) -> None:
        # Who forgets what is over only looks when something happens on the channel.
        if oldest_ms > self._clock.wall_ms():
            self._counters.keys_evicted += 1
