"""The channels that closed lately: whether who comes back to a pattern missed something in one of them. Pure.

A closed channel takes its live history with it, and a pattern covers channels its holder has never
heard of. So the hub remembers of each that had messages where they ended, and whether the store has
them. Bounded: beyond that the longest closed is forgotten, and `floor_ms` tells since when nothing is
missing here.
"""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from arauto.model import Serial

__all__ = ["Departed", "Life"]

_LIVES_MAX = 10_000


class Life(msgspec.Struct, frozen=True, gc=False):
    """What is left of a channel: the ends of its latest messages, stored and unstored."""

    closed_ms: int
    last: Serial
    """Where the unstored ones ended."""
    unstored_ms: int = 0
    """When the last message was published that the store does not have; 0 = never."""
    stored_ms: int = 0


class Departed:
    """Closed channels by name, the longest closed first. Times are the hub's."""

    __slots__ = ("_lives", "floor_ms")

    def __init__(self, floor_ms: int) -> None:
        # Not a plain dict: to look for its first again and again is dear once others before it were removed.
        self._lives: OrderedDict[str, Life] = OrderedDict()
        self.floor_ms = floor_ms
        """What closed later than this is here."""

    def __len__(self) -> int:
        return len(self._lives)

    def note(self, channel: str, last: Serial, ts_ms: int, now_ms: int, *, stored: bool) -> None:
        """An epoch of a channel ended at `last`, published at `ts_ms`. Epochs are not always told in their
        order: what is known of a later one stays."""
        life = self._lives.pop(channel, None) or Life(0, last)
        if stored:
            later = msgspec.structs.replace(life, stored_ms=max(ts_ms, life.stored_ms))
        elif last >= life.last:
            later = msgspec.structs.replace(
                life, last=last, unstored_ms=max(ts_ms, life.unstored_ms)
            )
        else:
            later = life
        self._lives[channel] = msgspec.structs.replace(later, closed_ms=now_ms)
        if len(self._lives) > _LIVES_MAX:
            _, oldest = self._lives.popitem(last=False)
            self.floor_ms = max(self.floor_ms, oldest.closed_ms)

    def get(self, channel: str) -> Life | None:
        return self._lives.get(channel)

    def closed_since(self, ms: int) -> Iterator[tuple[str, Life]]:
        """Those that closed at that time or later, the latest first."""
        for channel in reversed(self._lives):
            life = self._lives[channel]
            if life.closed_ms < ms:
                return
            yield channel, life
