"""What connections hold of messages that are not whole yet, and of read buffers that grew for large ones.

The buffer of a connection grows with what is sent, and stays, because the next message may be as large. All
of them together have a bound. At the bound the hub that holds the most gives room: first the buffers in which
nothing waits, which nobody notices, and then connections whose message has been on its way for longest, which
are cut off. So a client that never ends its messages makes room for those that do.
"""

from typing import Protocol

__all__ = ["Holder", "ReadBuffers"]

_UNLIMITED = 1 << 62


class Holder(Protocol):
    """A connection, as far as it holds something."""

    hub: str
    held_bytes: int
    """Kept by `ReadBuffers`: what it was granted and has not given back."""

    def shrink(self) -> None:
        """Let go of a buffer in which nothing waits."""

    def cut_off(self) -> None:
        """End the connection, and let go of what it sent."""


class _OfHub:
    """What one hub's connections hold, those that hold it for longest first."""

    __slots__ = ("held_bytes", "idle", "unfinished")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.idle: dict[Holder, None] = {}
        self.unfinished: dict[Holder, None] = {}


class ReadBuffers:
    """The bound for all connections of a node; 0 = none."""

    __slots__ = ("_hubs", "_limit_bytes", "cut_off", "held_bytes", "shrunk")

    def __init__(self, limit_bytes: int = 0) -> None:
        self._limit_bytes = limit_bytes or _UNLIMITED
        self._hubs: dict[str, _OfHub] = {}
        self.held_bytes = 0
        self.shrunk = 0
        """Buffers that were made small again."""
        self.cut_off = 0
        """Connections that were ended for room."""

    def take(self, holder: Holder, size_bytes: int) -> bool:
        """Let a connection hold so much more; False if no room can be made, and it is to be cut off."""
        while self.held_bytes + size_bytes > self._limit_bytes:
            if not self._make_room(holder, size_bytes):
                self.cut_off += 1
                return False
        of_hub = self._hubs.get(holder.hub)
        if of_hub is None:
            of_hub = self._hubs[holder.hub] = _OfHub()
        if not holder.held_bytes:
            of_hub.unfinished[holder] = None
        holder.held_bytes += size_bytes
        of_hub.held_bytes += size_bytes
        self.held_bytes += size_bytes
        return True

    def give(self, holder: Holder, size_bytes: int) -> None:
        """So much of it is no longer held."""
        of_hub = self._hubs[holder.hub]
        holder.held_bytes -= size_bytes
        of_hub.held_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if not holder.held_bytes:
            of_hub.idle.pop(holder, None)
            of_hub.unfinished.pop(holder, None)
            if not of_hub.held_bytes:
                del self._hubs[holder.hub]

    def give_all(self, holder: Holder) -> None:
        """It holds nothing any more."""
        if holder.held_bytes:
            self.give(holder, holder.held_bytes)

    def went_on(self, holder: Holder, *, is_idle: bool) -> None:
        """A message has become whole; with `is_idle` no other one has begun."""
        of_hub = self._hubs[holder.hub]
        of_hub.idle.pop(holder, None)
        of_hub.unfinished.pop(holder, None)
        (of_hub.idle if is_idle else of_hub.unfinished)[holder] = None

    def began(self, holder: Holder) -> None:
        """Part of a message came, and none has become whole. Who is at one already goes on standing still."""
        of_hub = self._hubs[holder.hub]
        if holder in of_hub.idle:
            del of_hub.idle[holder]
            of_hub.unfinished[holder] = None

    def _make_room(self, asker: Holder, size_bytes: int) -> bool:
        # Looking at all hubs is for the worst case; each of them holds a buffer's first growth at least.
        if not self._hubs:
            return False
        most = max(self._hubs, key=lambda hub: self._hubs[hub].held_bytes)
        own = self._hubs.get(asker.hub)
        if own is not None and own.held_bytes + size_bytes > self._hubs[most].held_bytes:
            most = asker.hub
        of_hub = self._hubs[most]
        for holder in of_hub.idle:
            if holder is not asker:
                self.shrunk += 1
                self.give_all(holder)
                holder.shrink()
                return True
        for holder in of_hub.unfinished:
            if holder is not asker:
                self.cut_off += 1
                self.give_all(holder)
                holder.cut_off()
                return True
        return False
