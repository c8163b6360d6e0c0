"""What `arauto sub` does once it is connected: open every subscription, then show what they bring."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Protocol

from arauto.cli.messages import Printer
from arauto.client import Client, Document, Overflow, Received, Subscription, SubscriptionEvent
from arauto.client import Update as DocumentUpdate
from arauto.codec.events import Gap, SubscribeResult
from arauto.errors import ArautoError
from arauto.model import Direction, Serial
from arauto.names import is_pattern, is_topic, namespace_of

__all__ = ["Watch", "is_document"]

_TAKE_LEN = 500

#: Messages that may wait while the terminal, or the pipe, takes its time.
_QUEUE_LEN_MAX = 100_000
_QUEUE_BYTES_MAX = 64 * 1024 * 1024

#: Where patterns overlap a message reaches each of them; so many are remembered to show it once.
_RECENT_LEN_MAX = 10_000

_START = Serial(-1, 0)


def is_document(channel: str) -> bool:
    """Whether the channel holds a document."""
    return namespace_of(channel) == "doc"


class Tell(Protocol):
    """Says something to the person who watches, beside the output proper."""

    def __call__(self, text: str, style: str = ..., /) -> None: ...


class Watch:
    """All subscriptions of one call, and the count they share.

    Args:
        client: not connected yet.
        printer: shows what comes.
        history: messages to show from the past of each channel.
        since: where to continue, if there is one channel.
        count: messages after which to stop; 0 = never.
        presence: show who is there.
        tell: says what happens to the connection; None = nothing is said.
    """

    def __init__(
        self,
        client: Client,
        printer: Printer,
        *,
        history: int,
        since: Serial | None,
        count: int,
        presence: bool,
        tell: Tell | None,
    ) -> None:
        self._client = client
        self._printer = printer
        self._history = history
        self._since = since
        self._left = count or None
        self._presence = presence
        self._tell: Callable[..., None] = tell or (lambda *_: None)
        self._enough = asyncio.Event()
        self._past: dict[str, Serial] = {}
        """Where the past of a channel that was shown ends."""
        self._recent = _Recent()
        self._are_several = False
        self.last: Serial | None = None
        """The place of the last message shown."""

    async def run(self, channels: list[str], where: str) -> None:
        """Show what the channels bring until the count is reached.

        Raises:
            ArautoError: the node refused something, or cannot be reached.
        """
        self._are_several = len(channels) > 1
        async with self._client, AsyncExitStack() as stack:
            subscriptions: list[Subscription] = []
            documents: list[Document] = []
            for channel in channels:
                with self._naming(channel):
                    if is_document(channel):
                        document = await stack.enter_async_context(self._client.document(channel))
                        documents.append(document)
                        subscriptions.append(document.subscription)
                    else:
                        subscriptions.append(await self._subscribe(channel))
            if self._history:
                # After subscribing, so that nothing falls between the past and the present.
                for channel in channels:
                    with self._naming(channel):
                        await self._show_history(channel)
            if not self._enough.is_set():
                self._tell(f"subscribed to {', '.join(channels)} on hub {where}; Ctrl-C ends")
                await self._show_all(subscriptions, documents)

    async def _show_all(self, subscriptions: list[Subscription], documents: list[Document]) -> None:
        """Show what comes until there is enough, or something ends for a reason of its own."""
        tasks = [asyncio.ensure_future(self._show(each)) for each in subscriptions]
        tasks += [asyncio.ensure_future(self._show_document(each)) for each in documents]
        enough = asyncio.ensure_future(self._enough.wait())
        try:
            await asyncio.wait([enough, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for each in (enough, *tasks):
                each.cancel()
            await asyncio.gather(enough, *tasks, return_exceptions=True)

    async def _subscribe(self, channel: str) -> Subscription:
        if self._presence and not (is_pattern(channel) or is_topic(channel)):
            # The list comes with the subscription; this refuses aloud where there is none.
            await self._client.presence(channel)
        subscription = self._client.subscribe(
            channel,
            since=self._since,
            overflow=Overflow.DROP_OLDEST,
            queue_len_max=_QUEUE_LEN_MAX,
            queue_bytes_max=_QUEUE_BYTES_MAX,
            on_event=_Events(self, resumes=self._since is not None),
        )
        return await subscription.ready()

    async def _show_history(self, channel: str) -> None:
        """Show the last messages; those of them that arrive live as well are left out then."""
        history = self._client.history(channel, limit=self._history, direction=Direction.BACKWARD)
        messages = [message async for message in history]
        for message in reversed(messages):
            self._take(message)
        if messages:
            self._past[channel] = messages[0].serial
        self._printer.flush()

    @contextmanager
    def _naming(self, channel: str) -> Iterator[None]:
        """Let a refusal say which of several channels it is about."""
        try:
            yield
        except ArautoError as error:
            if not self._are_several or error.field != "channel":
                raise
            raise ArautoError(error.code, error.message, field=channel) from error

    async def _show(self, subscription: Subscription) -> None:
        with self._naming(subscription.channel):
            await self._show_messages(subscription)

    async def _show_messages(self, subscription: Subscription) -> None:
        while batch := await subscription.take(_TAKE_LEN):
            for message in batch:
                for gap in message.missed:
                    self._printer.gap(gap)
                if message.serial > self._past.get(message.channel, _START):
                    self._take(message)
            self._printer.flush()
            # A full terminal or pipe blocks us here; let heartbeats and signals through in between.
            await asyncio.sleep(0)

    async def _show_document(self, document: Document) -> None:
        first = DocumentUpdate(version=document.version, value=document.value)
        self._take_version(document, first)
        async for update in document.updates():
            self._take_version(document, update)

    def _take_version(self, document: Document, update: DocumentUpdate) -> None:
        if self._count():
            self._printer.document(document.channel, update)
            self._printer.flush()

    def _take(self, message: Received) -> None:
        if self._recent.add(message.channel, message.serial) and self._count():
            self._printer.message(message)
            self.last = message.serial

    def _count(self) -> bool:
        """Whether one more may be shown."""
        if self._left is None:
            return True
        if self._left == 0:
            return False
        self._left -= 1
        if self._left == 0:
            self._enough.set()
        return True

    def handle_event(self, event: SubscriptionEvent, *, resumed: bool) -> None:
        """Show, or say, what happened around the messages."""
        if isinstance(event, SubscribeResult):
            if resumed and event.recovered:
                count = event.recovered_count
                found = f"{count} missed, all recovered" if count else "nothing was missed"
                self._tell(f"{event.channel}: {found}")
            elif resumed:
                self._tell(f"{event.channel}: not all that was missed could be recovered", "yellow")
        elif self._presence and not isinstance(event, Gap):
            self._printer.event(event)
            self._printer.flush()


class _Events:
    """What one subscription calls with its events; knows whether it has stood before."""

    def __init__(self, watch: Watch, *, resumes: bool) -> None:
        self._watch = watch
        self._resumes = resumes

    def __call__(self, event: SubscriptionEvent) -> None:
        self._watch.handle_event(event, resumed=self._resumes)
        if isinstance(event, SubscribeResult):
            self._resumes = True


class _Recent:
    """The last messages shown."""

    def __init__(self) -> None:
        self._order: deque[tuple[str, Serial]] = deque()
        self._known: set[tuple[str, Serial]] = set()

    def add(self, channel: str, serial: Serial) -> bool:
        """Whether it is new."""
        entry = (channel, serial)
        if entry in self._known:
            return False
        self._known.add(entry)
        self._order.append(entry)
        if len(self._order) > _RECENT_LEN_MAX:
            self._known.discard(self._order.popleft())
        return True
