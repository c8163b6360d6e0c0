"""When a document is written whole: also while it never rests, by time and by the length of its log."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document import channel as module
from arauto.features.document.channel import DocumentChannel
from arauto.features.document.value import Value
from arauto.storage.base import Snapshot, Storage
from arauto.storage.memory import MemoryDocumentStore, MemoryKeyValueStore, open_memory
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import NOBODY, World

NAME = "doc:1"
LOG = "document:" + NAME


class Kv(MemoryKeyValueStore):
    """A store that takes a moment for each change, as every real one does."""

    loses_answers = False

    async def push(self, hub: str, key: str, value: bytes) -> int:
        await asyncio.sleep(0)
        return await super().push(hub, key, value)

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        await super().drop_first(hub, key, count)
        if self.loses_answers:
            raise StorageError(Code.STORAGE_FAILED, "cut, but nobody is told")


class Documents(MemoryDocumentStore):
    """Counts what it is asked to keep, and refuses while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0
        self.refuses = False

    async def save(self, hub: str, channel: str, snapshot: Snapshot) -> None:
        self.attempts += 1
        if self.refuses:
            raise StorageError(Code.STORAGE_FAILED, "no")
        await super().save(hub, channel, snapshot)


class Case:
    """A document that is changed as soon as its last change is through, so that it never rests."""

    def __init__(self, text: str = "x") -> None:
        clock = FakeClock()
        memory = open_memory(clock)
        self.kv, self.documents = Kv(clock), Documents()
        storage = Storage(
            journal=memory.journal,
            settings=memory.settings,
            kv=self.kv,
            documents=self.documents,
            counters=memory.counters,
            url="",
            close=memory.close,
        )
        self.world = World(clock=clock, storage=storage)
        self.text = text
        self.version = 0
        self.stopped = False
        self.errors: list[ArautoError] = []

    async def start(self) -> None:
        self.channel = await self.open()
        self._write()
        self._write()

    async def open(self) -> DocumentChannel:
        channel = await self.world.channel(NAME)
        assert isinstance(channel, DocumentChannel)
        return channel

    def _write(self) -> None:
        path = f"/{self.version % 10}"
        operation = Operation(op="add", path=path, value=f"{self.text}{self.version}")
        self.channel.change([operation], -1, NOBODY, self._through)

    def _through(self, version: int, error: ArautoError | None, visited_nodes: int) -> None:
        self.version = version
        if error is not None:
            self.errors.append(error)
        if not self.stopped:
            self._write()

    async def log_len(self) -> int:
        return len(await self.kv.items("shop", LOG))

    async def saved(self) -> int:
        """The version of the last snapshot."""
        kept = await self.documents.load("shop", NAME)
        return kept.version if kept is not None else 0

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        while not await is_so():
            assert self.version < 20_000, "it never came"
            await asyncio.sleep(0)

    async def until_version(self, version: int) -> None:
        async def is_there() -> bool:
            return self.version >= version

        await self.until(is_there)

    async def until_saved(self, version: int) -> None:
        async def is_kept() -> bool:
            return await self.saved() >= version

        await self.until(is_kept)

    async def until_cut(self, length: int) -> None:
        async def is_short() -> bool:
            return await self.log_len() < length

        await self.until(is_short)

    async def end(self) -> None:
        """Stop; what a crash would leave now is the document as everybody knows it."""
        self.stopped = True
        await self.world.settle()
        known: list[tuple[int, Value]] = []
        self.channel.look(lambda version, value: known.append((version, value)))
        (await self.open()).look(lambda version, value: known.append((version, value)))
        assert known[0] == known[1]
        assert known[0][0] == self.version
        assert not self.errors
        assert not self.world.failures


async def test_a_document_that_never_rests_is_snapshotted_by_interval() -> None:
    case = Case()
    await case.start()
    for _ in range(3):
        saved = await case.saved()
        await case.until_version(case.version + 20)
        case.world.clock.advance(30)
        await case.until_saved(saved + 20)
        await case.until_cut(case.version)
    assert case.documents.attempts == 3
    await case.end()


async def test_a_log_that_grows_long_is_cut_before_the_interval_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOG_LEN_MAX", 50)
    case = Case()
    await case.start()
    for version in (50, 100, 150):
        await case.until_saved(version)
        await case.until_cut(case.version - version + 50)
    assert case.documents.attempts <= case.version // 50
    await case.end()


async def test_a_log_of_many_bytes_is_cut_before_the_interval_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOG_BYTES_MAX", 20_000)
    case = Case("x" * 200)
    await case.start()
    await case.until_saved(1)
    assert 20_000 / 300 < await case.saved() < 200
    await case.end()


async def test_a_log_found_long_at_opening_is_cut_with_the_next_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case()
    await case.start()
    await case.until_version(60)
    case.stopped = True
    await case.world.settle()
    monkeypatch.setattr(module, "_LOG_LEN_MAX", 50)
    case.stopped = False
    await case.start()
    await case.until_saved(60)
    await case.until_cut(60)
    await case.end()


async def test_snapshots_that_fail_are_counted_and_tried_again_without_haste(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOG_LEN_MAX", 50)
    case = Case()
    case.documents.refuses = True
    await case.start()
    await case.until_version(500)
    assert 0 < case.documents.attempts <= case.version // 50
    counters = case.world.env.metrics.hub("shop")
    assert 0 < counters.snapshot_failures <= case.documents.attempts
    case.documents.refuses = False
    case.world.clock.advance(30)
    await case.until_saved(500)
    await case.until_cut(case.version)
    await case.end()


async def test_a_cut_whose_answer_is_lost_costs_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOG_LEN_MAX", 50)
    case = Case()
    case.kv.loses_answers = True
    await case.start()
    for version in (50, 100, 150, 200):
        await case.until_saved(version)
    assert case.world.env.metrics.hub("shop").snapshot_failures >= 3
    await case.end()
