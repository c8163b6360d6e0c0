"""A channel's past, page by page, as an asynchronous iterator."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

import msgspec

from arauto.client.received import Received
from arauto.codec.events import HistoryReply, HistoryRequest
from arauto.errors import ArautoError, Code
from arauto.limits import HISTORY_PAGE_LEN_MAX
from arauto.model import Direction, Serial

__all__ = ["History", "Page", "to_ms"]

Ask = Callable[[HistoryRequest], Awaitable[HistoryReply]]


class Page(msgspec.Struct, frozen=True):
    """Messages in the direction asked for.

    `complete` is False if messages of the range may be missing (expired, or never kept).
    """

    messages: tuple[Received, ...]
    complete: bool
    serial: Serial | None
    """The channel's place when the page was made."""


class History:
    """What `Client.history` returns: iterate for messages, or over `pages()`."""

    __slots__ = ("_ask", "_limit", "_page_len", "_request", "complete")

    def __init__(self, ask: Ask, request: HistoryRequest, limit: int | None, page_len: int) -> None:
        if limit is not None and limit < 0:
            raise ArautoError(Code.BAD_FIELD, "must not be negative", field="limit")
        if not 1 <= page_len <= HISTORY_PAGE_LEN_MAX:
            rule = f"must lie between 1 and {HISTORY_PAGE_LEN_MAX}"
            raise ArautoError(Code.BAD_FIELD, rule, field="page_len")
        self._ask = ask
        self._request = request
        self._limit = limit
        self._page_len = page_len
        self.complete = True
        """Whether all pages so far were complete."""

    def __aiter__(self) -> AsyncIterator[Received]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Received]:
        async for page in self.pages():
            for message in page.messages:
                yield message

    async def pages(self) -> AsyncIterator[Page]:
        """Yield page after page until the range or the limit is reached."""
        request = self._request
        backward = request.direction is Direction.BACKWARD
        left = self._limit
        while left is None or left > 0:
            page_len = self._page_len if left is None else min(self._page_len, left)
            reply = await self._ask(msgspec.structs.replace(request, limit=page_len))
            self.complete = self.complete and reply.complete
            yield Page(tuple(map(Received, reply.messages)), reply.complete, reply.serial)
            if left is not None:
                left -= len(reply.messages)
            before = request.until if backward else request.since
            if not reply.more or reply.next is None or reply.next == before:
                return
            if backward:
                request = msgspec.structs.replace(request, until=reply.next)
            else:
                request = msgspec.structs.replace(request, since=reply.next)


def to_ms(time: datetime | int | None, field: str) -> int:
    """Milliseconds since 1970 of a time that knows its zone, or that is milliseconds already.

    Raises:
        ArautoError: BAD_FIELD for a time without a zone: it would mean another moment elsewhere.
    """
    if time is None:
        return 0
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise ArautoError(Code.BAD_FIELD, "must be a datetime with a time zone", field=field)
    return round(time.timestamp() * 1000)
