"""The blocking face of the client: the same methods, for programs without an event loop.

The asynchronous client runs in a thread of its own; every call here hands it the work and waits. Iterators
block until the next message. Ctrl-C interrupts any wait at once and loses nothing. Callbacks run in that
thread: they must be quick, and must not call the client. Any thread may use a client, or close it: what the
others wait for then ends. A process that was forked has to make its own.
"""

import asyncio
import concurrent.futures
import os
import ssl
import threading
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from arauto.client import client as asynchronous
from arauto.client import document as async_document
from arauto.client import subscription as async_subscription
from arauto.client.document import Update
from arauto.client.drafts import Draft, PublishOptions
from arauto.client.failures import RequestTimeoutError, closed_by_client
from arauto.client.history import Page
from arauto.client.options import CredentialsSource, TokenSource, Tuning
from arauto.client.received import Received, SubscriptionEvent
from arauto.client.session import OnState
from arauto.client.standing import Standing
from arauto.client.state import State
from arauto.client.subscription import Overflow
from arauto.codec.events import Operation, Presence
from arauto.errors import ArautoError, Code
from arauto.limits import HISTORY_PAGE_LEN_MAX
from arauto.model import Direction, Grants, Identity, Serial

__all__ = ["Client", "Document", "Subscription"]

T = TypeVar("T")

#: Messages fetched from the other thread at a time.
_TAKE_LEN = 100


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._handing_over = threading.Lock()
        self._is_stopping = False
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # A daemon, so that a program that forgot to close its client can still end.
        self._thread = threading.Thread(target=self._main, name="arauto-client", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its outcome; an interrupt cancels it."""
        if self.is_of_another_process:
            work.close()
            raise ArautoError(
                Code.CONFLICT, "this client is of the process that was forked; make another one"
            )
        if threading.current_thread() is self._thread:
            work.close()
            raise ArautoError(Code.CONFLICT, "a callback must not call the blocking client")
        # Not between the loop's last turn and its end: nobody would ever look at it.
        with self._handing_over:
            if self._is_stopping or self._loop is None:
                work.close()
                raise closed_by_client()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            # It was under way when another thread closed the client.
            raise closed_by_client() from None
        except BaseException:
            future.cancel()
            raise

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process is a fork of the one whose thread it is: here there is none."""
        return self._pid != os.getpid()

    def stop(self) -> None:
        with self._handing_over:
            if self._is_stopping or self._loop is None or self._stop is None:
                return
            self._is_stopping = True
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


class _Source(Generic[T]):
    """Iterates over something asynchronous. What was fetched is kept here, also if a wait is interrupted."""

    def __init__(
        self, thread: _LoopThread, fetch: Callable[[], Coroutine[Any, Any, Sequence[T]]]
    ) -> None:
        self._thread = thread
        self._fetch = fetch
        self._fetched: deque[T] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self.get()
        if item is None:
            raise StopIteration
        return item

    def get(self, timeout_s: float | None = None) -> T | None:
        """The next item; None at the end.

        Raises:
            RequestTimeoutError: none came in time.
        """
        if not self._fetched:
            self._thread.run(self._fill(timeout_s))
        return self._fetched.popleft() if self._fetched else None

    async def _fill(self, timeout_s: float | None) -> None:
        # Kept by the thread that fetched it: an interrupted wait then loses nothing.
        try:
            async with asyncio.timeout(timeout_s):
                self._fetched.extend(await self._fetch())
        except TimeoutError as error:
            if isinstance(error, ArautoError):
                raise
            raise RequestTimeoutError(timeout_s or 0) from None


def _one_by_one(source: AsyncIterator[T]) -> Callable[[], Coroutine[Any, Any, Sequence[T]]]:
    async def fetch() -> Sequence[T]:
        try:
            return [await anext(source)]
        except StopAsyncIteration:
            return []

    return fetch


class Subscription(_Source[Received]):
    """A subscription; iterate over it, or `get` one message with a time limit."""

    def __init__(self, thread: _LoopThread, subscription: async_subscription.Subscription) -> None:
        super().__init__(thread, lambda: subscription.take(_TAKE_LEN))
        self._subscription = subscription

    @property
    def channel(self) -> str:
        return self._subscription.channel

    @property
    def recovered(self) -> bool | None:
        """Whether the last reconnect brought back everything that was missed; None before the first."""
        return self._subscription.recovered

    @property
    def serial(self) -> Serial | None:
        """The place of the last message that arrived (channels only, not patterns and topics)."""
        return self._subscription.serial

    @property
    def dropped(self) -> int:
        """Messages dropped from its queue because they were not taken in time."""
        return self._subscription.dropped

    def ready(self) -> Self:
        """Wait until the node has confirmed the subscription.

        Raises:
            ArautoError: why the node refused it.
        """
        self._thread.run(self._subscription.ready())
        return self

    def events(self) -> Iterator[SubscriptionEvent]:
        """Gaps, joins, leaves, presence, occupancy, and the result of each (re)subscription."""
        return _Source(self._thread, _one_by_one(self._subscription.events()))

    def unsubscribe(self) -> None:
        """End the subscription. Iterators yield what has arrived, then stop."""
        self._thread.run(self._subscription.unsubscribe())

    def __enter__(self) -> Self:
        self._thread.run(self._subscription.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unsubscribe()


class Document:
    """A live document; use it as a context manager."""

    def __init__(self, thread: _LoopThread, document: async_document.Document) -> None:
        self._thread = thread
        self._document = document

    @property
    def channel(self) -> str:
        return self._document.channel

    @property
    def value(self) -> Any:
        """The document now. Do not change it: use `change`. Values seen earlier stay as they were."""
        return self._document.value

    @property
    def version(self) -> int:
        """Grows by one with every change; 0 = never changed."""
        return self._document.version

    def get(self, pointer: str) -> Any:
        """The part of the document a JSON Pointer names."""
        return self._document.get(pointer)

    def change(
        self,
        operations: Sequence[Operation | Mapping[str, Any]],
        *,
        if_version: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Apply all operations or none; see `arauto.client.Document.change`."""
        change = self._document.change(operations, if_version=if_version, timeout_s=timeout_s)
        return self._thread.run(change)

    def updates(self) -> Iterator[Update]:
        """Every new version of the document as the local copy reaches it."""
        return _Source(self._thread, _one_by_one(self._document.updates()))

    def ready(self) -> Self:
        """Wait until the local copy is there."""
        self._thread.run(self._document.ready())
        return self

    def __enter__(self) -> Self:
        return self.ready()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.run(self._document.__aexit__(kind, error, traceback))


class Client:
    """A connection to one hub that keeps itself alive; see `arauto.client.Client` for the arguments."""

    def __init__(
        self,
        url: str,
        *,
        hub: str,
        token: TokenSource | None = None,
        credentials: CredentialsSource = None,
        flavour: asynchronous.Flavour = "proto",
        strict_grants: bool = False,
        on_state_change: OnState | None = None,
        tuning: Tuning | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._client = asynchronous.Client(
            url,
            hub=hub,
            token=token,
            credentials=credentials,
            flavour=flavour,
            strict_grants=strict_grants,
            on_state_change=on_state_change,
            tuning=tuning,
            ssl_context=ssl_context,
        )
        self._thread: _LoopThread | None = None
        self._closing = threading.Lock()

    # --- life --------------------------------------------------------------------------------------

    def connect(self) -> Self:
        """Connect and wait until the session stands; see `arauto.client.Client.connect`."""
        if self._thread is None:
            self._thread = _LoopThread()
        try:
            self._thread.run(self._client.connect())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Say goodbye and release everything, the thread too; in a forked process, only forget it."""
        with self._closing:
            thread, self._thread = self._thread, None
        if thread is not None and not thread.is_of_another_process:
            try:
                thread.run(self._client.close())
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- what there is to see ----------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._client.state

    @property
    def error(self) -> ArautoError | None:
        """What made the client fail."""
        return self._client.error

    @property
    def session(self) -> str:
        return self._client.session

    @property
    def user(self) -> str:
        return self._client.user

    @property
    def grants(self) -> Grants:
        return self._client.grants

    @property
    def standing(self) -> Standing:
        return self._client.standing

    # --- what there is to do -----------------------------------------------------------------------

    def subscribe(
        self,
        channel: str,
        *,
        since: Serial | Mapping[str, Serial] | None = None,
        fill_gaps: bool = False,
        overflow: Overflow = Overflow.FAIL,
        queue_len_max: int | None = None,
        queue_bytes_max: int | None = None,
        on_event: Callable[[SubscriptionEvent], object] | None = None,
    ) -> Subscription:
        """Subscribe to a channel, a pattern or a topic; see `arauto.client.Client.subscribe`."""

        async def subscribe() -> async_subscription.Subscription:
            return self._client.subscribe(
                channel,
                since=since,
                fill_gaps=fill_gaps,
                overflow=overflow,
                queue_len_max=queue_len_max,
                queue_bytes_max=queue_bytes_max,
                on_event=on_event,
            )

        thread = self._running()
        return Subscription(thread, thread.run(subscribe()))

    def document(self, channel: str) -> Document:
        """A live copy of a document: `with c.document("doc:board") as d: d.value`."""

        async def open_document() -> async_document.Document:
            return self._client.document(channel)

        thread = self._running()
        return Document(thread, thread.run(open_document()))

    def publish(
        self,
        channel: str,
        data: Any,
        *,
        timeout_s: float | None = None,
        **options: Unpack[PublishOptions],
    ) -> Serial:
        """Publish and wait for the acknowledgement; see `arauto.client.Client.publish`."""
        return self._running().run(
            self._client.publish(channel, data, timeout_s=timeout_s, **options)
        )

    def publish_nowait(self, channel: str, data: Any, **options: Unpack[PublishOptions]) -> None:
        """Publish without acknowledgement."""

        async def publish() -> None:
            self._client.publish_nowait(channel, data, **options)

        self._running().run(publish())

    def publish_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None
    ) -> list[Serial]:
        """Publish many messages, in order, with few round trips."""
        return self._running().run(self._client.publish_many(list(drafts), timeout_s=timeout_s))

    def history(
        self,
        channel: str,
        *,
        since: Serial | None = None,
        until: Serial | None = None,
        from_time: datetime | int | None = None,
        to_time: datetime | int | None = None,
        limit: int | None = None,
        direction: Direction = Direction.FORWARD,
        page_len: int = HISTORY_PAGE_LEN_MAX // 10,
    ) -> Iterator[Received]:
        """A channel's past; see `arauto.client.Client.history`."""

        async def begin() -> AsyncIterator[Page]:
            return self._client.history(
                channel,
                since=since,
                until=until,
                from_time=from_time,
                to_time=to_time,
                limit=limit,
                direction=direction,
                page_len=page_len,
            ).pages()

        thread = self._running()
        pages = thread.run(begin())

        async def fetch() -> Sequence[Received]:
            async for page in pages:
                if page.messages:
                    return page.messages
            return ()

        return _Source(thread, fetch)

    def presence(self, channel: str) -> Presence:
        """Who is subscribed."""
        return self._running().run(self._client.presence(channel))

    def occupancy(self, channel: str) -> int:
        """How many are subscribed."""
        return self._running().run(self._client.occupancy(channel))

    def authenticate(self, credentials: CredentialsSource) -> Identity:
        """Authenticate, or change who this session is, without reconnecting."""
        return self._running().run(self._client.authenticate(credentials))

    def may_publish(self, channel: str) -> bool:
        """Whether a grant lets this client publish there."""
        return self._client.may_publish(channel)

    def may_subscribe(self, channel: str) -> bool:
        """Whether a grant lets this client subscribe to the channel or pattern."""
        return self._client.may_subscribe(channel)

    def _running(self) -> _LoopThread:
        if self._thread is None:
            if self._client.state is State.NEW:
                raise ArautoError(Code.CONFLICT, "connect first: `with Client(…) as c:`")
            raise closed_by_client()
        return self._thread
