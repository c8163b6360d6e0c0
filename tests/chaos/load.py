"""Publishers and document changers that go on through every outage, and write down what they are told."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from arauto.codec.events import (
    Ack,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    Event,
    HistoryReply,
    HistoryRequest,
    Operation,
    PublishItem,
    PublishRequest,
)
from tests.chaos.ledger import DocumentBook, Findings, MessageBook
from tests.chaos.link import Link, open_link
from tests.chaos.processes import NodeProcess

__all__ = ["Load", "Plan"]

_BATCH_MAX = 8


@dataclass(frozen=True)
class Plan:
    """How much is sent."""

    publishers: int = 4
    in_flight: int = 64
    """Messages of one publisher that may wait for their acknowledgement."""
    channels: tuple[str, ...] = ("orders", "stock")
    changers: int = 3
    changes_in_flight: int = 6
    documents: tuple[str, ...] = ("doc:board", "doc:cart", "doc:plan")
    payload_bytes: int = 0
    """Payloads are filled up to this size; the key stands at the start."""

    @property
    def in_flight_max(self) -> int:
        return self.publishers * self.in_flight + self.changers * self.changes_in_flight


class Load:
    """The whole load on one node, and its books."""

    def __init__(self, node: NodeProcess, plan: Plan, seed: int = 0, hub: str = "shop") -> None:
        self.node = node
        self.plan = plan
        self.seed = seed
        self.hub = hub
        self.books = {channel: MessageBook(channel) for channel in plan.channels}
        self.documents = {name: DocumentBook(name) for name in plan.documents}
        self.links: list[Link] = []
        """Every connection the workers ever made."""
        self.codes: dict[int, int] = {}
        """Refusals by error code."""
        self.acks = 0
        self.is_stopping = False
        self._news = asyncio.Event()
        self._workers: list[_Worker] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- running -----------------------------------------------------------------------------------

    def start(self) -> None:
        self._workers += [_Publisher(self, n) for n in range(self.plan.publishers)]
        if self.documents:
            self._workers += [_Changer(self, n) for n in range(self.plan.changers)]
        for worker in self._workers:
            task = asyncio.create_task(worker.run())
            task.add_done_callback(lambda _: self._news.set())
            self._tasks.append(task)

    async def stop(self) -> None:
        """Send nothing new; wait until everything sent is answered, by the next node if need be."""
        self.is_stopping = True
        for worker in self._workers:
            worker.wake.set()
        await asyncio.gather(*self._tasks)

    async def abandon(self) -> None:
        """Stop at once; what is not answered stays so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_acked(self, more: int) -> None:
        """Wait for so many further acknowledgements."""
        goal = self.acks + more
        await self.until(lambda: self.acks >= goal)

    async def until_refused(self, more: int) -> None:
        """Wait for so many further refusals."""
        goal = self.refusals + more
        await self.until(lambda: self.refusals >= goal)

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            for task in self._tasks:
                if task.done():
                    await task  # a worker does not end by itself: this raises what ended it
            self._news.clear()
            await self._news.wait()

    @property
    def refusals(self) -> int:
        return sum(self.codes.values())

    @property
    def unanswered(self) -> int:
        books: list[MessageBook | DocumentBook] = [*self.books.values(), *self.documents.values()]
        return sum(book.unanswered for book in books)

    def count_ack(self) -> None:
        self.acks += 1
        self._news.set()

    def count_refusal(self, code: int) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1
        self._news.set()

    async def connect(self) -> Link:
        """A connection, as soon as there is a node to connect to."""
        while True:
            await self.node.wait_up()
            try:
                link = await open_link(self.node.url, self.hub)
            except OSError:
                # Ended between the two lines; its end is noticed in a moment.
                await asyncio.sleep(0)
                continue
            self.links.append(link)
            return link

    # --- reading back ------------------------------------------------------------------------------

    async def check(self, *, again: bool = False) -> Findings:
        """Fetch what is stored after what is known already (or all of it `again`) and compare.

        The counts are of what was compared.
        """
        findings = Findings()
        link = await open_link(self.node.url, self.hub)
        for book in self.books.values():
            if again:
                book.forget_stored()
            acked = book.take_acked()
            await _read_history(link, book)
            findings += book.check(acked)
        await link.close()
        return findings

    async def check_documents(self) -> Findings:
        """Fetch the documents and compare."""
        findings = Findings()
        link = await open_link(self.node.url, self.hub)
        for book in self.documents.values():
            acked = dict(book.acked)
            reply = await link.call(DocumentGetRequest(channel=book.channel))
            assert isinstance(reply, DocumentGetReply), reply
            entries = (reply.value or {}).get("entries", [])
            findings += book.check(acked, reply.version, entries)
        await link.close()
        return findings


async def _read_history(link: Link, book: MessageBook) -> None:
    while True:
        request = HistoryRequest(channel=book.channel, since=book.last, limit=1_000)
        page = await link.call(request)
        assert isinstance(page, HistoryReply), page
        for message in page.messages:
            key = message.payload.partition(b" ")[0].decode()
            assert message.id == key
            book.note_stored(message.serial, key)
        if not page.more:
            return


class _Worker(ABC):
    """Keeps a window of requests in flight, over one connection after another."""

    def __init__(self, load: Load, name: str, window: int) -> None:
        self.load = load
        self.name = name
        self.random = random.Random(f"{load.seed}-{name}")
        self.wake = asyncio.Event()
        self.in_flight = 0
        self._window = window
        self._count = 0

    async def run(self) -> None:
        while not self.load.is_stopping or self.leftovers():
            link = await self.load.connect()
            link.on_lost = self.wake.set
            try:
                await self._use(link)
            finally:
                await link.close()

    async def _use(self, link: Link) -> None:
        self.send_leftovers(link)
        while not link.lost.is_set():
            if self.load.is_stopping and not self.in_flight:
                return
            while self.in_flight < self._window and not self.load.is_stopping:
                self.send(link)
            self.wake.clear()
            await self.wake.wait()

    def new_key(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def leftovers(self) -> int:
        """How much is still to be sent again."""
        return 0

    def send_leftovers(self, link: Link) -> None:  # noqa: B027 - some leave nothing
        """Send again what earlier connections left unanswered."""

    @abstractmethod
    def send(self, link: Link) -> None:
        """Send something new."""


class _Publisher(_Worker):
    """Publishes in batches of changing size; what got no answer is sent again with the same key."""

    def __init__(self, load: Load, number: int) -> None:
        super().__init__(load, f"p{number}", load.plan.in_flight)
        self._left: deque[tuple[PublishItem, ...]] = deque()

    def leftovers(self) -> int:
        return len(self._left)

    def send_leftovers(self, link: Link) -> None:
        left, self._left = self._left, deque()
        for items in left:
            self._ask(link, items)

    def send(self, link: Link) -> None:
        items = tuple(self._item() for _ in range(self.random.randint(1, _BATCH_MAX)))
        self._ask(link, items)

    def _item(self) -> PublishItem:
        key = self.new_key()
        payload = f"{key} ".ljust(self.load.plan.payload_bytes, ".").encode()
        channel = self.random.choice(self.load.plan.channels)
        return PublishItem(channel=channel, payload=payload, idempotency_key=key)

    def _ask(self, link: Link, items: tuple[PublishItem, ...]) -> None:
        self.in_flight += len(items)
        link.ask(PublishRequest(items=items), lambda event: self._answered(items, event))

    def _answered(self, items: tuple[PublishItem, ...], event: Event | None) -> None:
        self.in_flight -= len(items)
        self.wake.set()
        if event is None:
            for item in items:
                self.load.books[item.channel].unanswered += 1
            self._left.append(items)
            return
        assert isinstance(event, Ack), event
        for item, result in zip(items, event.results, strict=True):
            book = self.load.books[item.channel]
            if result.error is not None:
                book.refused[item.idempotency_key] = result.error.code
                self.load.count_refusal(result.error.code)
            else:
                assert result.serial is not None
                book.note_ack(item.idempotency_key, result.serial)
                self.load.count_ack()


class _Changer(_Worker):
    """Appends ids to documents. A change has no key: what got no answer is not sent again."""

    def __init__(self, load: Load, number: int) -> None:
        super().__init__(load, f"c{number}", load.plan.changes_in_flight)

    def send(self, link: Link) -> None:
        book = self.load.documents[self.random.choice(self.load.plan.documents)]
        key = self.new_key()
        book.sent.add(key)
        operation = Operation(op="add", path="/entries/-", value=key)
        request = DocumentChangeRequest(channel=book.channel, operations=(operation,))
        self.in_flight += 1
        link.ask(request, lambda event: self._answered(book, key, event))

    def _answered(self, book: DocumentBook, key: str, event: Event | None) -> None:
        self.in_flight -= 1
        self.wake.set()
        if event is None:
            book.unanswered += 1
        elif isinstance(event, ErrorEvent):
            book.refused.append(key)
            self.load.count_refusal(event.code)
        else:
            assert isinstance(event, DocumentChangeReply), event
            assert event.version not in book.acked, "a version was given out twice"
            book.acked[event.version] = key
            self.load.count_ack()
