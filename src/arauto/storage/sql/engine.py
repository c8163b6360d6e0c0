"""The small port between the SQL stores and the two databases they run on."""

from typing import Any, Protocol

from arauto.storage.sql.group import GroupQueue
from arauto.storage.sql.rows import Row

__all__ = ["SqlEngine"]


class SqlEngine(Protocol):
    """One database. Statements are written once, with `$1`-style parameters and standard SQL."""

    node: int
    """The number of this node's journal partition."""
    queue: GroupQueue
    """Where every write goes."""

    async def fetch(self, sql: str, *params: Any) -> list[Row]:
        """Run a query on committed data, beside the writer.

        Raises:
            StorageError: the database could not answer.
        """

    async def close(self) -> None:
        """Finish what is queued, then release everything. Calling it again does nothing."""
