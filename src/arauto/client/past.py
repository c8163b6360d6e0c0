"""Asks for what was: a channel's history, for whoever iterates over it and for gaps that are filled."""

import asyncio
import logging
from collections.abc import Callable

from arauto.client.history import History
from arauto.client.requests import Requests
from arauto.client.subscription import Subscription
from arauto.codec.events import Gap, HistoryReply, HistoryRequest
from arauto.errors import ArautoError
from arauto.limits import HISTORY_PAGE_LEN_MAX
from arauto.model import Serial

__all__ = ["Past"]

_log = logging.getLogger("arauto.client")

#: History requests under way at a time; a node allows a session only few.
_REQUESTS_MAX = 4


class Past:
    """The history requests of one client."""

    __slots__ = ("_check_usable", "_requests", "_slots")

    def __init__(self, requests: Requests, check_usable: Callable[[], None]) -> None:
        self._requests = requests
        self._check_usable = check_usable
        self._slots = asyncio.Semaphore(_REQUESTS_MAX)

    def history(self, request: HistoryRequest, limit: int | None, page_len: int) -> History:
        return History(self._ask, request, limit, page_len)

    async def _ask(self, page: HistoryRequest) -> HistoryReply:
        self._check_usable()
        async with self._slots:
            reply = await self._requests.call(page, resend=True)
        assert isinstance(reply, HistoryReply)
        return reply

    async def fill(self, subscription: Subscription, gap: Gap) -> None:
        """Fetch what lies in a gap and hand it to the subscription."""
        until = Serial(gap.upto.epoch, gap.upto.offset + 1)
        request = HistoryRequest(channel=gap.channel, since=gap.after, until=until)
        history = self.history(request, None, HISTORY_PAGE_LEN_MAX)
        complete = False
        try:
            async for received in history:
                if not await subscription.fill_message(gap, received.message):
                    return
            complete = history.complete
        except ArautoError as error:
            _log.info("a gap in %s stays: %s", gap.channel, error)
        subscription.fill_done(gap, complete=complete)
