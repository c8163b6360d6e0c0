"""The node's journal."""

from collections.abc import Awaitable, Callable

from arauto.admin.operations.changes import Changes
from arauto.admin.records import JournalExported
from arauto.errors import ArautoError, Code

__all__ = ["Exporting", "JournalVerbs"]

#: Says how to have rows exported; None = this node does not.
Exporting = Callable[[], Callable[[], Awaitable[int]] | None]


class JournalVerbs:
    """What an administrator can have done to the journal."""

    def __init__(self, changes: Changes, exporting: Exporting) -> None:
        self._changes = changes
        self._exporting = exporting

    async def export(self, *, by: str) -> JournalExported:
        """Seal all rows that are durable now into segments, and wait for it.

        Raises:
            ArautoError: FEATURE_OFF, STORAGE_FAILED, STORAGE_UNAVAILABLE.
        """
        with self._changes.recorded("", "journal.export", "", by=by):
            export = self._exporting()
            if export is None:
                raise ArautoError(
                    Code.FEATURE_OFF,
                    "this node exports no segments (journal.export.enabled, storage.kind)",
                )
            return JournalExported(sealed_seq=await export())
