"""A second look at a request that has fields this version does not know: a newer client meets an older node.

Ignoring is counted per hub and said once per session in the log, by place and count and never by the names,
which strangers invent. A session that asked for it is told instead, as developers want it (ADR 0009).
"""

from typing import TYPE_CHECKING

import structlog

from arauto.codec.events import Request
from arauto.codec.unknown import Unknown, UnknownFieldError
from arauto.errors import ArautoError
from arauto.session.cost import bytes_cost, rate_error

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["note_ignored", "read_known", "refuse_unreadable"]

_log = structlog.get_logger("arauto.session")


def read_known(session: "Session", data: bytes, error: ArautoError) -> Request | ArautoError:
    """The request without what may be ignored of it, or why it is refused.

    Args:
        session: whose request it is.
        data: the request.
        error: why it was refused at first.
    """
    if not isinstance(error, UnknownFieldError):
        return error
    unknown = Unknown()
    try:
        request = session.outbox.format.codec.decode_known(data, unknown)
    except ArautoError as better:
        # It knows more of it: what is essential, what was meant.
        return better
    if session.is_strict:
        return error
    session.hub.counters.unknown_fields += 1
    if not session.has_ignored:
        session.has_ignored = True
        name = type(request).__name__.removesuffix("Request").lower()
        note_ignored(unknown, hub=session.hub.name, session=session.id, request=name)
    return request


def refuse_unreadable(session: "Session", data: bytes, error: ArautoError) -> None:
    """Answer what could not be read, which costs its bytes; nothing to who has not even these left."""
    cost = 1 + bytes_cost(len(data))
    if session.bucket.take(session.env.hub.clock.monotonic_s(), cost):
        session.refuse(error, session.outbox.format.codec.request_id(data))
    else:
        session.note_refusal(rate_error(session.hub.quotas), "")


def note_ignored(unknown: Unknown, *, hub: str, session: str, request: str) -> None:
    """Say in the log that a request was carried out without some of its fields."""
    _log.debug(
        "ignored unknown fields",
        hub=hub,
        session=session,
        request=request,
        count=unknown.count,
        place=unknown.place,
    )
