"""The storage ports. Everything above this layer imports only this file.

What every adapter promises, unless a method says otherwise:

- Ordering: calls take effect in the order they were made on one adapter.
- Durability: when a write's coroutine returns, or its callback is called with None, the write survives
  `kill -9` and power loss (as far as the disk and, for servers, their configuration keep their word).
- Blocking: nothing blocks the event loop; slow work happens in a thread or in the server.
- Errors: only `StorageError` (6xxx) leaves an adapter.
- Tenancy: the hub is always a separate argument and part of every key.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from arauto.errors import StorageError
from arauto.model import Direction, Message, Serial

__all__ = [
    "KEYS_KEPT_MS",
    "DocumentStore",
    "Done",
    "ExporterCounters",
    "HistoryQuery",
    "Journal",
    "JournalEntry",
    "KeyValueStore",
    "Kind",
    "LastPlace",
    "Pairs",
    "SettingsStore",
    "Snapshot",
    "Storage",
    "StorageCounters",
    "WriteLimits",
]

Done = Callable[[StorageError | None], None]

Pairs = Sequence[tuple[str, bytes | None]]
"""A page of keys and their values."""

#: How long the journal keeps the idempotency keys of messages that expire before.
KEYS_KEPT_MS = 86_400_000


class Kind(IntEnum):
    """What a journal row records."""

    MESSAGE = 1
    SESSION_START = 2
    SESSION_END = 3
    ERROR = 4
    COUNTERS = 5
    DOCUMENT = 6
    AUDIT = 7
    HEARTBEAT = 8
    STREAM = 9
    SUBSCRIBE = 10
    UNSUBSCRIBE = 11


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row before it has a seq. Columns that do not apply stay empty.

    MESSAGE rows are the store of messages: `payload` is the message's, `epoch`/`offset` its serial.
    Other kinds keep their details as JSON in `payload` with content_type application/json.
    """

    kind: Kind
    ts_ms: int
    hub: str = ""
    channel: str = ""
    epoch: int = 0
    offset: int = 0
    session: str = ""
    user: str = ""
    content_type: str = ""
    id: str = ""
    key: str = ""
    exclude: str = ""
    headers: dict[str, str] | None = None
    expires_ms: int = 0
    payload: bytes = b""
    origin: str = ""
    """Where a message without a session came from, as "http 10.0.0.7"; else ""."""

    @classmethod
    def of_message(cls, message: Message) -> "JournalEntry":
        return cls(
            kind=Kind.MESSAGE,
            ts_ms=message.ts_ms,
            hub=message.hub,
            channel=message.channel,
            epoch=message.epoch,
            offset=message.offset,
            session=message.session,
            user=message.user,
            content_type=message.content_type,
            id=message.id,
            key=message.key,
            exclude=message.exclude,
            headers=message.headers,
            expires_ms=message.expires_ms,
            payload=message.payload,
            origin=message.origin,
        )

    def to_message(self) -> Message:
        """The message a MESSAGE row stores. What only mattered on the way in (`retain`, `store`) is gone."""
        return Message(
            self.hub,
            self.channel,
            self.payload,
            self.epoch,
            self.offset,
            self.ts_ms,
            content_type=self.content_type,
            id=self.id,
            session=self.session,
            user=self.user,
            exclude=self.exclude,
            key=self.key,
            headers=self.headers,
            expires_ms=self.expires_ms,
            origin=self.origin,
        )


class LastPlace(msgspec.Struct, frozen=True, gc=False):
    """Where a channel's stored messages end."""

    serial: Serial
    ts_ms: int


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A page of stored messages of one channel, in serial order (or its reverse).

    `since` and `until` are exclusive (all epochs; serials order by epoch, then offset); `from_ms` and
    `to_ms` inclusive, 0 = open; they rely on `Message.ts_ms` never going back within a channel.
    Messages whose `expires_ms` is not 0 and ≤ `now_ms` are left out.
    """

    hub: str
    channel: str
    now_ms: int
    since: Serial | None = None
    until: Serial | None = None
    from_ms: int = 0
    to_ms: int = 0
    limit: int = 100
    direction: Direction = Direction.FORWARD


class Journal(Protocol):
    """This node's partition of the journal, which is also the store of messages.

    One writer per node: seq order is commit order, without holes after a crash. Appends made while a
    commit runs share the next one (group commit).
    """

    @property
    def last_seq(self) -> int:
        """The seq of this partition's newest durable row; 0 before the first."""

    def append(self, entry: JournalEntry, done: Done) -> None:
        """Queue an entry. `done` is called once, on the event loop, after the entry is durable (None; in
        append order) or has failed (the error; then it was not and never will be written). A failure may
        come before the outcome of earlier entries, while nobody can know that.

        Bounded: with too much waiting already the entry is refused, with STORAGE_SHARE_FULL if it is too much
        of its hub, which may have waiting what it leaves to others, else with STORAGE_UNAVAILABLE. A refusal
        does not wait its turn behind the entries that fill the queue; it comes in the next loop turn.
        An entry that can never be stored (text that is not UTF-8, numbers beyond 63 bits) fails alone.
        """

    async def flush(self) -> None:
        """Wait until everything appended so far is durable or has failed, and its `done` was called."""

    async def history(self, query: HistoryQuery) -> list[Message]:
        """Durable messages only."""

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        """The highest serial ever stored for the channel, also if that message has expired since."""

    async def places(
        self, hub: str, names: tuple[str, str], after_ms: int, *, scan_len: int
    ) -> dict[str, LastPlace] | None:
        """Where the stored messages of each channel end that has any later than `after_ms`, of the channels
        whose names lie between two, both inclusive, by code point. None if there are more than `scan_len`
        channels between them: then too much would have to be looked at.
        """

    async def read(self, after_seq: int, limit: int) -> list[tuple[int, JournalEntry]]:
        """This partition's rows with seq > `after_seq`, ascending. For the exporter and for tests."""

    async def trim(self, exported_seq: int, now_ms: int) -> int:
        """Delete rows up to `exported_seq` that nothing needs any more: all but MESSAGE, and expired
        MESSAGE rows. Each channel's last MESSAGE row stays, so `last` stays right; one with an idempotency
        key stays for `KEYS_KEPT_MS` after it was published, however early it expired. Returns the count.
        """

    async def close(self) -> None:
        """Flush, then release everything. Appending afterwards fails through `done`."""


class SettingsStore(Protocol):
    """Settings as JSON bytes by (kind, hub, id). `kind` is "hub", "rules", "namespace", "channel" or
    "correlation"; for kind "hub" the id is "".
    """

    async def get(self, kind: str, hub: str, id: str) -> bytes | None: ...

    async def put(self, kind: str, hub: str, id: str, value: bytes) -> None: ...

    async def delete(self, kind: str, hub: str, id: str) -> bool:
        """Whether it was there."""

    async def list(
        self, kind: str, hub: str | None, *, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> Sequence[tuple[str, str, bytes]]:
        """(hub, id, value) in order of (hub, id), of one hub or (None) of all; `after` is exclusive."""

    async def load(self, hub: str) -> Sequence[tuple[str, str, bytes]]:
        """Everything of one hub, as (kind, id, value), read in one go."""


class KeyValueStore(Protocol):
    """Small values and lists by (hub, key), with expiry. Restore states, retained messages, document
    operations. Durable, as all writes here.

    A value and a list under the same key do not see each other; `delete` removes both.
    """

    async def get(self, hub: str, key: str) -> bytes | None: ...

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        """Set the value and its expiry anew. `ttl_s` 0 = for ever."""

    async def take(self, hub: str, key: str) -> bytes | None:
        """Get and delete in one atomic step: of two concurrent callers only one receives the value."""

    async def delete(self, hub: str, key: str) -> bool: ...

    def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        """Up to `limit` unexpired (key, value) pairs whose key starts with `prefix`, in key order; None for
        a value that is damaged, so that one does not take the others with it. Lists are not included.

        They come in pages, with a pause between them, so that very many stall nobody and need not all be
        in memory at once; what changes meanwhile is told as it was or as it is. For start-up and
        inspection, not for hot paths.
        """

    async def push(self, hub: str, key: str, value: bytes) -> int:
        """Append to the list at key (created on use); return its new length."""

    async def items(self, hub: str, key: str) -> Sequence[bytes]:
        """The whole list, oldest first; empty if there is none."""

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        """Remove the oldest `count` items."""

    async def close(self) -> None: ...


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A document's state at a version, as the document channel serialised it."""

    version: int
    data: bytes


class DocumentStore(Protocol):
    """The latest snapshot of each document."""

    async def load(self, hub: str, channel: str) -> Snapshot | None: ...

    async def save(self, hub: str, channel: str, snapshot: Snapshot) -> None: ...

    async def delete(self, hub: str, channel: str) -> bool: ...


class WriteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may wait for the disk or the server before new writes are refused. A hub may have as much
    waiting as it leaves to all others."""

    pending_entries_max: int = 200_000
    """Writes queued or being committed."""
    pending_bytes_max: int = 64 * 1024 * 1024
    """Bytes of those, as far as they are counted: payloads, values and a fixed share per write."""
    commit_entries_max: int = 4_096
    """Writes in one commit: more is faster, fewer lets the first of them be acknowledged sooner."""


@dataclass(slots=True)
class StorageCounters:
    """What an adapter did since it was opened. Only ever grows; written on the event loop."""

    committed: int = 0
    """Journal entries acknowledged."""
    failed: int = 0
    """Journal entries and other writes answered with an error after they had been queued."""
    refused: int = 0
    """Journal entries and other writes refused because too much was waiting."""
    refused_shares: int = 0
    """Those of them for which there was room, but not in their hub's share."""
    commits: int = 0
    commit_failures: int = 0
    reopened: int = 0
    """How often the file or the connection had to be opened again after trouble."""


@dataclass(slots=True)
class ExporterCounters:
    """What the exporter did since it was made."""

    runs: int = 0
    failures: int = 0
    segments: int = 0
    rows: int = 0
    trimmed: int = 0


@dataclass(frozen=True, slots=True)
class Storage:
    """The four ports of one node, and how to let go of them together."""

    journal: Journal
    settings: SettingsStore
    kv: KeyValueStore
    documents: DocumentStore
    counters: StorageCounters
    url: str
    """Where another process reads the same journal ("" if none can), for the exporter. May hold a secret."""
    close: Callable[[], Coroutine[Any, Any, None]]
    """Flush, then release everything. Calling it again does nothing."""
