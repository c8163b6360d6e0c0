"""The errors a client raises, and how what the node says becomes one of them.

ArautoError
├─ RefusedError           the node answered a request with an error
│  └─ PartialPublishError some messages of a batch were refused
├─ RequestTimeoutError    no answer came in time (also a TimeoutError)
├─ SlowConsumerError      a subscription's local queue overflowed
└─ DisconnectError        the node ended the connection and asks not to come back
   └─ ConnectionLostError the connection broke or could not be made (also a ConnectionError)
"""

import msgspec

from arauto.codec.events import ErrorEvent
from arauto.errors import ArautoError, Code, DisconnectError
from arauto.model import Serial

__all__ = [
    "ConnectionLostError",
    "PartialPublishError",
    "RefusedError",
    "RequestTimeoutError",
    "SlowConsumerError",
    "closed_by_client",
    "from_close",
    "from_event",
    "from_http",
    "too_slow",
]

#: Stands in for a number this version does not know, by the thousand it lies in.
_FAMILY = {
    1: Code.BAD_FIELD,
    2: Code.UNAUTHENTICATED,
    3: Code.TOO_MANY_PENDING,
    4: Code.SERVER_ERROR,
    5: Code.PROTOCOL_VIOLATION,
    6: Code.STORAGE_FAILED,
    7: Code.NOT_OWNER,
}

#: Close codes of the WebSocket protocol itself that mean "the same again would fail again".
_FINAL_CLOSE = {
    1002: Code.PROTOCOL_VIOLATION,
    1003: Code.PROTOCOL_VIOLATION,
    1007: Code.BAD_TEXT,
    1008: Code.HANDSHAKE_REFUSED,
    1009: Code.FRAME_TOO_LARGE,
    1010: Code.HANDSHAKE_REFUSED,
}

#: HTTP answers to the upgrade that may be different next time.
_RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class RefusedError(ArautoError):
    """The node refused a request.

    Attributes:
        number: the code as the node sent it; differs from `code` only if this version does not know it.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        field: str = "",
        number: int = 0,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(code, message, field=field)
        self.number = number or int(code)
        self._retryable = retryable

    @property
    def retryable(self) -> bool:
        """The node's own word on it, where it gave one."""
        return super().retryable if self._retryable is None else self._retryable


class PartialPublishError(RefusedError):
    """Some messages of `publish_many` were refused. The code is the first refusal's.

    Attributes:
        results: one entry per message, in order: its serial, or why it was refused.
    """

    def __init__(self, results: tuple[Serial | ArautoError, ...]) -> None:
        refused = [(at, r) for at, r in enumerate(results) if isinstance(r, ArautoError)]
        at, first = refused[0]
        text = f"{len(refused)} of {len(results)} messages failed; number {at}: {first.message}"
        super().__init__(first.code, text, field=first.field, retryable=first.retryable)
        self.results = results


class RequestTimeoutError(ArautoError, TimeoutError):
    """No answer came in time. The request may or may not have been carried out."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(Code.NO_ANSWER, f"no answer within {timeout_s:g} s")


class SlowConsumerError(ArautoError):
    """A subscription's local queue overflowed, because its messages were not taken fast enough."""


class ConnectionLostError(DisconnectError, ConnectionError):
    """The connection broke, or could not be made; coming back is right."""

    def __init__(self, message: str, code: Code = Code.CONNECTION_LOST) -> None:
        super().__init__(code, message)


def from_event(event: ErrorEvent) -> RefusedError:
    """What the node said of a request."""
    return RefusedError(
        _known(event.code),
        event.message,
        field=event.field,
        number=event.code,
        retryable=event.retryable,
    )


def from_close(close_code: int, reason: str) -> DisconnectError:
    """Why the node closed the WebSocket.

    Codes that end a connection travel as they are if below 4500; 5xxx travel as 45xx, since a WebSocket
    close code ends at 4999.
    """
    if 4500 <= close_code < 5000:
        close_code += 500
    final = _FINAL_CLOSE.get(close_code)
    if final is not None:
        return DisconnectError(final, reason or f"closed with {close_code}")
    if close_code < 4000:
        return ConnectionLostError(reason or f"the connection ended ({close_code or 'no reason'})")
    code = _known(close_code)
    if code < 5000:
        return ConnectionLostError(reason or code.name, code)
    return DisconnectError(code, reason or code.name)


class _HttpBody(msgspec.Struct, frozen=True):
    """The body of a refused upgrade. That of a node leaves open whether to come back: its number says so."""

    code: int = 0
    message: str = ""
    field: str = ""
    retryable: bool | None = None


def from_http(status: int, body: bytes) -> ArautoError:
    """Why the node refused to upgrade the HTTP request to a WebSocket."""
    try:
        told = msgspec.json.decode(body, type=_HttpBody)
    except msgspec.MsgspecError:
        told = _HttpBody()
    code = _known(told.code)
    if told.code and 4000 <= code < 5000:
        return ConnectionLostError(told.message or code.name, code)
    if told.code:
        return RefusedError(
            code, told.message, field=told.field, number=told.code, retryable=told.retryable
        )
    if status in _RETRY_STATUS:
        return ConnectionLostError(f"the node answered with HTTP {status}", Code.OVERLOADED)
    return DisconnectError(Code.HANDSHAKE_REFUSED, f"the node answered with HTTP {status}")


def closed_by_client() -> ArautoError:
    return ArautoError(Code.CLOSED_BY_CLIENT, "the client is closed")


def too_slow(channel: str) -> SlowConsumerError:
    return SlowConsumerError(
        Code.SLOW_CONSUMER,
        f"the messages of {channel} were not taken fast enough and its queue is full",
    )


def _known(number: int) -> Code:
    try:
        return Code(number)
    except ValueError:
        return _FAMILY.get(number // 1000, Code.SERVER_ERROR)
