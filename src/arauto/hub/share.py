"""How many bytes a hub holds of one kind, and how many its node holds for all hubs together.

A hub's `Share` is counted on the way of every message, so that costs one addition and one comparison: what
is used against what was granted. The node's `Pool` grants in steps, and is asked only when a step is used
up. What to do when nothing more is granted is the owner's policy. Neighbours: `live_memory.py`, the share
that makes room by itself; `holdings.py`, all shares of a hub.
"""

from sys import getsizeof

from mypy_extensions import mypyc_attr

from arauto.model import Message

__all__ = ["Pool", "Share", "size_of"]

#: What a message in memory takes beside its payload, keys and headers: the record, and its short texts.
_MESSAGE_BYTES = 512
#: What headers take in all, and each beside its name and value.
_HEADERS_BYTES = 160
_HEADER_BYTES = 48
#: What a text takes beside its characters if it is ASCII, and else beside those and their UTF-8.
_TEXT_BYTES = 72
_WIDE_TEXT_BYTES = 48
#: A pool grants so much more than is used, and takes back what exceeds twice as much.
_STEP_BYTES = 8_192
_UNLIMITED = 1 << 62
_CLOSED = -1


def size_of(message: Message) -> int:
    """What a message takes in memory, estimated from above."""
    size_bytes = len(message.payload) + _MESSAGE_BYTES
    if message.id:
        size_bytes += _size_of_text(message.id)
    if message.key:
        size_bytes += _size_of_text(message.key)
    if message.exclude:
        size_bytes += _size_of_text(message.exclude)
    headers = message.headers
    if headers is not None:
        size_bytes += _HEADERS_BYTES
        for name, value in headers.items():
            size_bytes += _HEADER_BYTES + _TEXT_BYTES + len(name) + _size_of_text(value)
    return size_bytes


def _size_of_text(text: str) -> int:
    if text.isascii():
        return _TEXT_BYTES + len(text)
    # As wide as its widest character, as a copy is; and its UTF-8, which encoders leave beside it.
    return _WIDE_TEXT_BYTES + getsizeof(text + "\0") + len(text.encode())


class Pool:
    """What all hubs of a node may hold of one kind; 0 = no limit.

    Where what is held cannot simply be taken from who holds the most, the pool `leaves_room`: no hub is
    granted more than it leaves to all others. So one hub alone never uses it up.
    """

    __slots__ = ("granted_bytes", "leaves_room", "limit_bytes", "shares")

    def __init__(self, limit_bytes: int = 0, *, leaves_room: bool = False) -> None:
        self.limit_bytes = limit_bytes or _UNLIMITED
        self.leaves_room = leaves_room
        self.granted_bytes = 0
        self.shares: dict[Share, None] = {}
        """Those that were granted something."""

    @property
    def used_bytes(self) -> int:
        return sum(share.used_bytes for share in self.shares)


@mypyc_attr(allow_interpreted_subclasses=True)
class Share:
    """What one hub holds of one kind, and how much of the pool it was granted."""

    __slots__ = ("_limit_bytes", "granted_bytes", "pool", "used_bytes")

    def __init__(self, pool: Pool, limit_bytes: int = 0) -> None:
        self.pool = pool
        self._limit_bytes = limit_bytes or _UNLIMITED
        self.used_bytes = 0
        """Add to it what is held and compare it with `granted_bytes`; above that, ask `fits`."""
        self.granted_bytes = 0

    @property
    def is_over_quota(self) -> bool:
        """Whether it is the hub that holds too much, and not the node."""
        return self.used_bytes > self._limit_bytes

    def set_limit(self, limit_bytes: int) -> None:
        """Change the hub's quota live; 0 = none."""
        if self._limit_bytes == _CLOSED:
            return
        self._limit_bytes = limit_bytes or _UNLIMITED
        if self.granted_bytes > self._limit_bytes:
            # So that the next thing held is compared with the quota again.
            self._grant(self._limit_bytes)

    def fits(self) -> bool:
        """Whether all that is used may be, after asking for more if need be."""
        used_bytes = self.used_bytes
        if used_bytes <= self.granted_bytes:
            return True
        if used_bytes > self._limit_bytes:
            return False
        pool = self.pool
        free_bytes = pool.limit_bytes - pool.granted_bytes + self.granted_bytes
        if pool.leaves_room:
            free_bytes //= 2
        if used_bytes > free_bytes:
            return False
        self._grant(min(used_bytes + _STEP_BYTES, self._limit_bytes, free_bytes))
        return True

    def take(self, size_bytes: int) -> bool:
        """Hold so much more if that is allowed; whether it is."""
        self.used_bytes += size_bytes
        if self.used_bytes <= self.granted_bytes or self.fits():
            return True
        self.used_bytes -= size_bytes
        return False

    def give(self, size_bytes: int) -> None:
        """So much is no longer held."""
        if self._limit_bytes == _CLOSED:
            return
        self.used_bytes -= size_bytes
        if self.granted_bytes - self.used_bytes > 2 * _STEP_BYTES:
            self._grant(self.used_bytes + _STEP_BYTES)

    def settle(self) -> None:
        """Give back what was granted and is not used."""
        if self.granted_bytes > self.used_bytes:
            self._grant(self.used_bytes)

    def close(self) -> None:
        """The hub is gone, and all it held with it. Who comes late is granted nothing more."""
        self.used_bytes = 0
        self._limit_bytes = _CLOSED
        self._grant(0)

    def _grant(self, size_bytes: int) -> None:
        pool = self.pool
        pool.granted_bytes += size_bytes - self.granted_bytes
        self.granted_bytes = size_bytes
        if size_bytes:
            pool.shares[self] = None
        else:
            pool.shares.pop(self, None)
