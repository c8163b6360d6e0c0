"""A channel's messages on their way to the disk, and its state on its way elsewhere."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec

from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.hooks import Feature
from arauto.limits import EPOCH_MAX
from arauto.model import Message, Serial

__all__ = ["NOT_TIMED", "ChannelState", "Inflight", "PublishReply", "Waiting", "too_many_waiting"]

PublishReply = Callable[[Serial | None, bool, ArautoError | None], None]
"""(serial, duplicate, error): exactly one of serial and error is given."""

#: In place of the moment a publication came: it is none of those that are timed.
NOT_TIMED = -1

#: Retries of one publication that wait for its outcome together.
_RETRIES_MAX = 100


class Waiting:
    """A message that has its serial but may not be delivered yet."""

    __slots__ = ("error", "is_barrier", "message", "ready", "replies", "started_ns", "stored")

    def __init__(
        self, message: Message, reply: PublishReply | None, started_ns: int, *, ready: bool
    ) -> None:
        self.message = message
        self.replies = [reply] if reply is not None else []
        self.started_ns = started_ns
        """When the publication came, if it is one of those that are timed; else `NOT_TIMED`."""
        self.ready = ready
        self.stored = not ready
        self.error: StorageError | None = None
        self.is_barrier = False
        """Whether it only holds the place before which nothing may be delivered yet."""

    def is_over(self, now_ms: int) -> bool:
        """Whether the message has expired while it waited."""
        return 0 < self.message.expires_ms <= now_ms

    def share_outcome(self, reply: PublishReply) -> None:
        """Answer a retry with the outcome of the first attempt, or at once if too many wait for it."""
        if len(self.replies) < _RETRIES_MAX:
            self.replies.append(reply)
        else:
            reply(None, False, too_many_waiting())


class Inflight:
    """The messages of a channel that have their serials and wait, in order.

    Whoever publishes again what is still here is found by its serial, not searched for: while the disk
    is slow, retries come for everything that waits.
    """

    __slots__ = ("_by_serial", "_passed", "_queue")

    def __init__(self) -> None:
        self._queue: deque[Waiting] = deque()
        self._passed: Message | None = None
        """The first that was refused since the last that was not: what waits behind it has yet to show
        whether its place is taken for good."""
        self._by_serial: dict[Serial, Waiting] = {}
        """Those with an idempotency key."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def first(self) -> Message:
        """What came first after all that was delivered."""
        return self._passed if self._passed is not None else self._queue[0].message

    def add(self, waiting: Waiting) -> None:
        self._queue.append(waiting)
        if waiting.message.id:
            self._by_serial[waiting.message.serial] = waiting

    def share_outcome(self, serial: Serial, reply: PublishReply) -> bool:
        """Answer a retry as the message of that serial; whether it has an idempotency key and still waits."""
        waiting = self._by_serial.get(serial)
        if waiting is None:
            return False
        waiting.share_outcome(reply)
        return True

    def take_ready(self) -> Waiting | None:
        """The first that was not refused, if it waits for nothing any more."""
        while self._queue and self._queue[0].ready:
            waiting = self._forget(self._queue.popleft())
            if waiting.error is None:
                self._passed = None
                return waiting
            if self._passed is None:
                self._passed = waiting.message
        return None

    def take_refused(self) -> Message | None:
        """The last, if it was refused: it must not fill the queue while the store is away."""
        if self._queue:
            if self._queue[-1].error is None:
                return None
            return self._forget(self._queue.pop()).message
        passed, self._passed = self._passed, None
        return passed

    def take_behind(self, barrier: Waiting) -> Waiting | None:
        """The last, if it waits for nothing but the barrier."""
        if not self._queue or self._queue[-1] is barrier or not self._queue[-1].ready:
            return None
        return self._forget(self._queue.pop())

    def _forget(self, waiting: Waiting) -> Waiting:
        if waiting.message.id:
            self._by_serial.pop(waiting.message.serial, None)
        return waiting


def too_many_waiting() -> ArautoError:
    return ArautoError(
        Code.TOO_MANY_PENDING, "too many messages of this channel wait to be stored; retry later"
    )


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
    """Idempotency keys: (scope, key, epoch, offset, expires_ms), oldest first."""
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

    def give_to(self, features: Iterable[Feature]) -> None:
        """Have each feature take over its own.

        Raises:
            ArautoError: CONFLICT.
        """
        try:
            for feature in features:
                if feature.name in self.features:
                    feature.import_state(self.features[feature.name])
        except msgspec.MsgspecError as error:
            raise ArautoError(Code.CONFLICT, "a feature's state cannot be read") from error
