"""Requests and their answers, over as many connections as it takes.

Two ways to ask: `call` and `publish` wait in a bounded queue while there is no connection and survive the
loss of one; `ask_now` belongs to the connection it was sent on (authentication, restoring, unsubscribing).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from arauto.client.failures import ConnectionLostError, RequestTimeoutError, from_event
from arauto.client.options import Tuning
from arauto.client.outgoing import Call, Outgoing
from arauto.client.wire import Wire
from arauto.clock import Clock
from arauto.codec.events import Ack, ErrorEvent, PublishItem, Request
from arauto.errors import ArautoError, Code
from arauto.model import Serial

__all__ = ["Requests"]

_log = logging.getLogger("arauto.client")


class Requests:
    """The requests of one client.

    Args:
        wake: asks for a `flush` at the end of the loop turn.
        holds_back: whether a refusal with this number is for now only, so that the request waits for the
            next `flush` instead of failing.
        explained: a refusal as its caller is told of it.
    """

    __slots__ = (
        "_asks",
        "_clock",
        "_explained",
        "_holds_back",
        "_outgoing",
        "_timeout_s",
        "_wake",
    )

    def __init__(
        self,
        tuning: Tuning,
        clock: Clock,
        wake: Callable[[], None],
        holds_back: Callable[[int], bool],
        explained: Callable[[ErrorEvent], ErrorEvent],
    ) -> None:
        self._holds_back = holds_back
        self._explained = explained
        self._clock = clock
        self._timeout_s = tuning.request_timeout_s
        self._wake = wake
        self._outgoing = Outgoing(tuning.pending_len_max, tuning.pending_bytes_max)
        self._asks: dict[int, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._outgoing)

    def new_id(self) -> int:
        return self._outgoing.new_id()

    # --- asking ------------------------------------------------------------------------------------

    async def ask_now(self, wire: Wire, request: Request, timeout_s: float | None = None) -> Any:
        """Send on this very connection, before everything that waits; fails with it.

        Raises:
            ArautoError: the node's refusal, ConnectionLostError, RequestTimeoutError.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        id = self.new_id()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asks[id] = future
        timer = self._clock.call_later(timeout_s, partial(_time_out, [future], timeout_s))
        try:
            wire.send(msgspec.structs.replace(request, id=id))
            return await future
        finally:
            timer.cancel()
            self._asks.pop(id, None)

    async def call(self, request: Request, *, resend: bool, timeout_s: float | None = None) -> Any:
        """Send when there is a connection and wait for the answer; over reconnects if `resend`.

        Raises:
            ArautoError: the node's refusal, TOO_MANY_PENDING, ConnectionLostError, RequestTimeoutError.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._run([Call(request, None, future, resend=resend)], timeout_s)
        return future.result()

    async def publish(
        self, items: list[PublishItem], timeout_s: float | None = None
    ) -> list[Serial | ArautoError]:
        """Publish with acknowledgement; one outcome per item.

        Raises:
            ArautoError: TOO_MANY_PENDING if the items do not all fit in the queue; then none was sent.
        """
        loop = asyncio.get_running_loop()
        calls = [Call(None, item, loop.create_future(), resend=True) for item in items]
        await self._run(calls, timeout_s)
        return [_outcome(call) for call in calls]

    def publish_nowait(self, item: PublishItem) -> None:
        """Publish without acknowledgement.

        Raises:
            ArautoError: TOO_MANY_PENDING.
        """
        self._outgoing.add(Call(None, item, None, resend=False))
        self._wake()

    async def _run(self, calls: list[Call], timeout_s: float | None) -> None:
        """Wait until every call has its answer or its error. If cancelled, they are given up."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        futures = [call.future for call in calls if call.future is not None]
        timer = self._clock.call_later(timeout_s, partial(_time_out, futures, timeout_s))
        try:
            for call in calls:
                self._outgoing.add(call)
            self._wake()
            for future in futures:
                with contextlib.suppress(ArautoError):
                    await future  # an error stays in it, for whoever made the call
        finally:
            timer.cancel()
            for call in calls:
                if call.future is not None:
                    call.future.cancel()
                self._outgoing.discard(call)

    def flush(self, wire: Wire) -> None:
        """Write what waits, as far as the connection takes it."""
        while wire.takes_more:
            request = self._outgoing.next()
            if request is None:
                return
            try:
                wire.send(request)
            except ArautoError as error:
                self.refuse(getattr(request, "id", 0), error)

    # --- answers -----------------------------------------------------------------------------------

    def answer(self, event: Any) -> None:
        """An answer came. One that nobody waits for any more is ignored."""
        future = self._asks.get(event.id)
        if future is not None:
            if not future.done():
                future.set_result(event)
            return
        for call in self._outgoing.answered(event.id):
            if call.future is not None and not call.future.done():
                call.future.set_result(event)

    def acknowledge(self, event: Ack) -> None:
        """The outcome of published messages came."""
        calls = self._outgoing.answered(event.id)
        if len(calls) != len(event.results):
            for call in calls:
                _fail(call.future, ArautoError(Code.SERVER_ERROR, "the node's answer does not fit"))
            return
        for call, result in zip(calls, event.results, strict=True):
            if result.error is not None and self._holds_back(result.error.code):
                self._outgoing.hold_back([call])
            elif call.future is not None and not call.future.done():
                if result.error is not None:
                    result = msgspec.structs.replace(result, error=self._explained(result.error))
                call.future.set_result(result)

    def refuse(self, id: int, error: ArautoError) -> None:
        """A request was refused as a whole."""
        future = self._asks.get(id)
        if future is not None:
            _fail(future, error)
            return
        calls = self._outgoing.answered(id)
        if self._holds_back(int(error.code)):
            self._outgoing.hold_back(calls)
            return
        if len(calls) > 1 and not error.retryable:
            # One message of the batch is at fault: each is sent by itself and answers for itself.
            self._outgoing.put_back(calls)
            self._wake()
            return
        for call in calls:
            _fail(call.future, error)
        if not calls:
            _log.warning("a request without an answer was refused: %s", error)

    def connection_lost(self) -> None:
        """Fail what belongs to the connection; what may be sent again waits for the next one."""
        asks, self._asks = self._asks, {}
        for future in asks.values():
            _fail(future, _broken())
        for call in self._outgoing.connection_lost():
            _fail(call.future, _broken())

    def end(self, error: ArautoError) -> None:
        """Nothing will be sent or answered any more."""
        for future in self._asks.values():
            _fail(future, error)
        for call in self._outgoing.clear():
            _fail(call.future, error)


def _broken() -> ConnectionLostError:
    return ConnectionLostError("the connection broke before the answer came")


def _fail(future: "asyncio.Future[Any] | None", error: ArautoError) -> None:
    if future is not None and not future.done():
        future.set_exception(error)
        future.exception()  # whoever waits still gets it; nobody has to


def _time_out(futures: "list[asyncio.Future[Any]]", timeout_s: float) -> None:
    for future in futures:
        _fail(future, RequestTimeoutError(timeout_s))


def _outcome(call: Call) -> Serial | ArautoError:
    assert call.future is not None
    error = call.future.exception()
    if error is not None:
        assert isinstance(error, ArautoError)
        return error
    item = call.future.result()
    if item.error is not None:
        return from_event(item.error)
    if item.serial is None:
        return ArautoError(Code.SERVER_ERROR, "the node acknowledged without a serial")
    assert isinstance(item.serial, Serial)
    return item.serial
