"""Settings on a SQL engine."""

from collections.abc import Generator, Sequence

from arauto.storage.checks import check_text
from arauto.storage.sql.engine import SqlEngine
from arauto.storage.sql.group import Query
from arauto.storage.sql.rows import Row, checksum
from arauto.storage.sql.values import checked

__all__ = ["SqlSettingsStore"]

_GET = "SELECT value, crc FROM setting WHERE kind = $1 AND hub = $2 AND id = $3"
_PUT = """
    INSERT INTO setting (kind, hub, id, value, crc) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (kind, hub, id) DO UPDATE SET value = excluded.value, crc = excluded.crc"""
_DELETE = "DELETE FROM setting WHERE kind = $1 AND hub = $2 AND id = $3 RETURNING id"
_LIST_ALL = """
    SELECT value, crc, hub, id FROM setting WHERE kind = $1 AND (hub, id) > ($2, $3)
    ORDER BY hub, id LIMIT $4"""
_LIST_HUB = """
    SELECT value, crc, hub, id FROM setting WHERE kind = $1 AND hub = $5 AND (hub, id) > ($2, $3)
    ORDER BY hub, id LIMIT $4"""
_LOAD = "SELECT value, crc, kind, id FROM setting WHERE hub = $1 ORDER BY kind, id"


class SqlSettingsStore:
    """See `SettingsStore`."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._queue = engine.queue

    async def get(self, kind: str, hub: str, id: str) -> bytes | None:
        check_text(kind=kind, hub=hub, id=id)
        await self._queue.settle()
        rows = await self._engine.fetch(_GET, kind, hub, id)
        return checked(rows[0], "setting", kind, hub, id) if rows else None

    async def put(self, kind: str, hub: str, id: str, value: bytes) -> None:
        check_text(kind=kind, hub=hub, id=id)
        crc = checksum("setting", kind, hub, id, value)

        def write() -> Generator[Query, list[Row], None]:
            yield Query(_PUT, (kind, hub, id, value, crc))

        await self._queue.run(write, ("setting", kind, hub, id), len(value))

    async def delete(self, kind: str, hub: str, id: str) -> bool:
        check_text(kind=kind, hub=hub, id=id)

        def write() -> Generator[Query, list[Row], bool]:
            rows = yield Query(_DELETE, (kind, hub, id))
            return bool(rows)

        return await self._queue.run(write, ("setting", kind, hub, id))

    async def list(
        self, kind: str, hub: str | None, *, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> Sequence[tuple[str, str, bytes]]:
        check_text(kind=kind, hub=hub or "", after=after[0] + after[1])
        await self._queue.settle()
        if hub is None:
            rows = await self._engine.fetch(_LIST_ALL, kind, *after, limit)
        else:
            rows = await self._engine.fetch(_LIST_HUB, kind, *after, limit, hub)
        return [(h, i, checked((v, c), "setting", kind, h, i)) for v, c, h, i in rows]

    async def load(self, hub: str) -> Sequence[tuple[str, str, bytes]]:
        check_text(hub=hub)
        await self._queue.settle()
        rows = await self._engine.fetch(_LOAD, hub)
        return [(k, i, checked((v, c), "setting", k, hub, i)) for v, c, k, i in rows]
