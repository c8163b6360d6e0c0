"""The storage ports. Everything above this layer imports only this file.

What every adapter promises, unless a method says otherwise:

- Ordering: calls take effect in the order they were made on one adapter.
- Durability: when a write's coroutine returns, or its callback is called with None, the write survives
  `kill -9` and power loss (as far as the disk and, for servers, their configuration keep their word).
- Blocking: nothing blocks the event loop; slow work happens in a thread or in the server.
- Errors: only `StorageError` (6xxx) leaves an adapter.
- Tenancy: the hub is always a separate argument and part of every key.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from arauto.errors import StorageError
from arauto.model import Direction, Message, Serial

__all__ = [
    "DocumentStore",
    "Done",
    "HistoryQuery",
    "Journal",
    "JournalEntry",
    "KeyValueStore",
    "Kind",
    "LastPlace",
    "SettingsStore",
    "Snapshot",
]

Done = Callable[[StorageError | None], None]


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
        )


class LastPlace(msgspec.Struct, frozen=True, gc=False):
    """Where a channel's stored messages end."""

    serial: Serial
    ts_ms: int


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A page of stored messages of one channel, in serial order (or its reverse).

    `since` and `until` are exclusive (all epochs; serials order by epoch, then offset); `from_ms` and
    `to_ms` inclusive, 0 = open. Messages whose `expires_ms` is not 0 and ≤ `now_ms` are left out.
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

    def append(self, entry: JournalEntry, done: Done) -> None:
        """Queue an entry. `done` is called once, on the event loop, in append order, after the entry is
        durable (None) or has failed (the error; then it was not and never will be written).
        """

    async def flush(self) -> None:
        """Wait until everything appended so far is durable or has failed."""

    async def history(self, query: HistoryQuery) -> list[Message]:
        """Durable messages only."""

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        """The highest serial ever stored for the channel, also if that message has expired since."""

    async def read(self, after_seq: int, limit: int) -> list[tuple[int, JournalEntry]]:
        """This partition's rows with seq > `after_seq`, ascending. For the exporter and for tests."""

    async def trim(self, exported_seq: int, now_ms: int) -> int:
        """Delete rows up to `exported_seq` that nothing needs any more: all but MESSAGE, and expired
        MESSAGE rows. Each channel's last MESSAGE row stays, so `last` stays right. Returns the count.
        """

    async def close(self) -> None:
        """Flush, then release everything. Appending afterwards fails through `done`."""


class SettingsStore(Protocol):
    """Settings as JSON bytes by (kind, hub, id). `kind` is "hub", "rules", "namespace" or "channel";
    for kind "hub" the id is "".
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
    """

    async def get(self, hub: str, key: str) -> bytes | None: ...

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        """`ttl_s` 0 = for ever."""

    async def take(self, hub: str, key: str) -> bytes | None:
        """Get and delete in one atomic step: of two concurrent callers only one receives the value."""

    async def delete(self, hub: str, key: str) -> bool: ...

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
