"""The queue in front of a group commit: bounds, order, and who hears what."""

import asyncio
from collections.abc import Generator

import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import JournalEntry, Kind, StorageCounters, WriteLimits
from arauto.storage.sql.group import Batch, GroupQueue, Outcome, Query
from arauto.storage.sql.rows import Row

ENTRY = JournalEntry(kind=Kind.AUDIT, ts_ms=1)


def nothing() -> Generator[Query, list[Row], str]:
    yield Query("SELECT 1", ())
    return "result"


class Engine:
    """Takes batches and completes them when told to."""

    def __init__(self, **limits: int) -> None:
        self.batches: list[Batch] = []
        self.counters = StorageCounters()
        self.queue = GroupQueue(
            asyncio.get_running_loop(), WriteLimits(**limits), self.counters, self.batches.append
        )

    def complete(self, outcome: Outcome | None = None) -> None:
        batch = self.batches.pop(0)
        results = ["result" if op.procedure else None for op in batch.ops]
        self.queue.complete(batch, outcome or Outcome(results=results))


async def test_what_one_loop_turn_writes_is_handed_over_together() -> None:
    engine = Engine()
    task = asyncio.ensure_future(engine.queue.run(nothing, ("p",)))
    for _ in range(5):
        engine.queue.append(ENTRY, lambda _: None)
    assert engine.batches == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(len(batch.entries) for batch in engine.batches) == 5
    while engine.batches:
        engine.complete()
    assert await task == "result"
    assert engine.queue.pending_bytes == 0


async def test_a_batch_that_is_large_enough_does_not_wait_for_the_turn_to_end() -> None:
    engine = Engine(commit_entries_max=3)
    for _ in range(7):
        engine.queue.append(ENTRY, lambda _: None)
    assert [len(batch) for batch in engine.batches] == [3, 3]
    await asyncio.sleep(0)
    assert [len(batch) for batch in engine.batches] == [3, 3, 1]


async def test_the_bound_counts_what_is_being_committed_too() -> None:
    engine = Engine(pending_entries_max=4)
    heard: list[StorageError | None] = []
    for _ in range(4):
        engine.queue.append(ENTRY, heard.append)
    await asyncio.sleep(0)
    engine.queue.append(ENTRY, heard.append)
    assert heard == [], "not from within append"
    await asyncio.sleep(0)
    assert [error.code for error in heard if error] == [Code.STORAGE_UNAVAILABLE]
    with pytest.raises(StorageError):
        await engine.queue.run(nothing, ("p",))
    assert engine.counters.refused == 2
    engine.complete()
    engine.queue.append(ENTRY, heard.append)
    await asyncio.sleep(0)
    engine.complete()
    assert heard[1:] == [None] * 5
    assert engine.queue.pending_bytes == 0


async def test_a_failed_commit_is_heard_by_everyone_and_counted_once() -> None:
    engine = Engine()
    heard: list[StorageError | None] = []
    engine.queue.append(ENTRY, heard.append)
    engine.queue.append(ENTRY, heard.append)
    tasks = [asyncio.ensure_future(engine.queue.run(nothing, ("p",))) for _ in range(2)]
    flushed = asyncio.ensure_future(engine.queue.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    error = StorageError(Code.STORAGE_FULL, "full")
    while engine.batches:
        engine.complete(Outcome(error=error))
    assert heard == [error, error]
    for task in tasks:
        with pytest.raises(StorageError, match="full"):
            await task
    await flushed
    assert engine.queue.last_seq == 0
    assert engine.counters.committed == 0
    assert engine.counters.commit_failures >= 1


async def test_an_outage_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine()
    for outcome in [Outcome(error=StorageError(Code.STORAGE_FULL, "full"))] * 5 + [Outcome()] * 5:
        engine.queue.append(ENTRY, lambda _: None)
        await asyncio.sleep(0)
        engine.complete(outcome)
    assert caplog.text.count("writes fail") == 1
    assert caplog.text.count("writes succeed again") == 1


async def test_flush_with_nothing_pending_returns_at_once() -> None:
    engine = Engine()
    await engine.queue.flush()
    await engine.queue.settle()
    assert engine.batches == []


async def test_reads_wait_for_ops_but_not_for_entries() -> None:
    engine = Engine()
    engine.queue.append(ENTRY, lambda _: None)
    await engine.queue.settle()
    task = asyncio.ensure_future(engine.queue.run(nothing, ("p",)))
    await asyncio.sleep(0)
    settled = asyncio.ensure_future(engine.queue.settle())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not settled.done()
    while engine.batches:
        engine.complete()
    await settled
    assert await task == "result"


async def test_closing_hands_over_what_is_queued_and_refuses_the_rest() -> None:
    engine = Engine()
    heard: list[StorageError | None] = []
    engine.queue.append(ENTRY, heard.append)
    engine.queue.close()
    engine.queue.append(ENTRY, heard.append)
    engine.complete()
    await asyncio.sleep(0)
    assert heard[0] is None
    assert heard[1] is not None
    assert engine.counters.refused == 0, "closed is not the same as full"


async def test_while_the_store_is_away_new_writes_are_refused_and_older_ones_wait() -> None:
    engine = Engine()
    heard: list[StorageError | None] = []
    engine.queue.append(ENTRY, heard.append)
    await asyncio.sleep(0)
    engine.queue.hold_off(StorageError(Code.STORAGE_UNAVAILABLE, "no connection"))
    engine.queue.append(ENTRY, heard.append)
    with pytest.raises(StorageError, match="no connection"):
        await engine.queue.run(nothing, ("p",))
    await asyncio.sleep(0)
    assert [error.message for error in heard if error] == ["no connection"]
    engine.queue.hold_off(None)
    engine.complete()
    assert heard[1:] == [None]
    assert engine.counters.refused == 2
    engine.queue.append(ENTRY, heard.append)
    await asyncio.sleep(0)
    assert len(engine.batches) == 1
