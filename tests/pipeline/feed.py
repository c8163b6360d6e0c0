"""Journals for tests: rows written by the real store, exported and trimmed as a node does it."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from arauto.storage.base import JournalEntry, Kind, Storage
from arauto.storage.export import export
from tests.contract.storage.backends import Backend

__all__ = ["T0", "Feed", "beat", "counters", "ended", "message", "refusal", "started"]

#: 2026-11-02, a Monday, at noon.
T0 = 1_793_620_800_000


class Feed:
    """One database with the partitions of some nodes, and their segments."""

    def __init__(self, backend: Backend, directory: Path) -> None:
        self._backend = backend
        self.segments = directory / "segments"
        self.segments.mkdir(parents=True, exist_ok=True)
        self.url = ""

    def write(self, *entries: JournalEntry, node: str = "n1") -> None:
        """Append rows, durably."""

        async def work(storage: Storage) -> None:
            outcomes: list[Any] = []
            for entry in entries:
                storage.journal.append(entry, outcomes.append)
            await storage.journal.flush()
            assert outcomes == [None] * len(entries)

        self._with(node, work)

    def export(self, node: str = "n1", *, rows_max: int = 10**9) -> int:
        """Seal what is there; the last sealed seq."""
        return export(self.url, node, self.segments, rows_max, 10**9).sealed_seq

    def trim(self, upto: int, node: str = "n1") -> None:
        """Remove exported rows from the database."""

        async def work(storage: Storage) -> None:
            await storage.journal.trim(upto, T0)

        self._with(node, work)

    def back_up(self) -> None:
        asyncio.run(self._backend.back_up())

    def restore(self) -> None:
        """Go back to the backup; segments stay, as in a directory of their own."""
        asyncio.run(self._backend.restore())

    def _with(self, node: str, work: Callable[[Storage], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            storage = await self._backend.open(node)
            self.url = storage.url
            try:
                await work(storage)
            finally:
                await storage.close()

        asyncio.run(run())


def message(at_s: float, text: str | bytes = "{}", **fields: Any) -> JournalEntry:
    """A stored message some seconds after T0."""
    payload = text.encode() if isinstance(text, str) else text
    defaults: dict[str, Any] = {
        "hub": "shop",
        "channel": "stock:1",
        "epoch": 7,
        "session": "s1",
        "user": "ana",
        "content_type": "application/json",
    }
    return JournalEntry(kind=Kind.MESSAGE, ts_ms=_at(at_s), payload=payload, **defaults | fields)


def beat(at_s: float) -> JournalEntry:
    return JournalEntry(kind=Kind.HEARTBEAT, ts_ms=_at(at_s), payload=b"{}")


def started(at_s: float, session: str = "s1", **fields: Any) -> JournalEntry:
    details = {"transport": "websocket", "address": "10.0.0.7"}
    return _json(Kind.SESSION_START, at_s, details, session=session, **fields)


def ended(at_s: float, duration_ms: int, session: str = "s1", **fields: Any) -> JournalEntry:
    details = {
        "durationMs": duration_ms,
        "code": 5000,
        "transport": "websocket",
        "address": "10.0.0.7",
    }
    return _json(Kind.SESSION_END, at_s, details, session=session, **fields)


def refusal(at_s: float, code: int = 2006, **fields: Any) -> JournalEntry:
    details = {
        "code": code,
        "name": "PUBLISH_DENIED",
        "message": "no",
        "field": "",
        "request": "publish",
    }
    return _json(Kind.ERROR, at_s, details, channel="stock:1", session="s1", **fields)


def counters(at_s: float, span_s: float, hub: str = "shop", **details: Any) -> JournalEntry:
    """Counters of an interval that ended then; `total` and `gauges` as the node writes them."""
    whole = {"startMs": _at(at_s - span_s), "endMs": _at(at_s), **details}
    return _json(Kind.COUNTERS, at_s, whole, hub=hub)


def _json(kind: Kind, at_s: float, details: dict[str, Any], **fields: Any) -> JournalEntry:
    defaults: dict[str, Any] = {"hub": "shop", "content_type": "application/json"}
    return JournalEntry(
        kind=kind, ts_ms=_at(at_s), payload=msgspec.json.encode(details), **defaults | fields
    )


def _at(at_s: float) -> int:
    return T0 + int(at_s * 1000)
