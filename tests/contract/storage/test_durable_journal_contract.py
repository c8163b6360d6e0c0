"""What a journal that outlives its process promises beyond the common contract."""

import asyncio

import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import JournalEntry, Kind, WriteLimits
from tests.contract.storage.backends import Backend
from tests.contract.storage.journal_helpers import append_all, message, offsets


async def test_everything_is_there_after_opening_again(durable_backend: Backend) -> None:
    for round_number in range(3):
        storage = await durable_backend.open()
        first = round_number * 50 + 1
        assert storage.journal.last_seq == first - 1
        await append_all(storage.journal, [message(i) for i in range(first, first + 50)])
        await storage.close()
    storage = await durable_backend.open()
    rows = await storage.journal.read(0, 1000)
    assert [(seq, e.offset) for seq, e in rows] == [(i, i) for i in range(1, 151)]
    await storage.close()


async def test_numbering_survives_trimming_and_opening_again(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    beats = [JournalEntry(kind=Kind.HEARTBEAT, ts_ms=i) for i in range(10)]
    await append_all(storage.journal, beats)
    await storage.journal.trim(10, 1)
    await storage.close()
    storage = await durable_backend.open()
    assert storage.journal.last_seq == 10
    await append_all(storage.journal, beats[:1])
    assert [seq for seq, _ in await storage.journal.read(0, 10)] == [11]
    await storage.close()


async def test_each_node_has_a_partition_of_its_own_and_history_sees_all(
    durable_backend: Backend,
) -> None:
    for node, first in (("node-a", 1), ("node-b", 4), ("node-a", 7)):
        storage = await durable_backend.open(node)
        await append_all(storage.journal, [message(i) for i in range(first, first + 3)])
        await storage.close()
    storage = await durable_backend.open("node-b")
    assert [(s, e.offset) for s, e in await storage.journal.read(0, 10)] == [(1, 4), (2, 5), (3, 6)]
    assert await offsets(storage.journal) == list(range(1, 10))
    last = await storage.journal.last("shop", "stock:1")
    assert last is not None
    assert last.serial.offset == 9
    await storage.close()


async def test_a_second_writer_for_the_same_partition_is_refused(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    with pytest.raises(StorageError, match="in use by another") as refused:
        await durable_backend.open()
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    await append_all(storage.journal, [message(1)])
    await storage.close()
    again = await durable_backend.open()
    assert await offsets(again.journal) == [1]
    await again.close()


async def test_too_many_waiting_entries_are_refused_and_the_others_written(
    durable_backend: Backend,
) -> None:
    limits = WriteLimits(pending_entries_max=10)
    storage = await durable_backend.open(limits=limits)
    outcomes: dict[int, StorageError | None] = {}
    for i in range(1, 16):
        heartbeat = JournalEntry(kind=Kind.HEARTBEAT, ts_ms=i)
        storage.journal.append(heartbeat, lambda e, i=i: outcomes.update({i: e}))  # type: ignore[misc]
    await asyncio.sleep(0)
    assert list(outcomes) == [11, 12, 13, 14, 15], "a refusal does not wait for the disk"
    await storage.journal.flush()
    assert {i for i, error in outcomes.items() if error is None} == set(range(1, 11))
    assert {e.code for e in outcomes.values() if e} == {Code.STORAGE_UNAVAILABLE}
    assert storage.counters.refused == 5
    assert await append_all(storage.journal, [message(20)]) == [None], "there is room again"
    await storage.close()


async def test_waiting_bytes_are_bounded_too(durable_backend: Backend) -> None:
    storage = await durable_backend.open(limits=WriteLimits(pending_bytes_max=10_000))
    big = [message(i, hub=f"h{i}", payload=b"x" * 4_000) for i in range(1, 5)]
    outcomes: list[StorageError | None] = []
    for entry in big:
        storage.journal.append(entry, outcomes.append)
    with pytest.raises(StorageError, match="waiting"):
        await storage.kv.put("h", "k", b"x" * 4_000)
    await storage.journal.flush()
    assert [e.code if e else None for e in outcomes] == [Code.STORAGE_UNAVAILABLE] * 2 + [None] * 2
    await storage.close()


async def test_a_hub_has_no_more_waiting_than_it_leaves_to_others(
    durable_backend: Backend,
) -> None:
    """Of 12 places one hub has 6, and another that comes after it has half of the rest."""
    storage = await durable_backend.open(limits=WriteLimits(pending_entries_max=12))
    heard: list[tuple[str, StorageError | None]] = []
    for hub in ("greedy", "modest"):
        for i in range(1, 9):
            entry = message(i, hub=hub)
            storage.journal.append(entry, lambda e, hub=hub: heard.append((hub, e)))  # type: ignore[misc]
    await storage.journal.flush()
    written = [hub for hub, error in heard if error is None]
    assert written == ["greedy"] * 6 + ["modest"] * 3
    assert {e.code for _, e in heard if e} == {Code.STORAGE_SHARE_FULL}
    assert (storage.counters.refused, storage.counters.refused_shares) == (7, 7)
    assert await append_all(storage.journal, [message(9)] * 6) == [None] * 6, "there is room again"
    await storage.close()


async def test_values_and_messages_of_a_hub_wait_in_the_same_share(
    durable_backend: Backend,
) -> None:
    storage = await durable_backend.open(limits=WriteLimits(pending_bytes_max=10_000))
    put = asyncio.ensure_future(storage.kv.put("shop", "k", b"x" * 5_000))
    await asyncio.sleep(0)
    outcomes: list[StorageError | None] = []
    storage.journal.append(message(1), outcomes.append)
    storage.journal.append(message(1, hub="other"), outcomes.append)
    await storage.journal.flush()
    await put
    assert [e.code if e else None for e in outcomes] == [Code.STORAGE_SHARE_FULL, None]
    await storage.close()


async def test_what_administrators_did_is_written_though_their_hub_has_its_share_waiting(
    durable_backend: Backend,
) -> None:
    storage = await durable_backend.open(limits=WriteLimits(pending_entries_max=12))
    outcomes: dict[Kind, StorageError | None] = {}
    for i in range(1, 9):
        storage.journal.append(message(i), lambda e: outcomes.update({Kind.MESSAGE: e}))
    for kind in (Kind.AUDIT, Kind.COUNTERS, Kind.SESSION_END):
        entry = JournalEntry(kind=kind, ts_ms=1, hub="shop")
        storage.journal.append(entry, lambda e, kind=kind: outcomes.update({kind: e}))  # type: ignore[misc]
    await storage.settings.put("rules", "shop", "r", b"{}")
    await storage.journal.flush()
    assert outcomes[Kind.AUDIT] is None
    assert outcomes[Kind.COUNTERS] is None
    assert outcomes[Kind.SESSION_END] is not None
    await storage.close()


async def test_small_commits_keep_order_and_numbers(durable_backend: Backend) -> None:
    storage = await durable_backend.open(limits=WriteLimits(commit_entries_max=3))
    outcomes = await append_all(storage.journal, [message(i) for i in range(1, 101)])
    assert outcomes == [None] * 100
    assert await offsets(storage.journal, limit=1000) == list(range(1, 101))
    assert storage.counters.commits >= 34
    await storage.close()


async def test_entries_and_other_writes_made_together_share_a_commit(
    durable_backend: Backend,
) -> None:
    storage = await durable_backend.open()
    before = storage.counters.commits
    outcomes: list[StorageError | None] = []
    for i in range(1, 50):
        storage.journal.append(message(i), outcomes.append)
    await asyncio.gather(*(storage.kv.put("h", f"k{i}", b"v") for i in range(20)))
    await storage.journal.flush()
    assert outcomes == [None] * 49
    assert storage.counters.commits - before <= 2, "two turns of the loop, two commits"
    await storage.close()


async def test_a_cancelled_caller_does_not_disturb_the_commit(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    task = asyncio.create_task(storage.kv.put("h", "cancelled", b"v"))
    await asyncio.sleep(0)
    task.cancel()
    await storage.kv.put("h", "kept", b"v")
    assert await append_all(storage.journal, [message(1)]) == [None]
    assert await storage.kv.get("h", "kept") == b"v"
    await storage.close()
