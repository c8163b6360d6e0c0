"""Small values and lists on a SQL engine.

A list is one row that says which numbers its items have, and one row per item; so pushing and knowing the
length cost the same however long it is.
"""

from collections.abc import AsyncIterator, Generator, Sequence
from itertools import takewhile

import structlog

from arauto.clock import Clock
from arauto.errors import StorageError
from arauto.storage.base import Pairs
from arauto.storage.checks import check_text
from arauto.storage.sql.engine import SqlEngine
from arauto.storage.sql.group import Query
from arauto.storage.sql.rows import Row, checksum
from arauto.storage.sql.values import checked

__all__ = ["SqlKeyValueStore"]

_GET = """
    SELECT value, crc FROM kv
    WHERE hub = $1 AND key = $2 AND (expires_ms = 0 OR expires_ms > $3)"""
_SCAN = """
    SELECT value, crc, key FROM kv
    WHERE hub = $1 AND key >= $2 AND (expires_ms = 0 OR expires_ms > $3)
    ORDER BY key LIMIT $4"""
_SCAN_ON = _SCAN.replace("key >= $2", "key > $2")
_PUT = """
    INSERT INTO kv (hub, key, value, crc, expires_ms) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (hub, key) DO UPDATE
    SET value = excluded.value, crc = excluded.crc, expires_ms = excluded.expires_ms"""
_TAKE = "DELETE FROM kv WHERE hub = $1 AND key = $2 RETURNING value, crc, expires_ms"
_PURGE = "DELETE FROM kv WHERE expires_ms > 0 AND expires_ms <= $1"

_PUSH = """
    INSERT INTO kv_list (hub, key, first_n, next_n) VALUES ($1, $2, 0, 1)
    ON CONFLICT (hub, key) DO UPDATE SET next_n = kv_list.next_n + 1
    RETURNING first_n, next_n"""
_PUSH_ITEM = "INSERT INTO kv_item (hub, key, n, value, crc) VALUES ($1, $2, $3, $4, $5)"
_ITEMS = "SELECT value, crc, n FROM kv_item WHERE hub = $1 AND key = $2 ORDER BY n"
_DROP = """
    UPDATE kv_list SET first_n = CASE WHEN next_n - first_n < $3 THEN next_n ELSE first_n + $3 END
    WHERE hub = $1 AND key = $2 RETURNING first_n, next_n"""
_DROP_ITEMS = "DELETE FROM kv_item WHERE hub = $1 AND key = $2 AND n < $3"
_DROP_LIST = "DELETE FROM kv_list WHERE hub = $1 AND key = $2 RETURNING next_n"

_PURGE_EVERY_MS = 60_000
#: Pairs read at a time: checking them is the loop's work.
_PAGE_LEN = 250

_log = structlog.get_logger("arauto.storage")


class SqlKeyValueStore:
    """See `KeyValueStore`. Closing is the storage's affair: the engine is shared with the other stores."""

    def __init__(self, engine: SqlEngine, clock: Clock) -> None:
        self._engine = engine
        self._queue = engine.queue
        self._clock = clock
        self._purged_ms = 0

    async def get(self, hub: str, key: str) -> bytes | None:
        check_text(hub=hub, key=key)
        await self._queue.settle()
        rows = await self._engine.fetch(_GET, hub, key, self._clock.wall_ms())
        return checked(rows[0], "kv", hub, key) if rows else None

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        check_text(hub=hub, key=key)
        now_ms = self._clock.wall_ms()
        expires_ms = now_ms + int(ttl_s * 1000) if ttl_s else 0
        purge = now_ms - self._purged_ms >= _PURGE_EVERY_MS
        if purge:
            self._purged_ms = now_ms
        crc = checksum("kv", hub, key, value)

        def write() -> Generator[Query, list[Row], None]:
            if purge:
                yield Query(_PURGE, (now_ms,))
            yield Query(_PUT, (hub, key, value, crc, expires_ms))

        await self._queue.run(write, ("kv", hub, key), len(value), hub=hub)

    async def take(self, hub: str, key: str) -> bytes | None:
        check_text(hub=hub, key=key)
        now_ms = self._clock.wall_ms()

        def write() -> Generator[Query, list[Row], list[Row]]:
            return (yield Query(_TAKE, (hub, key)))

        rows = await self._queue.run(write, ("kv", hub, key), hub=hub)
        if not rows or 0 < rows[0][2] <= now_ms:
            return None
        return checked(rows[0], "kv", hub, key)

    async def delete(self, hub: str, key: str) -> bool:
        check_text(hub=hub, key=key)
        now_ms = self._clock.wall_ms()

        def write() -> Generator[Query, list[Row], bool]:
            values = yield Query(_TAKE, (hub, key))
            lists = yield Query(_DROP_LIST, (hub, key))
            if lists:
                yield Query(_DROP_ITEMS, (hub, key, lists[0][0]))
            return bool(lists) or (bool(values) and not 0 < values[0][2] <= now_ms)

        return await self._queue.run(write, ("kv", hub, key), hub=hub)

    async def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        check_text(hub=hub, prefix=prefix)
        await self._queue.settle()
        query, start = _SCAN, prefix
        while limit > 0:
            page_len = min(limit, _PAGE_LEN)
            rows = await self._engine.fetch(query, hub, start, self._clock.wall_ms(), page_len)
            # Keys with the prefix come first among those that are not below it.
            found = takewhile(lambda row: row[2].startswith(prefix), rows)
            page = [(row[2], _intact(row, hub)) for row in found]
            if page:
                yield page
            if len(page) < page_len:
                return
            limit -= page_len
            query, start = _SCAN_ON, page[-1][0]

    async def push(self, hub: str, key: str, value: bytes) -> int:
        check_text(hub=hub, key=key)

        def write() -> Generator[Query, list[Row], int]:
            ((first_n, next_n),) = yield Query(_PUSH, (hub, key))
            n = next_n - 1
            crc = checksum("kv_item", hub, key, n, value)
            yield Query(_PUSH_ITEM, (hub, key, n, value, crc))
            return int(next_n - first_n)

        return await self._queue.run(write, ("kv", hub, key), len(value), hub=hub)

    async def items(self, hub: str, key: str) -> Sequence[bytes]:
        check_text(hub=hub, key=key)
        await self._queue.settle()
        rows = await self._engine.fetch(_ITEMS, hub, key)
        return [checked(row, "kv_item", hub, key, row[2]) for row in rows]

    async def drop_first(self, hub: str, key: str, count: int) -> None:
        check_text(hub=hub, key=key)
        if count <= 0:
            return

        def write() -> Generator[Query, list[Row], None]:
            rows = yield Query(_DROP, (hub, key, count))
            if not rows:
                return
            first_n, next_n = rows[0]
            yield Query(_DROP_ITEMS, (hub, key, first_n))
            if first_n == next_n:
                yield Query(_DROP_LIST, (hub, key))

        await self._queue.run(write, ("kv", hub, key), hub=hub)

    async def close(self) -> None:
        await self._queue.flush()


def _intact(row: Row, hub: str) -> bytes | None:
    try:
        return checked(row, "kv", hub, row[2])
    except StorageError:
        _log.error("a stored value is damaged", hub=hub, key=row[2])
        return None
