"""The one thread that writes, and its group commit.

Why statements of many rows: Python's driver lets go of the interpreter lock around every step of a
statement and must win it back from the event loop. With a statement per row the two threads fight for the
lock thousands of times a second; with up to 512 rows per step they hardly meet.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from arauto.errors import StorageError
from arauto.storage.base import WriteLimits
from arauto.storage.checks import problems_of
from arauto.storage.sql.group import Batch, Outcome, Procedure
from arauto.storage.sql.rows import COLUMN_LIST, COLUMNS, Row, rows_of
from arauto.storage.sqlite.connection import connect_writer, parameters
from arauto.storage.sqlite.errors import translate
from arauto.storage.sqlite.files import Mark

__all__ = ["SqliteWriter"]

_log = logging.getLogger(__name__)

_ROWS_PER_STATEMENT = (512, 64, 8, 1)
_CHECKPOINT_BYTES = 16 * 1024 * 1024
_COMMIT_BYTES_MIN = 16 * 1024  # the pages that even the smallest commit writes to the log
_UNSTORABLE = (ValueError, OverflowError, TypeError, sqlite3.DataError)

_POSITION = """
    SELECT max(trimmed_seq, coalesce((SELECT max(seq) FROM journal WHERE node = $1), 0)), writes
    FROM journal_partition WHERE node = $1"""
_COUNT_WRITE = "UPDATE journal_partition SET writes = writes + 1 WHERE node = $1 RETURNING writes"


class SqliteWriter:
    """Owns the connection that writes. `commit` and what it calls run in the thread only.

    Args:
        node: the number of this node's partition.
        mark: told after each commit how far acknowledged writes go.
    """

    def __init__(self, path: Path, node: int, mark: Mark, limits: WriteLimits) -> None:
        self._path = path
        self._node = node
        self._mark = mark
        self._batch_max = limits.commit_entries_max
        self._inbox: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._inserts: tuple[tuple[int, str], ...] = ()
        self._seq = 0
        self._writes = 0
        self._reopened = 0
        self._log_bytes = 0

    # On the event loop's side.

    def sink(self, batch: Batch) -> None:
        self._inbox.put(batch)

    def start(
        self, loop: asyncio.AbstractEventLoop, complete: Callable[[Batch, Outcome], None]
    ) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(loop, complete), name="arauto-sqlite-writer", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Commit what is queued, then end the thread and close the file. Blocks."""
        self._inbox.put(None)
        if self._thread is not None:
            self._thread.join()
        self._drop_connection()

    def open(self) -> tuple[int, int]:
        """Open the file and return this partition's (last seq, writes).

        Raises:
            sqlite3.Error, StorageError: it could not be opened.
        """
        connection = connect_writer(self._path)
        self._connection = connection
        variables = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._inserts = tuple(
            (count, _insert_of(count))
            for count in _ROWS_PER_STATEMENT
            if count * len(COLUMNS) <= variables
        )
        self._seq, self._writes = connection.execute(
            _POSITION, parameters((self._node,))
        ).fetchone()
        return self._seq, self._writes

    # In the thread.

    def _run(
        self, loop: asyncio.AbstractEventLoop, complete: Callable[[Batch, Outcome], None]
    ) -> None:
        running = True
        while running:
            batch = self._inbox.get()
            if batch is None:
                return
            running = self._gather(batch)
            outcome = self.commit(batch)
            try:
                loop.call_soon_threadsafe(complete, batch, outcome)
            except RuntimeError:  # the loop is gone, and with it everyone who waited
                return
            self._checkpoint(batch)

    def _gather(self, batch: Batch) -> bool:
        """Join what else has been handed over; False once the end was asked for."""
        while len(batch) < self._batch_max:
            try:
                more = self._inbox.get_nowait()
            except Empty:
                return True
            if more is None:
                return False
            batch.absorb(more)
        return True

    def commit(self, batch: Batch) -> Outcome:
        """Write a batch in one transaction. Never raises: what went wrong is in the outcome."""
        try:
            return self._transact(batch, {})
        except Exception as exc:
            error: Exception = exc
        self._rollback()
        bad = problems_of(batch.entries) if isinstance(error, _UNSTORABLE) else {}
        if bad:
            try:
                return self._transact(batch, bad)
            except Exception as exc:
                error = exc
            self._rollback()
        # Open anew before the next attempt: after an I/O error nothing cached may be trusted.
        self._drop_connection()
        return Outcome(error=translate(error, self._path.parent))

    def _transact(self, batch: Batch, bad: dict[int, StorageError]) -> Outcome:
        connection = self._connection or self._reopen()
        entries = (
            [e for at, e in enumerate(batch.entries) if at not in bad] if bad else batch.entries
        )
        seq, writes = self._seq, self._writes
        results: list[Any] = []
        if len(batch):
            connection.execute("BEGIN IMMEDIATE")
            self._insert(connection, rows_of(self._node, seq + 1, entries))
            seq += len(entries)
            results = [_perform(connection, op.procedure) for op in batch.ops]
            if any(op.procedure for op in batch.ops):
                ((writes,),) = connection.execute(
                    _COUNT_WRITE, parameters((self._node,))
                ).fetchall()
            connection.execute("COMMIT")
            self._seq, self._writes = seq, writes
            self._mark.write(self._node, seq, writes)
        reopened, self._reopened = self._reopened, 0
        return Outcome(entry_errors=bad, results=results, last_seq=seq, reopened=reopened)

    def _insert(self, connection: sqlite3.Connection, rows: list[Row]) -> None:
        at = 0
        for count, sql in self._inserts:
            while len(rows) - at >= count:
                connection.execute(sql, list(chain.from_iterable(rows[at : at + count])))
                at += count

    def _checkpoint(self, batch: Batch) -> None:
        # After the acknowledgement, so that nobody waits for it; what queues up meanwhile shares a commit.
        self._log_bytes += max(_COMMIT_BYTES_MIN, 2 * batch.size_bytes)
        if self._log_bytes < _CHECKPOINT_BYTES or self._connection is None:
            return
        self._log_bytes = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as exc:
            # Nothing is lost: the log keeps everything, and the next checkpoint takes it along.
            _log.warning("checkpoint failed: %s", translate(exc, self._path.parent))

    def _reopen(self) -> sqlite3.Connection:
        self.open()
        self._reopened += 1
        assert self._connection is not None
        return self._connection

    def _rollback(self) -> None:
        connection = self._connection
        if connection is not None and connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop_connection()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as exc:
                _log.warning("closing failed: %s", translate(exc, self._path.parent))


def _insert_of(count: int) -> str:
    row = "(" + ", ".join("?" * len(COLUMNS)) + ")"
    return " ".join(("INSERT INTO journal (", COLUMN_LIST, ") VALUES", ", ".join([row] * count)))


def _perform(connection: sqlite3.Connection, procedure: Procedure[Any] | None) -> Any:
    if procedure is None:
        return None
    steps = procedure()
    try:
        query = next(steps)
        while True:
            rows = connection.execute(query.sql, parameters(query.params)).fetchall()
            query = steps.send(rows)
    except StopIteration as end:
        return end.value
