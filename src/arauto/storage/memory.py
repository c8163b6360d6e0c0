"""The reference implementation of every storage port: plain dicts and lists, nothing on disk.

It defines what the other adapters must do; the contract suite runs over all of them. "Durable" here means
"after the current turn of the clock", so that callers see the same asynchrony as with a disk.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence

from arauto.clock import Clock
from arauto.errors import Code, StorageError
from arauto.model import Direction, Message, Serial
from arauto.storage.base import (
    KEYS_KEPT_MS,
    Done,
    HistoryQuery,
    JournalEntry,
    Kind,
    LastPlace,
    Pairs,
    Snapshot,
    Storage,
    StorageCounters,
)
from arauto.storage.checks import check_text, entry_problem

__all__ = [
    "MemoryDocumentStore",
    "MemoryJournal",
    "MemoryKeyValueStore",
    "MemorySettingsStore",
    "open_memory",
]

#: Pairs in one page of a scan.
_PAGE_LEN = 250

_log = logging.getLogger(__name__)


class MemoryJournal:
    """A list of (seq, entry)."""

    def __init__(self, clock: Clock, counters: StorageCounters | None = None) -> None:
        self._clock = clock
        self._counters = counters or StorageCounters()
        self._rows: list[tuple[int, JournalEntry]] = []
        self._pending: list[tuple[JournalEntry, Done]] = []
        self._last_seq = 0
        self._closed = False

    @property
    def last_seq(self) -> int:
        return self._last_seq

    def append(self, entry: JournalEntry, done: Done) -> None:
        if self._closed:
            error = StorageError(Code.STORAGE_UNAVAILABLE, "the journal is closed")
            self._clock.call_soon(lambda: done(error))
            return
        if not self._pending:
            self._clock.call_soon(self._commit)
        self._pending.append((entry, done))

    def _commit(self) -> None:
        pending, self._pending = self._pending, []
        outcome: list[tuple[Done, StorageError | None]] = []
        for entry, done in pending:
            error = entry_problem(entry)
            if error is None:
                self._last_seq += 1
                self._rows.append((self._last_seq, entry))
                self._counters.committed += 1
            else:
                self._counters.failed += 1
            outcome.append((done, error))
        for done, error in outcome:
            try:
                done(error)
            except Exception:  # one caller's mistake must not cost the others their answer
                _log.exception("a journal callback raised")

    async def flush(self) -> None:
        self._commit()

    async def history(self, query: HistoryQuery) -> list[Message]:
        found = [e for e in self._messages(query.hub, query.channel) if _wanted(e, query)]
        found.sort(key=_serial, reverse=query.direction is Direction.BACKWARD)
        return [e.to_message() for e in found[: query.limit]]

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        last = max(self._messages(hub, channel), key=_serial, default=None)
        return LastPlace(_serial(last), last.ts_ms) if last else None

    async def places(
        self, hub: str, names: tuple[str, str], after_ms: int, *, scan_len: int
    ) -> dict[str, LastPlace] | None:
        found: dict[str, JournalEntry] = {}
        for _, entry in self._rows:
            in_range = entry.hub == hub and names[0] <= entry.channel <= names[1]
            if in_range and entry.kind is Kind.MESSAGE:
                known = found.get(entry.channel, entry)
                found[entry.channel] = max(known, entry, key=_serial)
        if len(found) > scan_len:
            return None
        return {
            channel: LastPlace(_serial(last), last.ts_ms)
            for channel, last in sorted(found.items())
            if last.ts_ms > after_ms
        }

    async def read(self, after_seq: int, limit: int) -> list[tuple[int, JournalEntry]]:
        start = bisect_right(self._rows, after_seq, key=lambda row: row[0])
        return self._rows[start : start + limit]

    async def trim(self, exported_seq: int, now_ms: int) -> int:
        newest: dict[tuple[str, str], Serial] = {}
        for _, entry in self._rows:
            if entry.kind is Kind.MESSAGE:
                place = (entry.hub, entry.channel)
                newest[place] = max(newest.get(place, Serial(-1, -1)), _serial(entry))

        def needed(seq: int, entry: JournalEntry) -> bool:
            if seq > exported_seq:
                return True
            if entry.kind is not Kind.MESSAGE:
                return False
            if entry.id and entry.ts_ms > now_ms - KEYS_KEPT_MS:
                return True
            return not _expired(entry, now_ms) or _serial(entry) == newest[entry.hub, entry.channel]

        before = len(self._rows)
        self._rows = [(seq, entry) for seq, entry in self._rows if needed(seq, entry)]
        return before - len(self._rows)

    async def close(self) -> None:
        self._commit()
        self._closed = True

    def _messages(self, hub: str, channel: str) -> list[JournalEntry]:
        return [
            entry
            for _, entry in self._rows
            if entry.kind is Kind.MESSAGE and entry.hub == hub and entry.channel == channel
        ]


def _serial(entry: JournalEntry) -> Serial:
    return Serial(entry.epoch, entry.offset)


def _expired(entry: JournalEntry, now_ms: int) -> bool:
    return entry.expires_ms != 0 and entry.expires_ms <= now_ms


def _wanted(entry: JournalEntry, query: HistoryQuery) -> bool:
    serial = _serial(entry)
    return not (
        (query.since is not None and serial <= query.since)
        or (query.until is not None and serial >= query.until)
        or (query.from_ms and entry.ts_ms < query.from_ms)
        or (query.to_ms and entry.ts_ms > query.to_ms)
        or _expired(entry, query.now_ms)
    )


class MemorySettingsStore:
    """A dict by (kind, hub, id)."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], bytes] = {}

    async def get(self, kind: str, hub: str, id: str) -> bytes | None:
        return self._values.get((kind, hub, id))

    async def put(self, kind: str, hub: str, id: str, value: bytes) -> None:
        check_text(kind=kind, hub=hub, id=id)
        self._values[kind, hub, id] = value

    async def delete(self, kind: str, hub: str, id: str) -> bool:
        return self._values.pop((kind, hub, id), None) is not None

    async def list(
        self, kind: str, hub: str | None, *, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> Sequence[tuple[str, str, bytes]]:
        found = sorted(
            (h, i, value)
            for (k, h, i), value in self._values.items()
            if k == kind and (hub is None or h == hub) and (h, i) > after
        )
        return found[:limit]

    async def load(self, hub: str) -> Sequence[tuple[str, str, bytes]]:
        return sorted((k, i, value) for (k, h, i), value in self._values.items() if h == hub)


class MemoryKeyValueStore:
    """Values with their expiry, and lists, by (hub, key)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._lists: dict[tuple[str, str], list[bytes]] = {}
        self._purged_ms = clock.wall_ms()

    async def get(self, hub: str, key: str) -> bytes | None:
        value, expires_ms = self._values.get((hub, key), (None, 0))
        return None if expires_ms and expires_ms <= self._clock.wall_ms() else value

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        check_text(hub=hub, key=key)
        self._purge()
        expires_ms = self._clock.wall_ms() + int(ttl_s * 1000) if ttl_s else 0
        self._values[hub, key] = (value, expires_ms)

    async def take(self, hub: str, key: str) -> bytes | None:
        value = await self.get(hub, key)
        self._values.pop((hub, key), None)
        return value

    async def delete(self, hub: str, key: str) -> bool:
        there = await self.take(hub, key) is not None
        return self._lists.pop((hub, key), None) is not None or there

    async def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        now_ms = self._clock.wall_ms()
        found = sorted(
            (key, value)
            for (h, key), (value, expires_ms) in self._values.items()
            if h == hub and key.startswith(prefix) and not 0 < expires_ms <= now_ms
        )
        for at in range(0, min(limit, len(found)), _PAGE_LEN):
            if at:
                await asyncio.sleep(0)
            yield found[at : min(at + _PAGE_LEN, limit)]

    async def push(self, hub: str, key: str, value: bytes) -> int:
        check_text(hub=hub, key=key)
        items = self._lists.setdefault((hub, key), [])
        items.append(value)
        return len(items)

    async def items(self, hub: str, key: str) -> Sequence[bytes]:
        return tuple(self._lists.get((hub, key), ()))

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        items = self._lists.get((hub, key), [])
        del items[: max(0, count)]
        if not items:
            self._lists.pop((hub, key), None)

    async def close(self) -> None:
        """Nothing to release."""

    def _purge(self) -> None:
        now_ms = self._clock.wall_ms()
        if now_ms - self._purged_ms < 60_000:
            return
        self._purged_ms = now_ms
        for place in [p for p, (_, expires_ms) in self._values.items() if 0 < expires_ms <= now_ms]:
            del self._values[place]


class MemoryDocumentStore:
    """A dict by (hub, channel)."""

    def __init__(self) -> None:
        self._snapshots: dict[tuple[str, str], Snapshot] = {}

    async def load(self, hub: str, channel: str) -> Snapshot | None:
        return self._snapshots.get((hub, channel))

    async def save(self, hub: str, channel: str, snapshot: Snapshot) -> None:
        check_text(hub=hub, channel=channel)
        self._snapshots[hub, channel] = snapshot

    async def delete(self, hub: str, channel: str) -> bool:
        return self._snapshots.pop((hub, channel), None) is not None


def open_memory(clock: Clock) -> Storage:
    """All four ports in memory; gone with the process."""
    counters = StorageCounters()
    journal = MemoryJournal(clock, counters)
    return Storage(
        journal=journal,
        settings=MemorySettingsStore(),
        kv=MemoryKeyValueStore(clock),
        documents=MemoryDocumentStore(),
        counters=counters,
        url="",
        close=journal.close,
    )
