"""How much waits to be written, and for whom: the bounds of a store's queue, and each hub's share in it.

A hub may have as much waiting as it leaves to all others, so that one alone never fills the queue; one that
has nothing waiting is let in as long as there is any room. What belongs to no hub, the node's own, has no
share to keep to. All state belongs to the loop's thread.
"""

from arauto.errors import Code, StorageError
from arauto.storage.base import StorageCounters, WriteLimits

__all__ = ["Tally", "Waiting"]


class Tally:
    """How many writes, of how many bytes."""

    __slots__ = ("count", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0


class Waiting:
    """Counts what was let in and has not left."""

    __slots__ = ("_bytes_max", "_count_max", "_counters", "_hubs", "count", "size_bytes")

    def __init__(self, limits: WriteLimits, counters: StorageCounters) -> None:
        self._count_max = limits.pending_entries_max
        self._bytes_max = limits.pending_bytes_max
        self._counters = counters
        self._hubs: dict[str, Tally] = {}
        self.count = 0
        self.size_bytes = 0

    @property
    def hubs_len(self) -> int:
        """How many hubs have something waiting."""
        return len(self._hubs)

    def enter(self, hub: str, size_bytes: int) -> StorageError | None:
        """Let a write in, or return why not: STORAGE_UNAVAILABLE if the node's queue is full,
        STORAGE_SHARE_FULL if the hub's share is.
        """
        count, sum_bytes = self.count + 1, self.size_bytes + size_bytes
        if count > self._count_max or sum_bytes > self._bytes_max:
            self._counters.refused += 1
            return StorageError(
                Code.STORAGE_UNAVAILABLE, "too many writes are waiting; retry later"
            )
        if hub:
            tally = self._hubs.get(hub)
            if tally is None:
                tally = self._hubs[hub] = Tally()
            elif (
                tally.count + count >= self._count_max
                or tally.size_bytes + size_bytes + sum_bytes > self._bytes_max
            ):
                self._counters.refused += 1
                self._counters.refused_shares += 1
                return StorageError(
                    Code.STORAGE_SHARE_FULL, f"too many writes of the hub {hub} are waiting"
                )
            tally.count += 1
            tally.size_bytes += size_bytes
        self.count = count
        self.size_bytes = sum_bytes
        return None

    def leave(self, hub: str, count: int, size_bytes: int) -> None:
        """So much of what a hub had waiting is through, or has failed."""
        self.count -= count
        self.size_bytes -= size_bytes
        if hub:
            tally = self._hubs[hub]
            tally.count -= count
            tally.size_bytes -= size_bytes
            if not tally.count:
                del self._hubs[hub]
