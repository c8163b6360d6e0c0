"""Requests on their way out: waiting to be sent, or sent and waiting for an answer.

Bounded in number and bytes. Messages published in one turn of the event loop leave as one request, so
many small publishes cost one frame and one write. What was sent but not answered when a connection
breaks goes back to the front of the queue, in order: publishes carry idempotency keys, so sending them
again delivers once. No I/O here; `session.py` sends.
"""

import asyncio
from collections import deque
from typing import Any

import msgspec

from arauto.codec.events import PublishItem, PublishRequest, Request
from arauto.errors import ArautoError, Code

__all__ = ["BATCH_BYTES_MAX", "BATCH_LEN_MAX", "Call", "Outgoing"]

#: Messages in one request: few enough for every node's limit, many enough to make the rest cheap.
BATCH_LEN_MAX = 64
#: Bytes in one request; a larger message travels alone.
BATCH_BYTES_MAX = 32_768

#: What a request costs in memory beside its payload, for the bound in bytes.
_OVERHEAD_BYTES = 256

#: Calls that were given up may stand in the queue in this number before they are swept out.
_SKIPPED_MAX = 64


class Call:
    """One request, or one message to publish.

    `future` is None where no answer is wanted. `resend` says whether it may be sent again after a
    connection broke before the answer came.
    """

    __slots__ = ("alone", "future", "item", "request", "resend", "sent_id", "size_bytes")

    def __init__(
        self,
        request: Request | None,
        item: PublishItem | None,
        future: "asyncio.Future[Any] | None",
        *,
        resend: bool,
    ) -> None:
        self.request = request
        self.item = item
        self.future = future
        self.resend = resend
        self.alone = False
        """Refused as part of a batch: send it by itself, so that it answers for itself only."""
        self.sent_id = 0
        self.size_bytes = _OVERHEAD_BYTES + (_weigh(item) if item is not None else 0)

    @property
    def is_over(self) -> bool:
        """Whether whoever made it has stopped waiting."""
        return self.future is not None and self.future.done()


class Outgoing:
    """The queue and the table of sent requests."""

    __slots__ = (
        "_bytes_max",
        "_len_max",
        "_next_id",
        "_returned",
        "_sent",
        "_size_bytes",
        "_unsent",
        "_waiting",
    )

    def __init__(self, len_max: int, bytes_max: int) -> None:
        self._len_max = len_max
        self._bytes_max = bytes_max
        self._unsent: deque[Call] = deque()
        self._returned: list[Call] = []
        """Refused for now, in the order they were sent; they go before the unsent ones."""
        self._sent: dict[int, list[Call]] = {}
        self._waiting: set[Call] = set()
        """Every call that counts against the bounds."""
        self._size_bytes = 0
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def new_id(self) -> int:
        """A request id no other request of this client has."""
        self._next_id += 1
        return self._next_id

    def add(self, call: Call) -> None:
        """Queue a call.

        Raises:
            ArautoError: TOO_MANY_PENDING if the bounds are reached.
        """
        if (
            len(self._waiting) >= self._len_max
            or self._size_bytes + call.size_bytes > self._bytes_max
        ):
            raise ArautoError(
                Code.TOO_MANY_PENDING,
                f"{len(self._waiting)} requests ({self._size_bytes} bytes) wait already",
            )
        self._waiting.add(call)
        self._size_bytes += call.size_bytes
        self._unsent.append(call)

    def next(self) -> Request | None:
        """Take the next request to send; None if nothing waits. Calls nobody waits for are skipped."""
        self._requeue(self._returned)
        self._returned.clear()
        while self._unsent:
            call = self._unsent.popleft()
            if call.is_over:
                self.discard(call)
                continue
            if call.item is None:
                return self._take_plain(call)
            return self._take_batch(call, call.item)
        return None

    def _take_plain(self, call: Call) -> Request:
        assert call.request is not None
        call.sent_id = self.new_id()
        self._sent[call.sent_id] = [call]
        return msgspec.structs.replace(call.request, id=call.sent_id)

    def _take_batch(self, first: Call, item: PublishItem) -> PublishRequest:
        calls, items = [first], [item]
        size_bytes = first.size_bytes
        while self._unsent and len(calls) < BATCH_LEN_MAX and not first.alone:
            call = self._unsent[0]
            if call.is_over:
                self.discard(self._unsent.popleft())
                continue
            joins = call.item is not None and (call.future is None) == (first.future is None)
            if not joins or call.alone or call.item is None:
                break
            size_bytes += call.size_bytes
            if size_bytes > BATCH_BYTES_MAX:
                break
            calls.append(self._unsent.popleft())
            items.append(call.item)
        if first.future is None:
            for call in calls:
                self.discard(call)
            return PublishRequest(items=tuple(items))
        id = self.new_id()
        self._sent[id] = calls
        for call in calls:
            call.sent_id = id
        return PublishRequest(id=id, items=tuple(items))

    def answered(self, id: int) -> list[Call]:
        """Take the calls an answer belongs to; empty if the answer is unknown or too late."""
        calls = self._sent.pop(id, [])
        for call in calls:
            self.discard(call)
        return calls

    def put_back(self, calls: list[Call]) -> None:
        """Queue calls of a refused batch again, each to be sent by itself, before everything else."""
        for call in calls:
            call.alone = True
        self._requeue(self._count_again(calls))

    def hold_back(self, calls: list[Call]) -> None:
        """Keep calls that were refused for now; the next `next` begins with them, in the order they came
        here."""
        self._returned += self._count_again(calls)

    def _count_again(self, calls: list[Call]) -> list[Call]:
        live = [call for call in calls if not call.is_over]
        for call in live:
            self._waiting.add(call)
            self._size_bytes += call.size_bytes
        return live

    def _requeue(self, calls: list[Call]) -> None:
        self._unsent.extendleft(reversed(calls))

    def connection_lost(self) -> list[Call]:
        """Put what was sent without an answer back in front; return the calls that must not be re-sent."""
        sent = [call for calls in self._sent.values() for call in calls]
        self._sent.clear()
        again = [call for call in sent if call.resend and not call.is_over]
        self._requeue(again)
        others = [call for call in sent if not call.resend or call.is_over]
        for call in others:
            self.discard(call)
        return [call for call in others if not call.is_over]

    def discard(self, call: Call) -> None:
        """Stop counting a call. Where it still stands in the queue it is skipped."""
        if call not in self._waiting:
            return
        self._waiting.remove(call)
        self._size_bytes -= call.size_bytes
        batch = self._sent.get(call.sent_id)
        if batch is not None and not any(other in self._waiting for other in batch):
            del self._sent[call.sent_id]
        if len(self._unsent) > 2 * len(self._waiting) + _SKIPPED_MAX:
            self._unsent = deque(other for other in self._unsent if other in self._waiting)

    def clear(self) -> list[Call]:
        """Empty everything; return the calls somebody still waits for."""
        calls = [call for call in self._unsent if call.future is not None and not call.is_over]
        calls += [c for batch in self._sent.values() for c in batch if not c.is_over]
        calls += [call for call in self._returned if not call.is_over]
        self._unsent.clear()
        self._returned.clear()
        self._sent.clear()
        self._waiting.clear()
        self._size_bytes = 0
        return calls


def _weigh(item: PublishItem) -> int:
    headers = item.headers or {}
    return len(item.payload) + sum(len(name) + len(value) for name, value in headers.items())
