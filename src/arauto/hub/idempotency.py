"""Remembers idempotency keys for a while, so that a retried publish is delivered once. Pure."""

from collections import OrderedDict

from arauto.hub.live_memory import OldestGoes, Place
from arauto.model import Serial

__all__ = ["KEY_BYTES", "IdempotencyWindow"]

_KEYS_MAX = 10_000
#: What a key takes in memory, estimated from above: the longest there may be, and what goes with it.
KEY_BYTES = 640


class IdempotencyWindow:
    """The keys one channel has seen, oldest first, each with the serial it led to.

    Each key has a scope (`sender.scope_of`), so that nobody can use up another's keys. The window holds at
    most 10,000 keys; beyond that the oldest is forgotten early. What they take is counted in the hub's memory
    for keys, which may have the oldest go too.
    """

    __slots__ = ("_memory", "_place", "_seen")

    def __init__(self, memory: OldestGoes) -> None:
        self._memory = memory
        self._seen: OrderedDict[tuple[str, str], tuple[int, Serial]] = OrderedDict()
        self._place: Place | None = None
        """In the hub's memory, while there are any."""

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, scope: str, key: str, now_ms: int) -> Serial | None:
        """The serial an earlier publish with this key received, if still remembered."""
        self._expire(now_ms)
        found = self._seen.get((scope, key))
        # Not all keys are kept equally long: behind one that is, another may be over.
        return found[1] if found is not None and found[0] > now_ms else None

    def remember(self, scope: str, key: str, serial: Serial, expires_ms: int) -> None:
        """Remember a key as the newest; if there is no room, the oldest goes."""
        seen = self._seen
        before_len = len(seen)
        seen[scope, key] = (expires_ms, serial)
        if len(seen) == before_len:
            seen.move_to_end((scope, key))
            return
        memory = self._memory
        if before_len == _KEYS_MAX:
            memory.note_dropped(seen.popitem(last=False)[1][0])
            return
        if not before_len:
            self._place = memory.enter(self, expires_ms)
        memory.used_bytes += KEY_BYTES
        if memory.used_bytes > memory.granted_bytes:
            memory.make_room()

    def forget(self, scope: str, key: str, serial: Serial) -> None:
        """The publish that got `serial` failed after all: a retry is a new attempt."""
        found = self._seen.get((scope, key))
        if found is not None and found[1] == serial:
            del self._seen[scope, key]
            self._give(1)

    def forget_all(self) -> None:
        """The channel is of no more use."""
        gone_len = len(self._seen)
        self._seen.clear()
        self._give(gone_len)

    @property
    def oldest_ms(self) -> int:
        """When the time of the oldest key is over; only asked if there is one."""
        return next(iter(self._seen.values()))[0]

    def drop_oldest(self) -> None:
        """Forget the oldest key, for the hub needs the room; only asked if there is one."""
        self._seen.popitem(last=False)
        self._give(1)

    def is_over(self, now_ms: int) -> bool:
        """Whether every key has been forgotten."""
        self._expire(now_ms)
        return not self._seen

    def entries(self) -> list[tuple[str, str, int, int, int]]:
        """(scope, key, epoch, offset, expires_ms), oldest first, for export."""
        return [(u, k, s.epoch, s.offset, exp) for (u, k), (exp, s) in self._seen.items()]

    @classmethod
    def of_entries(
        cls, entries: list[tuple[str, str, int, int, int]], memory: OldestGoes
    ) -> "IdempotencyWindow":
        """The counterpart of `entries`."""
        window = cls(memory)
        for scope, key, epoch, offset, expires_ms in entries:
            window.remember(scope, key, Serial(epoch, offset), expires_ms)
        return window

    def _expire(self, now_ms: int) -> None:
        seen = self._seen
        gone_len = 0
        while seen:
            first = next(iter(seen))
            if seen[first][0] > now_ms:
                break
            del seen[first]
            gone_len += 1
        if gone_len:
            self._give(gone_len)

    def _give(self, gone_len: int) -> None:
        self._memory.give(gone_len * KEY_BYTES)
        if not self._seen and self._place is not None:
            self._memory.leave(self._place)
            self._place = None
