"""Pages of a channel's past: read beside a session's other requests, which the past need not hold up.

So many are held in the node at a time, from when they are read until they are sent. And since a page may be
large, pages take turns with other large work (`large_work.py`), in the order they became ready.
"""

from collections import OrderedDict, deque
from functools import partial
from typing import TYPE_CHECKING

from arauto.codec.events import HistoryReply, HistoryRequest
from arauto.errors import ArautoError, Code
from arauto.hub.channel import Channel
from arauto.hub.history import HistoryPage, Page, read_history
from arauto.hub.outbox import Outbox
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
    """One per node: the pages that were asked for. Sessions take turns, a page each, and each has its next
    one when its connection has taken the one before."""

    __slots__ = ("_asked", "_held_len", "_ready")

    def __init__(self) -> None:
        self._asked: dict[Session, deque[HistoryRequest]] = {}
        """By session, those first that come first; with the one that is read."""
        self._ready: OrderedDict[Session, None] = OrderedDict()
        """Those that wait for a place, and for nothing else."""
        self._held_len = 0

    def __len__(self) -> int:
        return sum(map(len, self._asked.values()))

    @property
    def held_len(self) -> int:
        """How many are read, or wait to be sent."""
        return self._held_len

    def ask(self, session: "Session", request: HistoryRequest) -> None:
        """Read a page when there is a place, and send it when it is its turn."""
        asked = self._asked.get(session)
        if asked is not None:
            asked.append(request)
            return
        self._asked[session] = deque((request,))
        if session.outbox.is_clear:
            self.begin(session)
        else:
            session.outbox.owe(_Waiting(self, session))

    def begin(self, session: "Session") -> None:
        """The connection takes a page."""
        if session in self._asked:
            self._ready[session] = None
            self._go_on()

    def forget(self, session: "Session") -> None:
        """It is gone."""
        self._asked.pop(session, None)
        self._ready.pop(session, None)

    def _go_on(self) -> None:
        while self._ready and self._held_len < _AT_ONCE:
            session, _ = self._ready.popitem(last=False)
            self._held_len += 1
            session.env.hub.tasks.spawn(self._read(session, self._asked[session][0]))

    async def _read(self, session: "Session", request: HistoryRequest) -> None:
        try:
            channel = await open_channel(session, request.channel)
            page = await read_history(
                channel,
                HistoryPage.of(request),
                keep=lambda message: not session.subscriber.is_excluded(message),
            )
        except BaseException as error:
            self._leave()
            self._next(session)
            if not isinstance(error, ArautoError):
                raise
            if not session.has_ended():
                session.refuse(error, request.id, request)
            return
        size_bytes = sum(len(message.payload) for message in page.messages)
        weight_bytes = (size_bytes >> _BYTES_SHIFT) + _MESSAGE_BYTES * (1 + len(page.messages))
        send = partial(self._send, session, request, channel, page, size_bytes)
        session.env.large_work.do(weight_bytes, send)

    def _send(
        self,
        session: "Session",
        request: HistoryRequest,
        channel: Channel,
        page: Page,
        size_bytes: int,
    ) -> None:
        self._leave()
        if session.has_ended():
            return
        outbox = session.outbox
        room_bytes = session.connection.send_buffer_bytes // 2 - outbox.backlog_bytes
        if not outbox.is_clear and size_bytes > room_bytes:
            # Nobody is sent away for what came in between: it is read again when there is room.
            outbox.owe(_Waiting(self, session))
            return
        self._next(session)
        try:
            # It has taken its time; what may be read is what may be read now.
            readable(session, request.channel)
        except ArautoError as error:
            session.refuse(error, request.id, request)
            return
        session.errors = 0
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

    def _leave(self) -> None:
        self._held_len -= 1
        self._go_on()

    def _next(self, session: "Session") -> None:
        """The session's first is answered; its next may begin when the connection has taken that."""
        session.history_requests -= 1
        asked = self._asked.get(session)
        if asked is None:
            return
        asked.popleft()
        if asked:
            session.outbox.owe(_Waiting(self, session))
        else:
            del self._asked[session]


class _Waiting:
    """What a session waits for that asked for pages: that its connection takes one. Implements `Debtor`."""

    __slots__ = ("_pages", "_session")

    def __init__(self, pages: Pages, session: "Session") -> None:
        self._pages = pages
        self._session = session

    def owed_to(self, outbox: Outbox) -> bytes:
        """See `Debtor`."""
        self._pages.begin(self._session)
        return b""
