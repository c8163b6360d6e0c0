"""Remembers idempotency keys for a while, so that a retried publish is delivered once. Pure."""

from collections import OrderedDict

from arauto.model import Serial

__all__ = ["IdempotencyWindow"]

_KEYS_MAX = 10_000


class IdempotencyWindow:
    """The keys one channel has seen, oldest first, each with the serial it led to.

    Each key has a scope (`sender.scope_of`), so that nobody can use up another's keys. The window holds at
    most 10,000 keys; beyond that the oldest is forgotten early (`remember` says so).
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], tuple[int, Serial]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, scope: str, key: str, now_ms: int) -> Serial | None:
        """The serial an earlier publish with this key received, if still remembered."""
        self._expire(now_ms)
        found = self._seen.get((scope, key))
        # Not all keys are kept equally long: behind one that is, another may be over.
        return found[1] if found is not None and found[0] > now_ms else None

    def remember(self, scope: str, key: str, serial: Serial, expires_ms: int) -> bool:
        """Whether an older key had to be forgotten early for it."""
        self._seen[scope, key] = (expires_ms, serial)
        self._seen.move_to_end((scope, key))
        if len(self._seen) <= _KEYS_MAX:
            return False
        self._seen.popitem(last=False)
        return True

    def forget(self, scope: str, key: str, serial: Serial) -> None:
        """The publish that got `serial` failed after all: a retry is a new attempt."""
        found = self._seen.get((scope, key))
        if found is not None and found[1] == serial:
            del self._seen[scope, key]

    def is_over(self, now_ms: int) -> bool:
        """Whether every key has been forgotten."""
        self._expire(now_ms)
        return not self._seen

    def entries(self) -> list[tuple[str, str, int, int, int]]:
        """(scope, key, epoch, offset, expires_ms), oldest first, for export."""
        return [(u, k, s.epoch, s.offset, exp) for (u, k), (exp, s) in self._seen.items()]

    @classmethod
    def of_entries(cls, entries: list[tuple[str, str, int, int, int]]) -> "IdempotencyWindow":
        """The counterpart of `entries`."""
        window = cls()
        for scope, key, epoch, offset, expires_ms in entries:
            window.remember(scope, key, Serial(epoch, offset), expires_ms)
        return window

    def _expire(self, now_ms: int) -> None:
        while self._seen:
            first = next(iter(self._seen))
            if self._seen[first][0] > now_ms:
                return
            del self._seen[first]
