"""A subscription as its owner sees it, and its side of recovery.

Messages go through `Positions` (is it new?), then into a bounded queue. Nothing here waits for the
consumer: the connection serves all subscriptions. When the queue is full the overflow policy decides, and
whatever is lost is announced, in place, by the next message's `missed` and at once by `events`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from arauto.client.failures import from_event, too_slow
from arauto.client.home import Home
from arauto.client.inbox import Inbox
from arauto.client.positions import Positions, merge_gaps
from arauto.client.received import Received, SubscriptionEvent
from arauto.codec.events import DocumentInfo, DocumentUpdated, Gap, SubscribeResult
from arauto.errors import ArautoError
from arauto.model import Message, Serial

__all__ = ["Overflow", "Owner", "Subscription"]

_log = logging.getLogger("arauto.client")

#: Events kept for a consumer that does not take them; beyond it the oldest are dropped and counted.
_EVENTS_LEN_MAX = 1_000
_EVENT_BYTES = 64
_GAP_BYTES = 64

#: The reason `Positions` gives a gap that a reconnect left: its end is where the channel goes on.
_NOT_RECOVERED = "not_recovered"


class _Hold:
    """A gap that is being filled, and what arrived for its channel meanwhile."""

    __slots__ = ("gap", "items")

    def __init__(self, gap: Gap) -> None:
        self.gap = gap
        self.items: list[Message | Gap] = []


class Overflow(StrEnum):
    """What happens when a subscription's queue is full."""

    FAIL = "fail"
    """The subscription ends: its iterator yields what is queued, then raises SlowConsumerError."""
    DROP_OLDEST = "drop_oldest"
    """The oldest queued messages go; the next one that is taken says so in `missed`."""


class Owner(Protocol):
    """What a subscription needs from the client it belongs to."""

    async def unsubscribe(self, subscription: "Subscription") -> None: ...

    def drop(self, subscription: "Subscription") -> None:
        """Unsubscribe without waiting."""

    def fill(self, subscription: "Subscription", gap: Gap) -> None:
        """Fetch what lies in a gap and hand it to the subscription's `fill_…` methods."""


class Subscription:
    """One channel, pattern or topic. Made by `Client.subscribe`.

    Iterate over it for messages. As a context manager it unsubscribes at the end.
    """

    __slots__ = (
        "_drops_oldest",
        "_events",
        "_fills_gaps",
        "_held",
        "_hold_len_max",
        "_home",
        "_inbox",
        "_missed",
        "_on_document",
        "_on_end",
        "_on_event",
        "_owner",
        "_ready",
        "channel",
        "dropped",
        "error",
        "events_dropped",
        "is_attached",
        "is_ended",
        "positions",
        "recovered",
    )

    def __init__(
        self,
        owner: Owner,
        channel: str,
        positions: Positions,
        *,
        queue_len_max: int,
        queue_bytes_max: int,
        overflow: Overflow,
        fill_gaps: bool,
        on_event: Callable[[SubscriptionEvent], object] | None,
    ) -> None:
        self._owner = owner
        self.channel = channel
        self.positions = positions
        self._hold_len_max = queue_len_max
        self._inbox: Inbox[Message | Gap] = Inbox(queue_len_max, queue_bytes_max)
        self._events: Inbox[SubscriptionEvent] = Inbox(
            _EVENTS_LEN_MAX, _EVENTS_LEN_MAX * _EVENT_BYTES
        )
        self._drops_oldest = overflow is Overflow.DROP_OLDEST
        self._fills_gaps = fill_gaps
        self._on_event = on_event
        self._on_document: Callable[[DocumentInfo | DocumentUpdated], None] | None = None
        self._on_end: Callable[[ArautoError | None], None] | None = None
        self._home = Home()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held: dict[str, _Hold] = {}
        """Channels whose gap is being filled."""
        self._missed: dict[str, Gap] = {}
        self.is_attached = False
        """Whether the current connection carries it."""
        self.is_ended = False
        self.recovered: bool | None = None
        """Whether the last reconnect, or the start from `since`, brought back everything that was missed;
        None before."""
        self.error: ArautoError | None = None
        """Why it ended, if not on request."""
        self.dropped = 0
        """Messages dropped from its queue because they were not taken in time."""
        self.events_dropped = 0

    # --- for the consumer --------------------------------------------------------------------------

    async def ready(self) -> Self:
        """Wait until the node has confirmed the subscription.

        Raises:
            ArautoError: why the node refused it; CONFLICT on another event loop than the client's.
        """
        self._home.check()
        await asyncio.shield(self._ready)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        """The next message.

        Raises:
            ArautoError: the reason, if the subscription was ended by the node, by its own full queue or
                by the client's failure. Messages that had arrived before come first.
        """
        while await self._inbox.wait():
            received = self._take()
            if received is not None:
                return received
        raise StopAsyncIteration

    async def take(self, len_max: int = 100) -> list[Received]:
        """Wait for at least one message and return up to `len_max`; empty once the subscription ended."""
        batch: list[Received] = []
        while not batch and await self._inbox.wait():
            while len(batch) < len_max and len(self._inbox):
                received = self._take()
                if received is not None:
                    batch.append(received)
        return batch

    async def events(self) -> AsyncIterator[SubscriptionEvent]:
        """Yield gaps, joins, leaves, presence, occupancy, and the result of each (re)subscription."""
        while await self._events.wait():
            event = self._events.pop()
            assert event is not None
            yield event

    @property
    def serial(self) -> Serial | None:
        """The place of the last message that arrived (channels only, not patterns and topics)."""
        return self.positions.place(self.channel)

    @property
    def queued(self) -> int:
        """Messages that arrived and were not taken yet."""
        return len(self._inbox)

    async def unsubscribe(self) -> None:
        """End the subscription. Iterators yield what has arrived, then stop."""
        await self._owner.unsubscribe(self)

    async def __aenter__(self) -> Self:
        try:
            return await self.ready()
        except asyncio.CancelledError:
            self._owner.drop(self)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.unsubscribe()

    def __repr__(self) -> str:
        state = "ended" if self.is_ended else "attached" if self.is_attached else "waiting"
        return f"<Subscription {self.channel} {state}>"

    # --- for the client ----------------------------------------------------------------------------

    @property
    def was_ready(self) -> bool:
        """Whether the node ever confirmed it."""
        return self._ready.done()

    def hook_document(
        self,
        on_document: Callable[[DocumentInfo | DocumentUpdated], None],
        on_end: Callable[[ArautoError | None], None],
    ) -> None:
        """Let a document handle see its channel's document events, and the end."""
        self._on_document = on_document
        self._on_end = on_end

    def handle_result(self, result: SubscribeResult) -> bool:
        """Take the node's answer. Returns False if it should be asked again later."""
        if result.error is not None:
            error = from_event(result.error)
            if error.retryable and self.was_ready:
                return False
            self.end(error)
            return True
        if self.was_ready or self.positions.is_continued:
            self.recovered = result.recovered
        gaps = self.positions.attached(result)
        self.is_attached = True
        if not self._ready.done():
            self._ready.set_result(None)
        self.handle_event(result)
        for gap in gaps:
            self.handle_gap(gap)
        return True

    def handle_message(self, message: Message) -> None:
        """Take a delivery. Before the node's answer it is ignored: recovery will bring it again."""
        if not self.is_attached:
            return
        if self._held:
            held = self._held.get(message.channel)
            if held is not None:
                self._hold(held, message)
                return
        if self.positions.admit(message):
            self._enqueue(message)

    def handle_gap(self, gap: Gap) -> None:
        """Take the news that messages are missing: fill the hole or announce it."""
        if not self.is_attached:
            return
        held = self._held.get(gap.channel)
        if held is not None:
            self._hold(held, gap)
        elif self._fills_gaps and gap.upto > gap.after:
            self._held[gap.channel] = _Hold(gap)
            self._owner.fill(self, gap)
        else:
            self._announce(gap)

    def handle_event(self, event: SubscriptionEvent) -> None:
        if not self._events.fits(_EVENT_BYTES):
            self._events.pop()
            self.events_dropped += 1
        self._events.put(event, _EVENT_BYTES)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                _log.exception("on_event of %s failed", self.channel)

    def handle_document(self, event: DocumentInfo | DocumentUpdated) -> None:
        if self._on_document is not None:
            self._on_document(event)

    def detach(self) -> None:
        """The connection is gone. What was held back comes again with the recovery."""
        self.is_attached = False
        self._held.clear()

    def end(self, error: ArautoError | None = None) -> None:
        """No more messages, for this reason (None: it was asked for)."""
        if self.is_ended:
            return
        self.is_ended = True
        self.is_attached = False
        self.error = error
        self._held.clear()
        self._inbox.end(error)
        self._events.end(error)
        if self._on_end is not None:
            self._on_end(error)
        if not self._ready.done():
            if error is not None:
                self._ready.set_exception(error)
                self._ready.exception()  # nobody has to wait for it
            else:
                self._ready.set_result(None)

    # --- filling a gap -----------------------------------------------------------------------------

    async def fill_message(self, gap: Gap, message: Message) -> bool:
        """Take a message from history; waits while the queue is full. False if no longer wanted."""
        if not await self._inbox.wait_space(len(message.payload)) or not self._is_filling(gap):
            return False
        if self.positions.admit(message):
            self._enqueue(message)
        return True

    def fill_done(self, gap: Gap, *, complete: bool) -> None:
        """The gap is filled as far as it can be: go on with what arrived meanwhile."""
        if not self._is_filling(gap):
            return
        items = self._held.pop(gap.channel).items
        if not complete:
            self._announce(gap)
        elif gap.reason == _NOT_RECOVERED:
            self.positions.skip(gap)
        for at, item in enumerate(items):
            if isinstance(item, Message):
                self.handle_message(item)
                continue
            self.handle_gap(item)
            if gap.channel in self._held:
                self._held[gap.channel].items = items[at + 1 :]
                return

    def _is_filling(self, gap: Gap) -> bool:
        hold = self._held.get(gap.channel)
        return hold is not None and hold.gap is gap

    def _hold(self, hold: _Hold, item: Message | Gap) -> None:
        if len(hold.items) < self._hold_len_max:
            hold.items.append(item)
        elif self._drops_oldest:
            # Too much arrives to wait any longer: live messages matter more than the hole.
            hold.items.append(item)
            self.fill_done(hold.gap, complete=False)
        else:
            self._overflow(len(hold.items))

    # --- the queue ---------------------------------------------------------------------------------

    def _overflow(self, waiting: int) -> None:
        _log.warning("%s: %d messages wait and are not taken fast enough", self.channel, waiting)
        self.end(too_slow(self.channel))
        self._owner.drop(self)

    def _announce(self, gap: Gap) -> None:
        if gap.reason == _NOT_RECOVERED:
            self.positions.skip(gap)
        self.handle_event(gap)
        self._enqueue(gap)

    def _enqueue(self, item: Message | Gap) -> None:
        size_bytes = len(item.payload) if isinstance(item, Message) else _GAP_BYTES
        while not self._inbox.fits(size_bytes):
            if not self._drops_oldest:
                self._overflow(len(self._inbox))
                return
            self._drop_oldest()
        self._inbox.put(item, size_bytes)

    def _drop_oldest(self) -> None:
        oldest = self._inbox.pop()
        if isinstance(oldest, Message):
            if not self.dropped:
                _log.warning("%s: the queue is full, the oldest messages are dropped", self.channel)
            self.dropped += 1
            oldest = Gap(
                channel=oldest.channel,
                after=Serial(oldest.epoch, oldest.offset - 1),
                upto=oldest.serial,
                reason="client_queue",
            )
            if oldest.channel not in self._missed:
                # Only the first of a run is an event; the next message tells the whole extent.
                self.handle_event(oldest)
        if oldest is not None:
            self._missed[oldest.channel] = merge_gaps(self._missed.get(oldest.channel), oldest)

    def _take(self) -> Received | None:
        """Take the oldest item; gaps wait for the message after them."""
        item = self._inbox.pop()
        if isinstance(item, Gap):
            self._missed[item.channel] = merge_gaps(self._missed.get(item.channel), item)
            return None
        assert item is not None
        if not self._missed:
            return Received(item)
        missed = tuple(self._missed.values())
        self._missed = {}
        return Received(item, missed)
