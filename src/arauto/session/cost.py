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
    RestoreRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.hub.environment import MATCHING_PER_TOKEN
from arauto.hub.matcher import is_tried
from arauto.model import Grants
from arauto.settings import Quotas

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = [
    "LARGE_BYTES",
    "admit_beat",
    "admit_deciding",
    "bytes_cost",
    "charge",
    "covered_cost",
    "deciding_cost",
    "deciding_wait_s",
    "document_cost",
    "grants_cost",
    "hear",
    "items_cost",
    "matching_cost",
    "page_cost",
    "pattern_cost",
    "pay",
    "rate_error",
    "request_cost",
    "visits_cost",
]

#: So many items of a batch cost one token. Fewer would punish batches, which are the cheaper way.
_ITEMS_PER_TOKEN = 10
#: One token more for so many open channels that a pattern covers: some 100 microseconds.
_COVERED_PER_TOKEN = 20
#: One token for so many characters of a pattern that is compiled: some 50 microseconds, more with many stars.
_CHARS_PER_TOKEN = 8
#: One token more for each 4 KiB, read or written.
_BYTES_SHIFT = 12
#: One token more for each 512 bytes of a document's change: its values are built and checked one by one.
_DOCUMENT_BYTES_SHIFT = 9
#: One token more for each 256 values that a change of a document visits: about 100 microseconds.
_VISITS_SHIFT = 8
#: One token for so many characters compared with those of grants. They take some 50 microseconds.
_EFFORT_PER_TOKEN = 131_072
#: So many heartbeats of a second cost nothing, whatever else a session owes.
_FREE_BEATS = 200

#: From this size on, a request is not even decoded for who has used up its tokens.
LARGE_BYTES = 1 << _BYTES_SHIFT


def items_cost(count: int) -> int:
    """For the items of a batch, one of which is the least."""
    return -(-count // _ITEMS_PER_TOKEN)


def bytes_cost(size_bytes: int) -> int:
    """For bytes that are taken or given as they are, beside what the request itself costs."""
    return size_bytes >> _BYTES_SHIFT


def page_cost(looked_len: int, size_bytes: int) -> int:
    """For a page of that many bytes for which so many items were looked at, beside what the request itself
    costs, which pays for the first few."""
    return max(0, items_cost(looked_len) - 1) + bytes_cost(size_bytes)


def grants_cost(grants: Grants) -> int:
    """For grants that somebody is given: they are checked and sorted one by one."""
    return (len(grants.channels) + len(grants.rpcs)) // _ITEMS_PER_TOKEN


def covered_cost(count: int) -> int:
    """For the channels that a pattern covers: each is joined, and left again, one by one."""
    return count // _COVERED_PER_TOKEN


def pattern_cost(pattern: str) -> int:
    """For a pattern that has to be tried: with `#` as well, compiling it takes up to some milliseconds."""
    return 1 + len(pattern) // _CHARS_PER_TOKEN if is_tried(pattern) else 0


def document_cost(size_bytes: int) -> int:
    """For the operations of a document's change, beside what the request itself costs."""
    return size_bytes >> _DOCUMENT_BYTES_SHIFT


def visits_cost(visited_nodes: int) -> int:
    """For the values of a document that a change visited, beside what its bytes cost: one operation of a few
    bytes may copy very many."""
    return visited_nodes >> _VISITS_SHIFT


def request_cost(request: Request, size_bytes: int) -> int:
    """For a request that was read; 0 for heartbeats, see `admit_beat`."""
    match request:
        case Ping() | Pong():
            return 0
        case PublishRequest() | SubscribeRequest():
            count = len(request.items)
        case UnsubscribeRequest():
            count = len(request.channels)
        case MarkReadRequest():
            count = len(request.notifications)
        case RestoreRequest():
            count = max(1, len(request.positions))
        case _:
            count = 1
    return items_cost(count) + bytes_cost(size_bytes)


def admit_beat(session: "Session", now_s: float) -> bool:
    """Whether a heartbeat, or another frame that is next to nothing, is within the rate: each is cheap, and
    nobody needs many of them."""
    second = int(now_s)
    if second != session.beats_s:
        session.beats_s, session.beats = second, 0
    session.beats += 1
    return session.beats <= _FREE_BEATS or session.bucket.take(now_s)


def hear(session: "Session", now_s: float) -> bool:
    """The same for what gets no answer if it is too much. Who goes on is sent away."""
    if admit_beat(session, now_s):
        return True
    session.note_refusal(rate_error(session.hub.quotas), "")
    return False


def deciding_cost(effort: int) -> float:
    """For what deciding by grants has taken (`GrantSet.effort`): seldom a whole token for one name."""
    return effort / _EFFORT_PER_TOKEN


def matching_cost(effort: int) -> float:
    """For what trying patterns has taken (`Matcher.effort`): seldom a whole token for one name."""
    return effort / MATCHING_PER_TOKEN


def pay(session: "Session", cost: float) -> None:
    """Take what trying patterns or grants took from the session's rate, and from what may be done in this
    turn."""
    session.bucket.owe(cost)
    session.env.hub.trying.spend(cost)


def admit_deciding(session: "Session") -> None:
    """Grants, and names that a pattern may cover, are tried on credit, for the rest of a request too, but not
    without end.

    Raises:
        ArautoError: RATE_LIMITED if the session owes for more than a second.
    """
    if deciding_wait_s(session) > 0:
        raise rate_error(session.hub.quotas)


def deciding_wait_s(session: "Session") -> float:
    """How long until the session owes for no more than that."""
    bucket = session.bucket
    return bucket.wait_s(session.env.hub.clock.monotonic_s(), -int(bucket.rate_per_s))


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
