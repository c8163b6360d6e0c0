"""Small records of a channel: messages on their way to the disk, and its state on its way elsewhere."""

import zlib
from collections.abc import Callable
from typing import Annotated

import msgspec

from arauto.errors import ArautoError, Code, StorageError
from arauto.limits import EPOCH_MAX
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


_CRC_BYTES = 4

_Number = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]


class ChannelState(msgspec.Struct):
    """Everything a channel would lose with its node."""

    hub: str
    channel: str
    epoch: _Number
    offset: _Number
    ts_ms: _Number
    keys: list[tuple[str, str, int, int, int]]
    """Idempotency keys: (user, key, epoch, offset, expires_ms), oldest first."""
    features: dict[str, bytes]
    own: bytes
    """What the channel type itself holds."""

    def pack(self) -> bytes:
        """A check sum, then MessagePack."""
        packed = msgspec.msgpack.encode(self)
        return zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") + packed

    @classmethod
    def unpack(cls, data: bytes, hub: str, channel: str) -> "ChannelState":
        """The state of this very channel.

        Raises:
            ArautoError: CONFLICT.
        """
        packed = data[_CRC_BYTES:]
        if zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") != data[:_CRC_BYTES]:
            raise ArautoError(Code.CONFLICT, "the channel state's check sum is wrong")
        try:
            state = msgspec.msgpack.decode(packed, type=cls)
        except msgspec.MsgspecError as error:
            raise ArautoError(Code.CONFLICT, "the channel state cannot be read") from error
        if (state.hub, state.channel) != (hub, channel):
            raise ArautoError(Code.CONFLICT, "the state is another channel's")
        return state
