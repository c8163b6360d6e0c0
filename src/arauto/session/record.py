"""What a session puts on record: its beginning and its end, as rows of the journal."""

from typing import TYPE_CHECKING

import msgspec

from arauto.model import JSON
from arauto.storage.base import JournalEntry, Kind

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["journal"]


def journal(session: "Session", kind: Kind, details: dict[str, object]) -> None:
    """Append a row, with what carries the session among its details."""
    connection, env = session.connection, session.env.hub
    details |= {"transport": connection.transport, "address": connection.address}
    entry = JournalEntry(
        kind=kind,
        ts_ms=env.clock.wall_ms(),
        hub=session.hub.name,
        session=session.id,
        user=session.user,
        content_type=JSON,
        payload=msgspec.json.encode(details),
    )
    env.storage.journal.append(entry, _ignore)


def _ignore(error: object) -> None:
    """Session records are best effort: the store counts and reports its own failures."""
