"""Document snapshots on a SQL engine."""

from collections.abc import Generator

from arauto.storage.base import Snapshot
from arauto.storage.checks import check_text
from arauto.storage.sql.engine import SqlEngine
from arauto.storage.sql.group import Query
from arauto.storage.sql.rows import Row, checksum
from arauto.storage.sql.values import checked

__all__ = ["SqlDocumentStore"]

_LOAD = "SELECT data, crc, version FROM document WHERE hub = $1 AND channel = $2"
_SAVE = """
    INSERT INTO document (hub, channel, version, data, crc) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (hub, channel) DO UPDATE
    SET version = excluded.version, data = excluded.data, crc = excluded.crc"""
_DELETE = "DELETE FROM document WHERE hub = $1 AND channel = $2 RETURNING version"


class SqlDocumentStore:
    """See `DocumentStore`."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._queue = engine.queue

    async def load(self, hub: str, channel: str) -> Snapshot | None:
        check_text(hub=hub, channel=channel)
        await self._queue.settle()
        rows = await self._engine.fetch(_LOAD, hub, channel)
        if not rows:
            return None
        version = rows[0][2]
        return Snapshot(version, checked(rows[0], "document", hub, channel, version))

    async def save(self, hub: str, channel: str, snapshot: Snapshot) -> None:
        check_text(hub=hub, channel=channel)
        crc = checksum("document", hub, channel, snapshot.version, snapshot.data)

        def write() -> Generator[Query, list[Row], None]:
            yield Query(_SAVE, (hub, channel, snapshot.version, snapshot.data, crc))

        await self._queue.run(write, ("document", hub, channel), len(snapshot.data), hub=hub)

    async def delete(self, hub: str, channel: str) -> bool:
        check_text(hub=hub, channel=channel)

        def write() -> Generator[Query, list[Row], bool]:
            rows = yield Query(_DELETE, (hub, channel))
            return bool(rows)

        return await self._queue.run(write, ("document", hub, channel), hub=hub)
