"""Pages of a channel's past: read beside a session's other requests, which the past need not hold up.

So many are held in the node at a time, from when they are read until they are sent. And since a page may be
large, pages take turns with other large work (`pace.py`), in the order they became ready.
"""

from collections import OrderedDict, deque
from functools import partial
from typing import TYPE_CHECKING

from arauto.codec.events import HistoryReply, HistoryRequest
from arauto.errors import ArautoError, Code
from arauto.hub.channel import Channel
from arauto.hub.history import HistoryPage, Page, read_history
from arauto.session.access import open_channel, readable
from arauto.session.cost import page_cost

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Pages", "handle_history"]

#: So many pages are read at a time, or wait to be sent.
_AT_ONCE = 16
#: What a page counts for in a turn: encoding is so much cheaper than working on a request of its bytes that
#: the largest, of 4 MiB, has one of its own. Each message counts for something too.
_BYTES_SHIFT = 7
_MESSAGE_BYTES = 64


def handle_history(session: "Session", request: HistoryRequest) -> None:
    readable(session, request.channel)
    limit = session.env.limits.history_requests_max
    if session.history_requests >= limit:
        raise ArautoError(Code.TOO_MANY_PENDING, f"at most {limit} history requests at a time")
    session.history_requests += 1
    session.env.pages.ask(session, request)


class Pages:
    """One per node: the pages that were asked for. Sessions take turns, a page each."""

    __slots__ = ("_asked", "_held_len")

    def __init__(self) -> None:
        self._asked: OrderedDict[Session, deque[HistoryRequest]] = OrderedDict()
        self._held_len = 0

    def __len__(self) -> int:
        return self._held_len + sum(map(len, self._asked.values()))

    def ask(self, session: "Session", request: HistoryRequest) -> None:
        """Read a page when there is a place, and send it when it is its turn."""
        self._asked.setdefault(session, deque()).append(request)
        self._go_on()

    def forget(self, session: "Session") -> None:
        """It is gone."""
        self._asked.pop(session, None)

    def _go_on(self) -> None:
        while self._asked and self._held_len < _AT_ONCE:
            session, requests = self._asked.popitem(last=False)
            request = requests.popleft()
            if requests:
                self._asked[session] = requests
            self._held_len += 1
            session.env.hub.tasks.spawn(self._read(session, request))

    async def _read(self, session: "Session", request: HistoryRequest) -> None:
        try:
            channel = await open_channel(session, request.channel)
            page = await read_history(
                channel,
                HistoryPage(
                    since=request.since,
                    until=request.until,
                    from_ms=request.from_ms,
                    to_ms=request.to_ms,
                    limit=request.limit,
                    direction=request.direction,
                ),
                keep=lambda message: not session.subscriber.is_excluded(message),
            )
        except BaseException as error:
            self._end(session)
            if not isinstance(error, ArautoError):
                raise
            if not session.has_ended():
                session.refuse(error, request.id, request)
            return
        weight_bytes = sum(len(message.payload) for message in page.messages) >> _BYTES_SHIFT
        weight_bytes += _MESSAGE_BYTES * (1 + len(page.messages))
        session.env.pace.do(weight_bytes, partial(self._send, session, request, channel, page))

    def _send(
        self, session: "Session", request: HistoryRequest, channel: Channel, page: Page
    ) -> None:
        self._end(session)
        if session.has_ended():
            return
        try:
            # It has taken its time; what may be read is what may be read now.
            readable(session, request.channel)
        except ArautoError as error:
            session.refuse(error, request.id, request)
            return
        session.errors = 0
        size_bytes = sum(len(message.payload) for message in page.messages)
        session.bucket.owe(page_cost(page.looked_len, size_bytes))
        session.send(
            HistoryReply(
                id=request.id,
                channel=request.channel,
                messages=tuple(page.messages),
                more=page.more,
                next=page.next,
                complete=page.complete,
                serial=channel.serial,
            )
        )

    def _end(self, session: "Session") -> None:
        session.history_requests -= 1
        self._held_len -= 1
        self._go_on()
