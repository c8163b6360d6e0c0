"""The order of a session's requests: what waits, for its turn or anything else, holds back those behind it.

Meanwhile nothing more is read. Large requests wait as they came: decoding them is most of their work, and is
done when it is their turn (`large_work.py`).
"""

from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from arauto.codec.events import ErrorEvent, Request
from arauto.errors import ArautoError, Code
from arauto.session import heartbeat
from arauto.session.cost import admit_beat, rate_error, request_cost
from arauto.session.tolerance import read_known, refuse_unreadable

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["hold", "receive_large"]

_log = structlog.get_logger("arauto.session")


def receive_large(session: "Session", data: bytes) -> None:
    """Take a large request that came: now, if it is this one's turn."""
    work, size_bytes = session.env.large_work, len(data)
    session.seen_s = session.env.hub.clock.monotonic_s()
    queue = session.held_back()
    if session.bucket.lacks(session.seen_s):
        _refuse_unread(session, data)
    elif queue is None and work.admits(size_bytes):
        _take(session, data)
    elif not work.keep(session, size_bytes):
        session.hub.counters.read(size_bytes)
        error = ArautoError(Code.TOO_MANY_PENDING, "too many large requests wait for their turn")
        session.send(ErrorEvent.of(error, session.outbox.format.codec.request_id(data)))
        session.note_refusal(error, "", counts=False)
    elif queue is not None:
        queue.append(data)
    else:
        session.queue = deque((data,))
        session.connection.pause_reading()
        work.add(session, size_bytes, partial(_go_on, session))


def _take(session: "Session", data: bytes) -> None:
    """Decode and handle a large request. By now the session may owe for earlier ones."""
    size_bytes, now_s = len(data), session.env.hub.clock.monotonic_s()
    if session.bucket.lacks(now_s):
        _refuse_unread(session, data)
        return
    session.hub.counters.read(size_bytes)
    try:
        request = session.decode(data)
    except ArautoError as error:
        known = read_known(session, data, error)
        if isinstance(known, ArautoError):
            refuse_unreadable(session, data, known)
            return
        request = known
    cost = request_cost(request, size_bytes)
    if session.bucket.take(now_s, cost) if cost else admit_beat(session, now_s):
        session.handle(request)
    else:
        session.refuse(rate_error(session.hub.quotas), getattr(request, "id", 0), request)


def _refuse_unread(session: "Session", data: bytes) -> None:
    session.hub.counters.read(len(data))
    session.refuse(rate_error(session.hub.quotas), session.outbox.format.codec.request_id(data))


def hold(session: "Session", work: Coroutine[Any, Any, None], request: Request) -> None:
    """Hold back further requests until `work`, which carries this one out, is done."""
    session.queue = deque()
    session.connection.pause_reading()
    session.env.hub.tasks.spawn(_work(session, work, request))


async def _work(session: "Session", work: Coroutine[Any, Any, None], request: Request) -> None:
    try:
        try:
            await work
        except ArautoError as error:
            session.refuse(error, getattr(request, "id", 0), request)
        _release(session)
    except Exception:
        _fail(session)


def _go_on(session: "Session") -> None:
    """It is the turn of the first that waits."""
    try:
        _release(session, is_its_turn=True)
    except Exception:
        _fail(session)
    if session.outbox.closed:
        # What was sent before the connection was lost is done, or waits for what nobody waits for any more.
        session.lost(Code.CONNECTION_LOST)


def _fail(session: "Session") -> None:
    # Ours to mend; the client is told, and only this client pays.
    _log.exception("a request failed", hub=session.hub.name, session=session.id)
    session.disconnect(Code.SERVER_ERROR, "the server failed to carry out a request")


def _release(session: "Session", *, is_its_turn: bool = False) -> None:
    """Go on with the requests that were held back, up to the next that must wait."""
    work = session.env.large_work
    queue, session.queue = session.queue or deque(), None
    while queue and not session.has_ended():
        request = queue.popleft()
        if not isinstance(request, bytes):
            session.handle(request)
        elif is_its_turn or work.admits(len(request)):
            is_its_turn = False
            work.give(session, len(request))
            _take(session, request)
        else:
            queue.appendleft(request)
            session.queue = queue
            work.add(session, len(request), partial(_go_on, session))
            return
        held = session.held_back()
        if held is not None:
            held.extend(queue)
            return
    if not session.has_ended():
        heartbeat.listen_again(session)
        session.connection.resume_reading()
