"""What was encoded for one reader and serves the next: bytes by owner and wire format, bounded per node."""

import asyncio

__all__ = ["Encodings"]


class Encodings:
    """One per node. An owner says when what it had encoded is no longer true."""

    __slots__ = ("_bytes_max", "_kept", "evicted", "made", "making", "size_bytes")

    def __init__(self, bytes_max: int = 67_108_864) -> None:
        self._bytes_max = bytes_max
        self._kept: dict[object, dict[str, bytes]] = {}
        """The least used first."""
        self.size_bytes = 0
        self.made = 0
        """How often something large was encoded."""
        self.evicted = 0
        """Encodings that were true still, and went for want of room."""
        self.making = asyncio.Lock()
        """Held while something large is encoded: one at a time, so that the others get most of each turn."""

    def find(self, owner: object, format: str) -> bytes | None:
        forms = self._kept.get(owner)
        if forms is None or format not in forms:
            return None
        self._kept[owner] = self._kept.pop(owner)
        return forms[format]

    def keep(self, owner: object, format: str, data: bytes) -> None:
        """Keep it while there is room. What alone is larger than the bound is not kept."""
        if len(data) > self._bytes_max:
            return
        forms = self._kept.pop(owner, {})
        self.size_bytes += len(data) - len(forms.get(format, b""))
        forms[format] = data
        self._kept[owner] = forms
        while self.size_bytes > self._bytes_max:
            self.evicted += len(self._kept[next(iter(self._kept))])
            self.drop(next(iter(self._kept)))

    def drop(self, owner: object) -> None:
        """The owner has changed, or is gone."""
        forms = self._kept.pop(owner, None)
        if forms is not None:
            self.size_bytes -= sum(map(len, forms.values()))
