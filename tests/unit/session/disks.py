"""A disk under the test's control, on any storage: slow, full, or with notes that cannot be written."""

from collections.abc import AsyncIterator, Sequence

from arauto.errors import Code, StorageError
from arauto.model import Message
from arauto.storage.base import (
    Done,
    HistoryQuery,
    Journal,
    JournalEntry,
    KeyValueStore,
    LastPlace,
    Pairs,
    Storage,
)

__all__ = ["HeldJournal", "MoodyNotes", "on_disk"]

_FULL = StorageError(Code.STORAGE_FULL, "the disk is full")


class HeldJournal:
    """A journal whose commits wait until the test lets them through, or fails them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.waiting: list[tuple[JournalEntry, Done]] = []

    @property
    def last_seq(self) -> int:
        return self._journal.last_seq

    def append(self, entry: JournalEntry, done: Done) -> None:
        self.waiting.append((entry, done))

    async def commit(self, count: int) -> None:
        """Finish the oldest waiting entries."""
        let, self.waiting = self.waiting[:count], self.waiting[count:]
        for entry, done in let:
            self._journal.append(entry, done)
        await self._journal.flush()

    def refuse(self, count: int, *, newest: bool) -> None:
        """Fail the newest waiting entries, while nothing is known of those before them, or the oldest."""
        for _ in range(min(count, len(self.waiting))):
            _, done = self.waiting.pop(-1 if newest else 0)
            done(_FULL)

    async def flush(self) -> None:
        await self.commit(len(self.waiting))

    async def history(self, query: HistoryQuery) -> list[Message]:
        return await self._journal.history(query)

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        return await self._journal.last(hub, channel)

    async def places(
        self, hub: str, names: tuple[str, str], after_ms: int, *, scan_len: int
    ) -> dict[str, LastPlace] | None:
        return await self._journal.places(hub, names, after_ms, scan_len=scan_len)

    async def read(self, after_seq: int, limit: int) -> list[tuple[int, JournalEntry]]:
        return await self._journal.read(after_seq, limit)

    async def trim(self, exported_seq: int, now_ms: int) -> int:
        return await self._journal.trim(exported_seq, now_ms)

    async def close(self) -> None:
        """Whoever opened it closes it."""


#: What a hub notes about its channels and settings.
_NOTES = ("epoch:", "settings:")


class MoodyNotes:
    """A key-value store in which a hub cannot note anything for a while."""

    def __init__(self, kv: KeyValueStore) -> None:
        self._kv = kv
        self.is_away = False

    def _check(self, key: str) -> None:
        if self.is_away and key.startswith(_NOTES):
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the store is away")

    async def get(self, hub: str, key: str) -> bytes | None:
        return await self._kv.get(hub, key)

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        self._check(key)
        await self._kv.put(hub, key, value, ttl_s)

    async def delete(self, hub: str, key: str) -> bool:
        self._check(key)
        return await self._kv.delete(hub, key)

    async def take(self, hub: str, key: str) -> bytes | None:
        return await self._kv.take(hub, key)

    def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        return self._kv.scan(hub, prefix, limit)

    async def push(self, hub: str, key: str, value: bytes) -> int:
        self._check(key)
        return await self._kv.push(hub, key, value)

    async def items(self, hub: str, key: str) -> Sequence[bytes]:
        return await self._kv.items(hub, key)

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        self._check(key)
        await self._kv.drop_first(hub, key, count)

    async def close(self) -> None:
        """Whoever opened it closes it."""


def on_disk(storage: Storage) -> tuple[Storage, HeldJournal, MoodyNotes]:
    """The same storage, with a disk under the test's control."""
    journal, notes = HeldJournal(storage.journal), MoodyNotes(storage.kv)
    held = Storage(
        journal=journal,
        settings=storage.settings,
        kv=notes,
        documents=storage.documents,
        counters=storage.counters,
        url="",
        close=journal.close,
    )
    return held, journal, notes
