"""Small records of a channel: messages on their way to the disk, and its state on its way elsewhere."""

from collections.abc import Callable

import msgspec

from arauto.errors import ArautoError, Code, StorageError
from arauto.model import Message, Serial

__all__ = ["ChannelState", "PublishReply", "Waiting"]

PublishReply = Callable[[Serial | None, bool, ArautoError | None], None]
"""(serial, duplicate, error): exactly one of serial and error is given."""


class Waiting:
    """A message that has its serial but may not be delivered yet."""

    __slots__ = ("error", "message", "ready", "replies", "started_s", "stored")

    def __init__(
        self, message: Message, reply: PublishReply | None, started_s: float, *, ready: bool
    ) -> None:
        self.message = message
        self.replies = [reply] if reply is not None else []
        self.started_s = started_s
        """When the publication came, if it is one of those that are timed; else 0."""
        self.ready = ready
        self.stored = not ready
        self.error: StorageError | None = None


class ChannelState(msgspec.Struct):
    """Everything a channel would lose with its node."""

    epoch: int
    offset: int
    ts_ms: int
    keys: list[tuple[str, str, int, int, int]]
    """Idempotency keys: (user, key, epoch, offset, expires_ms), oldest first."""
    features: dict[str, bytes]
    own: bytes
    """What the channel type itself holds."""

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpack(cls, data: bytes) -> "ChannelState":
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise ArautoError(Code.CONFLICT, "the channel state cannot be read") from error
