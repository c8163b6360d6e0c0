"""Changes by administrators: one at a time per hub, applied at once, and on record.

A change of settings runs inside `Changes.to`. It waits for the other changes of the same hub, so that what
was checked is still true when it is written; afterwards the hub, if it is open here, takes its new settings.
A row in the journal says who did what to which thing and how it ended. Values never go there: they
may be secrets.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec
import structlog

from arauto.clock import Clock
from arauto.errors import ArautoError, StorageError
from arauto.hub.directory import Directory
from arauto.model import JSON
from arauto.storage.base import Journal, JournalEntry, Kind

__all__ = ["AuditRow", "Changes"]

_log = structlog.get_logger("arauto.admin")


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an audit row; the hub stands in the row itself."""

    operation: str
    """As `rules.set`."""
    target: str
    """The thing's id inside its hub; "" for the hub itself."""
    outcome: str
    """`ok`, the name of the error code that refused it, or `failed`."""
    by: str
    """Where the request came from, as `http 127.0.0.1`."""


class _HubLock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Changes:
    """Serialises and records changes. One per node."""

    def __init__(self, directory: Directory, journal: Journal, clock: Clock) -> None:
        self._directory = directory
        self._journal = journal
        self._clock = clock
        self._locks: dict[str, _HubLock] = {}

    @asynccontextmanager
    async def to(
        self, hub: str, operation: str, target: str = "", *, by: str
    ) -> AsyncIterator[None]:
        """Change a hub's settings inside this context. `hub` and `target` must be well-formed names."""
        with self.recorded(hub, operation, target, by=by):
            async with self._locked(hub):
                yield
                await self._directory.refresh(hub)

    @contextmanager
    def recorded(self, hub: str, operation: str, target: str, *, by: str) -> Iterator[None]:
        """Do something inside this context that is no change of settings, but goes on record too."""
        outcome = "failed"
        try:
            yield
            outcome = "ok"
        except ArautoError as error:
            outcome = error.code.name
            raise
        finally:
            self._record(hub, AuditRow(operation=operation, target=target, outcome=outcome, by=by))

    @asynccontextmanager
    async def _locked(self, hub: str) -> AsyncIterator[None]:
        held = self._locks.setdefault(hub, _HubLock())
        held.users += 1
        try:
            async with held.lock:
                yield
        finally:
            held.users -= 1
            if not held.users:
                del self._locks[hub]

    def _record(self, hub: str, row: AuditRow) -> None:
        _log.info(
            "changed by an administrator",
            hub=hub,
            operation=row.operation,
            target=row.target,
            outcome=row.outcome,
            by=row.by,
        )
        entry = JournalEntry(
            kind=Kind.AUDIT,
            ts_ms=self._clock.wall_ms(),
            hub=hub,
            content_type=JSON,
            payload=msgspec.json.encode(row),
        )
        self._journal.append(entry, _report)


def _report(error: StorageError | None) -> None:
    # The log line above holds the same; this says that the journal does not.
    if error is not None:
        _log.error("an audit row could not be written", code=int(error.code))
