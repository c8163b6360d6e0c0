"""Short ways to write and read journals in tests."""

from collections.abc import Iterable
from typing import Any

from arauto.errors import StorageError
from arauto.model import Direction, Serial
from arauto.storage.base import HistoryQuery, Journal, JournalEntry, Kind

__all__ = ["Outcomes", "append_all", "message", "offsets", "query"]

Outcomes = list[StorageError | None]


def message(offset: int, /, **fields: Any) -> JournalEntry:
    """A stored message; what a test does not name is ordinary."""
    defaults: dict[str, Any] = {
        "kind": Kind.MESSAGE,
        "ts_ms": 1_000 + offset,
        "hub": "shop",
        "channel": "stock:1",
        "epoch": 7,
        "offset": offset,
        "payload": b"%d" % offset,
    }
    return JournalEntry(**defaults | fields)


async def append_all(journal: Journal, entries: Iterable[JournalEntry]) -> Outcomes:
    """Append, wait, and return what each `done` was told, in the order they were called."""
    outcomes: Outcomes = []
    for entry in entries:
        journal.append(entry, outcomes.append)
    await journal.flush()
    return outcomes


def query(**fields: Any) -> HistoryQuery:
    defaults: dict[str, Any] = {"hub": "shop", "channel": "stock:1", "now_ms": 5_000}
    return HistoryQuery(**defaults | fields)


async def offsets(
    journal: Journal, *, back: bool = False, since: int = -1, until: int = -1, **fields: Any
) -> list[int]:
    """The offsets of a page of history, bounds given as offsets of epoch 7."""
    if since >= 0:
        fields["since"] = Serial(7, since)
    if until >= 0:
        fields["until"] = Serial(7, until)
    direction = Direction.BACKWARD if back else Direction.FORWARD
    return [m.offset for m in await journal.history(query(direction=direction, **fields))]
