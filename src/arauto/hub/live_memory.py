"""A hub's share of the memory for live history: where it is used up, the oldest messages of the hub go.

Which channel has the oldest is found in a heap of channels, by the time of the oldest message each had when
it was last looked at. Since that only grows, an entry is looked at again when it comes up, and nothing is
kept up to date meanwhile: publishing does not touch the heap. If it is the node that holds too much, the hub
with the most gives.
"""

from heapq import heapify, heappop, heappush, heapreplace

from arauto.hub.hooks import Recent
from arauto.hub.share import Pool, Share
from arauto.telemetry.counters import Counters

__all__ = ["LiveMemory", "Place"]

#: Entries looked at again before the next message goes that comes up, be it the oldest or not.
_STALE_LEN_MAX = 256
#: Messages that go for one that comes: enough, unless a quota was lowered. Then the rest go with the next.
_ROOM_LEN_MAX = 1_024
#: What a hub gives at once where the node holds too much.
_RELIEF_BYTES = 65_536
#: The heap is cleaned when it has this many more entries than twice those of channels that are there.
_SWEEP_LEN = 64


class Place:
    """A channel's entry in the heap."""

    __slots__ = ("oldest_ms", "recent", "seq")

    def __init__(self, oldest_ms: int, seq: int, recent: Recent) -> None:
        self.oldest_ms = oldest_ms
        self.seq = seq
        self.recent: Recent | None = recent
        """None once it remembers nothing."""

    def __lt__(self, other: "Place") -> bool:
        if self.oldest_ms != other.oldest_ms:
            return self.oldest_ms < other.oldest_ms
        return self.seq < other.seq


class LiveMemory(Share):
    """Counts what live history holds and makes room for what comes."""

    __slots__ = ("_counters", "_heap", "_len", "_seq")

    def __init__(self, pool: Pool, limit_bytes: int, counters: Counters) -> None:
        super().__init__(pool, limit_bytes)
        self._counters = counters
        self._heap: list[Place] = []
        self._len = 0
        self._seq = 0

    def enter(self, recent: Recent, oldest_ms: int) -> Place:
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
        """Let go of the hub's oldest message; whether there was one."""
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
            self._counters.history_evicted += 1
            return True
        return False

    def _relieve_pool(self) -> None:
        """Have the hub that holds the most give more than is needed now, so that it is not looked for with
        every message."""
        largest = self
        for share in self.pool.shares:
            if isinstance(share, LiveMemory) and share.used_bytes > largest.used_bytes:
                largest = share
        enough_bytes = self.pool.granted_bytes - _RELIEF_BYTES
        while self.pool.granted_bytes > enough_bytes and largest.drop_oldest():
            largest.settle()
