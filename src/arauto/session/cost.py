"""What a request costs, in tokens of `sessionMessagesPerS`: one for a small one, more for more work.

Whoever adds a request adds its items here, if it has any. `Session.receive` and `oneshot.py` take the tokens.
"""

from typing import TYPE_CHECKING

from arauto.codec.events import (
    MarkReadRequest,
    Ping,
    Pong,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.settings import Quotas

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = [
    "LARGE_BYTES",
    "bytes_cost",
    "charge",
    "document_cost",
    "items_cost",
    "rate_error",
    "request_cost",
]

#: So many items of a batch cost one token. Fewer would punish batches, which are the cheaper way.
_ITEMS_PER_TOKEN = 10
#: One token more for each 4 KiB, read or written.
_BYTES_SHIFT = 12
#: One token more for each 512 bytes of a document's change: its values are built and checked one by one.
_DOCUMENT_BYTES_SHIFT = 9

#: From this size on, a request is not even decoded for who has used up its tokens.
LARGE_BYTES = 1 << _BYTES_SHIFT


def items_cost(count: int) -> int:
    """For the items of a batch, one of which is the least."""
    return -(-count // _ITEMS_PER_TOKEN)


def bytes_cost(size_bytes: int) -> int:
    """For bytes that are taken or given as they are, beside what the request itself costs."""
    return size_bytes >> _BYTES_SHIFT


def document_cost(size_bytes: int) -> int:
    """For the operations of a document's change, beside what the request itself costs."""
    return size_bytes >> _DOCUMENT_BYTES_SHIFT


def request_cost(request: Request, size_bytes: int) -> int:
    """For a request that was read; 0 for heartbeats, which are free."""
    match request:
        case Ping() | Pong():
            return 0
        case PublishRequest() | SubscribeRequest():
            count = len(request.items)
        case UnsubscribeRequest():
            count = len(request.channels)
        case MarkReadRequest():
            count = len(request.notifications)
        case _:
            count = 1
    return items_cost(count) + bytes_cost(size_bytes)


def charge(session: "Session", cost: int) -> None:
    """Count work whose size only its handler knows.

    Raises:
        ArautoError: RATE_LIMITED if the session owes for earlier work.
    """
    if session.bucket.lacks(session.env.hub.clock.monotonic_s(), 0):
        raise rate_error(session.hub.quotas)
    session.bucket.owe(cost)


def rate_error(quotas: Quotas) -> ArautoError:
    """What somebody hears who has used up the tokens."""
    rule = f"{quotas.session_messages_per_s} requests per second are allowed; large ones count as several"
    return ArautoError(Code.RATE_LIMITED, rule)
