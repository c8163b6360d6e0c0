"""Since when each channel of a hub is stored, and for how long, as it is now. Pure.

Who comes back to a pattern after a restart is told that nothing was lost only if no channel it covers can
have been stored otherwise meanwhile, whether anybody remembers that channel or not. Settings say in parts how
channels are stored: all of them, those of a namespace, single ones. So each part has its time, and a change
to one says nothing of the others. A part that is no longer set leaves its time to what holds in its place.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from arauto.model import When
from arauto.names import namespace_of

__all__ = ["Keeping", "Kept"]

Kept = tuple[When, float]
"""Which messages are stored, and for how many seconds."""

#: Stands for all channels that no other part stands for.
_OTHERS = ""


class _Part(msgspec.Struct, frozen=True, gc=False):
    since_ms: int
    store: When
    store_s: float

    @property
    def kept(self) -> Kept:
        return self.store, self.store_s


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, _Part]).decode


class Keeping:
    """The parts by name: "" for all channels, "n:*" for those of a namespace, a channel's own. Immutable."""

    __slots__ = ("_parts",)

    def __init__(self, kept: Mapping[str, Kept], since_ms: int) -> None:
        """`kept` is what `HubState.keeping` says, all of it since then."""
        self._parts = {name: _Part(since_ms, *how) for name, how in kept.items()}
        self._leave_out_equal()

    def since_ms(self, names: Iterable[str]) -> int:
        """Since when all these parts, or channels, are as they are."""
        return max(self._part_of(name).since_ms for name in names)

    def after(self, kept: Mapping[str, Kept], now_ms: int) -> "Keeping":
        """The same once other settings are in force."""
        later = Keeping({}, 0)
        parts = later._parts
        for name, how in kept.items():
            before = self._part_of(name)
            parts[name] = _Part(before.since_ms if before.kept == how else now_ms, *how)
        for name, before in self._parts.items():
            if name not in parts:
                heir = next(other for other in _above(name) if other in parts)
                now = parts[heir]
                since_ms = before.since_ms if before.kept == now.kept else now_ms
                parts[heir] = _Part(max(since_ms, now.since_ms), *now.kept)
        later._leave_out_equal()
        return later

    def encode(self) -> bytes:
        return _encode(self._parts)

    @classmethod
    def decode(cls, data: bytes) -> "Keeping | None":
        """The counterpart of `encode`; None if it cannot be read."""
        try:
            parts = _decode(data)
        except msgspec.MsgspecError:
            return None
        if _OTHERS not in parts:
            return None
        found = cls({}, 0)
        found._parts = parts
        return found

    def _part_of(self, name: str) -> _Part:
        part = self._parts.get(name)
        if part is not None:
            return part
        return next(self._parts[other] for other in _above(name) if other in self._parts)

    def _leave_out_equal(self) -> None:
        """A part that is like the one above it need not be noted."""
        parts = self._parts
        for name in [name for name in parts if name != _OTHERS]:
            part = parts.pop(name)
            if self._part_of(name) != part:
                parts[name] = part


def _above(name: str) -> Iterator[str]:
    """The parts that a channel, or a part, goes by where nothing stands for it alone."""
    namespace = namespace_of(name)
    if namespace and name != f"{namespace}:*":
        yield f"{namespace}:*"
    yield _OTHERS
