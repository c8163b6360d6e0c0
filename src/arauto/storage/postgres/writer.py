"""The task that writes, and its group commit.

If the connection breaks while a commit is under way, its outcome is unknown. Neither acknowledging nor
writing again would be right, so the batch stays in doubt until the server can be asked: this partition has
one writer, so its last seq and its count of writes tell exactly whether the commit happened.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from arauto.errors import Code, StorageError
from arauto.storage.base import WriteLimits
from arauto.storage.checks import problems_of
from arauto.storage.postgres.errors import UNSTORABLE, is_conflict, is_lost, translate
from arauto.storage.postgres.link import Link
from arauto.storage.sql.group import Batch, Outcome, Procedure
from arauto.storage.sql.rows import COLUMNS, rows_of

__all__ = ["PostgresWriter"]

_PATIENCE_S = 5.0  # how long writes wait for a server that is away before they fail
_RETRIES_MAX = 10
_TIMEOUT_S = 30.0
_COUNT_WRITE = "UPDATE journal_partition SET writes = writes + 1 WHERE node = $1"


class _Commit(NamedTuple):
    """What the partition will look like, and what to answer, if the commit under way succeeds."""

    seq: int
    writes: int
    outcome: Outcome


class PostgresWriter:
    """Takes batches in order and commits them one after the other."""

    def __init__(
        self, link: Link, node: int, position: tuple[int, int], limits: WriteLimits
    ) -> None:
        self._link = link
        self._node = node
        self._seq, self._writes = position
        self._batch_max = limits.commit_entries_max
        self._inbox: deque[Batch] = deque()
        self._wake = asyncio.Event()
        self._doubt: _Commit | None = None
        self._reopened = 0
        self._ending = False
        self._complete: Callable[[Batch, Outcome], None]
        self._hold_off: Callable[[StorageError | None], None]
        self._task: asyncio.Task[None] | None = None

    def sink(self, batch: Batch) -> None:
        self._inbox.append(batch)
        self._wake.set()

    def start(
        self,
        complete: Callable[[Batch, Outcome], None],
        hold_off: Callable[[StorageError | None], None],
    ) -> None:
        """Report outcomes to `complete`; `hold_off` is told when new writes are of no use, and why."""
        self._complete = complete
        self._hold_off = hold_off
        self._task = asyncio.create_task(self._run(), name="arauto-postgres-writer")

    async def stop(self, grace_s: float) -> None:
        """Commit what is queued; give up on it, with an error, once the grace is used up."""
        self._ending = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=grace_s)
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._link.close()

    async def _run(self) -> None:
        while True:
            if not self._inbox:
                if self._ending:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._gather(self._batch_max)
            try:
                outcome = await self._commit(batch)
            except asyncio.CancelledError:
                batch.absorb(self._gather(None))
                message = "the storage was closed before the outcome was known"
                self._complete(
                    batch, Outcome(error=StorageError(Code.STORAGE_UNAVAILABLE, message))
                )
                raise
            if outcome.error is not None and outcome.error.code is Code.STORAGE_UNAVAILABLE:
                # The server is away: what waits behind this batch has no better chance.
                batch.absorb(self._gather(None))
            self._complete(batch, outcome)

    def _gather(self, at_most: int | None) -> Batch:
        batch = Batch()
        while self._inbox and (at_most is None or len(batch) < at_most):
            batch.absorb(self._inbox.popleft())
        return batch

    async def _commit(self, batch: Batch) -> Outcome:
        """Write a batch in one transaction. What went wrong is in the outcome; only cancelling raises."""
        bad: dict[int, StorageError] = {}
        retries = 0
        while True:
            try:
                if not self._link.is_open():
                    await self._reopen(_PATIENCE_S)
                return await self._transact(batch, bad)
            except Exception as exc:
                error = exc
            if is_lost(error) and self._link.connection is not None:
                self._link.drop()
                if self._doubt is not None:
                    outcome = await self._resolve()
                    if outcome is not None:
                        return outcome
            self._doubt = None
            await self._rollback()
            # Nothing was written. A new connection, or the absence of the other party, may help.
            if retries < _RETRIES_MAX and (is_lost(error) or is_conflict(error)):
                retries += 1
                continue
            if isinstance(error, UNSTORABLE) and not bad:
                bad = problems_of(batch.entries)
                if bad:
                    continue
            return Outcome(error=translate(error))

    async def _transact(self, batch: Batch, bad: dict[int, StorageError]) -> Outcome:
        connection = self._link.connection
        entries = (
            [e for at, e in enumerate(batch.entries) if at not in bad] if bad else batch.entries
        )
        rows = rows_of(self._node, self._seq + 1, entries)
        has_ops = any(op.procedure for op in batch.ops)
        outcome = Outcome(entry_errors=bad, results=[None] * len(batch.ops))
        outcome.last_seq = self._seq + len(rows)
        commit = _Commit(outcome.last_seq, self._writes + has_ops, outcome)
        if has_ops:
            await connection.execute("BEGIN", timeout=_TIMEOUT_S)
        if rows:
            # Without ops the COPY is a transaction by itself, and this is where doubt begins.
            self._doubt = None if has_ops else commit
            await connection.copy_records_to_table(
                "journal", records=rows, columns=COLUMNS, timeout=_TIMEOUT_S
            )
        if has_ops:
            # Every node takes its row locks in the order of the places, so that none waits in a circle.
            for at in sorted(range(len(batch.ops)), key=lambda at: batch.ops[at].place):
                outcome.results[at] = await _perform(connection, batch.ops[at].procedure)
            await connection.execute(_COUNT_WRITE, self._node, timeout=_TIMEOUT_S)
            self._doubt = commit
            await connection.execute("COMMIT", timeout=_TIMEOUT_S)
        return self._done(commit)

    def _done(self, commit: _Commit) -> Outcome:
        self._doubt = None
        self._seq, self._writes = commit.seq, commit.writes
        commit.outcome.reopened, self._reopened = self._reopened, 0
        return commit.outcome

    async def _resolve(self) -> Outcome | None:
        """Ask the server what became of the commit in doubt; None if it never happened."""
        commit = self._doubt
        assert commit is not None
        while True:
            try:
                await self._reopen(_PATIENCE_S)
                break
            except StorageError as exc:
                self._refuse_waiting(exc)
        self._hold_off(None)
        return self._done(commit) if (self._seq, self._writes) == commit[:2] else None

    def _refuse_waiting(self, error: StorageError) -> None:
        """Only the commit in doubt has to wait for the server; what is behind it was never sent."""
        self._hold_off(error)
        waiting = self._gather(None)
        turns = Batch()
        # Whoever only waits for a turn goes on waiting: those before it are not through.
        turns.ops = [op for op in waiting.ops if op.procedure is None]
        waiting.ops = [op for op in waiting.ops if op.procedure is not None]
        if len(waiting):
            self._complete(waiting, Outcome(error=error))
        if len(turns):
            self._inbox.append(turns)

    async def _reopen(self, patience_s: float) -> None:
        self._seq, self._writes = await self._link.reopen(patience_s)
        self._reopened += 1

    async def _rollback(self) -> None:
        connection = self._link.connection
        if connection is None:
            return
        try:
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK", timeout=_TIMEOUT_S)
        except Exception:
            self._link.drop()  # the server undoes what was open when the connection ends


async def _perform(connection: Any, procedure: Procedure[Any] | None) -> Any:
    if procedure is None:
        return None
    steps = procedure()
    try:
        query = next(steps)
        while True:
            rows = await connection.fetch(query.sql, *query.params, timeout=_TIMEOUT_S)
            query = steps.send(rows)
    except StopIteration as end:
        return end.value
