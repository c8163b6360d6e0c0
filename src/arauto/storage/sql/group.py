"""The event loop's side of a group commit: what waits, how much may wait, and who is told.

Writes made in one turn of the loop are handed over together at its end. The engine joins everything
handed over while its last commit ran into the next transaction, and reports back through `complete`. All
state here belongs to the loop's thread; engines with a thread of their own only pass `Batch` objects.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from arauto.errors import Code, StorageError
from arauto.storage.base import Done, JournalEntry, Kind, StorageCounters, WriteLimits
from arauto.storage.sql.rows import Row, size_of
from arauto.storage.waiting import Tally, Waiting

__all__ = ["Batch", "GroupQueue", "Op", "Outcome", "Procedure", "Query"]

T = TypeVar("T")

# Looked up once: an enum's members are slow to reach, and this is on the way of every message.
_AUDIT, _COUNTERS = Kind.AUDIT, Kind.COUNTERS

_log = logging.getLogger(__name__)


class Query(NamedTuple):
    """One statement with `$1`-style parameters, and their values."""

    sql: str
    params: tuple[Any, ...]


#: Starts a write that is more than an entry: a generator that yields statements, gets their rows and
#: returns the result. It touches nothing else, so it can run again after a transaction that was undone.
Procedure = Callable[[], Generator[Query, list[Row], T]]


class Op:
    """A write other than a journal entry, and who waits for it. Without a procedure: just a turn in line.

    `place` names what it writes to. Ops on different places may change their order within a commit.
    """

    __slots__ = ("future", "place", "procedure")

    def __init__(
        self,
        procedure: Procedure[Any] | None,
        future: asyncio.Future[Any],
        place: tuple[str, ...] = (),
    ) -> None:
        self.procedure = procedure
        self.future = future
        self.place = place


class Batch:
    """Writes that are committed together. Entries and ops keep their own order among themselves."""

    __slots__ = ("dones", "entries", "ops", "size_bytes", "tallies")

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.dones: list[Done] = []
        self.ops: list[Op] = []
        self.size_bytes = 0
        self.tallies: dict[str, Tally] = {}
        """What of it belongs to which hub; "" is the node. Ops without a procedure are nobody's."""

    def __len__(self) -> int:
        return len(self.entries) + len(self.ops)

    def count_in(self, hub: str, size_bytes: int) -> None:
        """One more write of a hub is in it."""
        tally = self.tallies.get(hub)
        if tally is None:
            tally = self.tallies[hub] = Tally()
        tally.count += 1
        tally.size_bytes += size_bytes
        self.size_bytes += size_bytes

    def absorb(self, later: "Batch") -> None:
        """Take over what a later batch holds."""
        self.entries += later.entries
        self.dones += later.dones
        self.ops += later.ops
        self.size_bytes += later.size_bytes
        for hub, more in later.tallies.items():
            tally = self.tallies.setdefault(hub, more)
            if tally is not more:
                tally.count += more.count
                tally.size_bytes += more.size_bytes


@dataclass(slots=True)
class Outcome:
    """What became of a batch."""

    error: StorageError | None = None
    """Nothing of the batch was written."""
    entry_errors: dict[int, StorageError] = field(default_factory=dict)
    """Entries (by position) that could not be stored, in a batch that otherwise was."""
    results: list[Any] = field(default_factory=list)
    """What each op returned."""
    last_seq: int = 0
    reopened: int = 0


class GroupQueue:
    """Collects writes per loop turn and bounds what is under way.

    Args:
        sink: takes a batch over; must not block. Batches succeed in the order they were sunk; one that
            fails may overtake one whose outcome is not known yet.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: WriteLimits,
        counters: StorageCounters,
        sink: Callable[[Batch], None],
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._sink = sink
        self._batch: Batch | None = None
        self._waiting = Waiting(limits, counters)
        self._pending_turns = 0
        self._pending_ops = 0
        self._closed = False
        self._away: StorageError | None = None
        self._is_open = True
        """Neither closed nor away."""
        self._failing = False
        self.last_seq = 0

    @property
    def pending_bytes(self) -> int:
        return self._waiting.size_bytes

    def append(self, entry: JournalEntry, done: Done) -> None:
        """See `Journal.append`."""
        size_bytes = size_of(entry)
        kind = entry.kind
        # What administrators did and what was counted is on record however much the hub has waiting.
        hub = "" if kind is _AUDIT or kind is _COUNTERS else entry.hub
        refusal = self._waiting.enter(hub, size_bytes) if self._is_open else self._refusal()
        if refusal is not None:
            self._loop.call_soon(done, refusal)
            return
        batch = self._batch or self._new_batch()
        batch.entries.append(entry)
        batch.dones.append(done)
        batch.count_in(hub, size_bytes)
        if len(batch.entries) >= self._limits.commit_entries_max:
            self._hand_over()

    async def run(
        self, procedure: Procedure[T], place: tuple[str, ...], size_bytes: int = 0, *, hub: str = ""
    ) -> T:
        """Run a procedure in the next commit and return its result once that is durable.

        Args:
            place: what the procedure writes to, and nothing else.
            hub: in whose share it waits; "" is the node's own.
        """
        refusal = self._waiting.enter(hub, size_bytes) if self._is_open else self._refusal()
        if refusal is not None:
            raise refusal
        self._pending_ops += 1
        batch = self._batch or self._new_batch()
        batch.count_in(hub, size_bytes)
        future: asyncio.Future[T] = self._loop.create_future()
        batch.ops.append(Op(procedure, future, place))
        return await future

    async def flush(self) -> None:
        """Wait until everything queued so far is through."""
        if self._waiting.count == 0 and self._pending_turns == 0:
            return
        batch = self._batch or self._new_batch()
        future: asyncio.Future[None] = self._loop.create_future()
        batch.ops.append(Op(None, future))
        self._pending_turns += 1
        await future

    async def settle(self) -> None:
        """Wait for the ops under way, so that a read made after a write sees it, awaited or not."""
        if self._pending_ops:
            await self.flush()

    def hold_off(self, error: StorageError | None) -> None:
        """Refuse new writes with this error until told otherwise (None): the store is away."""
        self._away = error
        self._is_open = error is None and not self._closed

    def close(self) -> None:
        """Refuse everything from now on; what is queued still goes through."""
        self._hand_over()
        self._closed = True
        self._is_open = False

    def complete(self, batch: Batch, outcome: Outcome) -> None:
        """Tell everyone who waits for the batch. Called by the engine, on the loop."""
        ops = batch.ops
        for hub, tally in batch.tallies.items():
            self._waiting.leave(hub, tally.count, tally.size_bytes)
        procedures_len = sum(op.procedure is not None for op in ops)
        self._pending_ops -= procedures_len
        self._pending_turns -= len(ops) - procedures_len
        self._count(batch, outcome)
        if outcome.error is None:
            self.last_seq = outcome.last_seq
        if outcome.error is None and not outcome.entry_errors:
            for done in batch.dones:
                self._call(done, None)
        else:
            for at, done in enumerate(batch.dones):
                self._call(done, outcome.error or outcome.entry_errors.get(at))
        for at, op in enumerate(ops):
            if op.future.done():
                continue  # its caller was cancelled and waits no more
            if outcome.error is not None and op.procedure is not None:
                op.future.set_exception(StorageError(outcome.error.code, outcome.error.message))
            else:
                op.future.set_result(outcome.results[at] if outcome.results else None)

    def _count(self, batch: Batch, outcome: Outcome) -> None:
        counters = self._counters
        counters.reopened += outcome.reopened
        if outcome.error is not None:
            counters.commit_failures += 1
            counters.failed += len(batch)
            if not self._failing:  # once per outage, however many writes it costs
                self._failing = True
                _log.error("writes fail: %s", outcome.error)
            return
        if self._failing:
            self._failing = False
            _log.warning("writes succeed again")
        counters.commits += 1
        counters.failed += len(outcome.entry_errors)
        counters.committed += len(batch.entries) - len(outcome.entry_errors)

    @staticmethod
    def _call(done: Done, error: StorageError | None) -> None:
        try:
            done(error)
        except Exception:  # one caller's mistake must not cost the others their answer
            _log.exception("a journal callback raised")

    def _refusal(self) -> StorageError:
        if self._away is None or self._closed:
            return StorageError(Code.STORAGE_UNAVAILABLE, "the storage is closed")
        self._counters.refused += 1
        return StorageError(self._away.code, self._away.message)

    def _new_batch(self) -> Batch:
        self._batch = batch = Batch()
        self._loop.call_soon(self._hand_over)
        return batch

    def _hand_over(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._sink(batch)
