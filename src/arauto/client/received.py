"""What a subscriber receives: messages, and what happens around them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from arauto.client import payload
from arauto.codec.events import Gap, Join, Leave, Occupancy, Presence, SubscribeResult
from arauto.model import Message, Serial

__all__ = ["Received", "SubscriptionEvent"]

SubscriptionEvent = SubscribeResult | Gap | Join | Leave | Presence | Occupancy
"""What `Subscription.events` yields. `SubscribeResult` comes each time the subscription is (re)made."""

_UNREAD = object()
_NO_HEADERS: Mapping[str, str] = {}


class Received:
    """One message as its subscriber sees it.

    `data` is decoded by content type when first looked at: a Python object for JSON, str for text, bytes
    otherwise. `payload` is always the bytes.
    """

    __slots__ = ("_data", "message", "missed")

    def __init__(self, message: Message, missed: tuple[Gap, ...] = ()) -> None:
        self.message = message
        self.missed = missed
        """Gaps just before this message: what lies in them was lost and not filled."""
        self._data: Any = _UNREAD

    @property
    def data(self) -> Any:
        """The decoded payload.

        Raises:
            ArautoError: BAD_FIELD if the payload is not what its content type says.
        """
        if self._data is _UNREAD:
            self._data = payload.decode(self.message.payload, self.message.content_type)
        return self._data

    @property
    def payload(self) -> bytes:
        return self.message.payload

    @property
    def content_type(self) -> str:
        return self.message.content_type

    @property
    def channel(self) -> str:
        return self.message.channel

    @property
    def serial(self) -> Serial:
        """The message's place; pass it to `subscribe(since=…)` to continue after it."""
        return self.message.serial

    @property
    def ts(self) -> datetime:
        """When the node took the message."""
        return datetime.fromtimestamp(self.message.ts_ms / 1000, UTC)

    @property
    def ts_ms(self) -> int:
        return self.message.ts_ms

    @property
    def user(self) -> str:
        """Who published it; "" if anonymous."""
        return self.message.user

    @property
    def session(self) -> str:
        """The session that published it; "" for a service or administrator."""
        return self.message.session

    @property
    def id(self) -> str:
        """The publisher's idempotency key."""
        return self.message.id

    @property
    def key(self) -> str:
        return self.message.key

    @property
    def headers(self) -> Mapping[str, str]:
        return self.message.headers or _NO_HEADERS

    @property
    def retained(self) -> bool:
        """Whether it was published to be kept for new subscribers."""
        return self.message.retain

    @property
    def expires_ms(self) -> int:
        """Wall-clock milliseconds after which it is void; 0 = never."""
        return self.message.expires_ms

    def __repr__(self) -> str:
        # The payload is left out: it may be large, and secret.
        serial = self.serial
        return f"<Received {self.channel} {serial.epoch}:{serial.offset} {len(self.payload)} bytes>"
