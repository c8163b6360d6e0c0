"""Changes take turns per hub, are applied, and go on record whatever happens."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from arauto.admin.operations.changes import AuditRow, Changes
from arauto.errors import ArautoError, Code
from arauto.hub.directory import Directory
from arauto.storage.memory import MemoryJournal
from arauto.testing.clock import FakeClock


class _Directory:
    """Notes which hubs were told to take new settings."""

    def __init__(self) -> None:
        self.refreshed: list[str] = []
        self.error: ArautoError | None = None

    async def refresh(self, hub: str) -> None:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.refreshed.append(hub)


class _World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.directory = _Directory()
        self.journal = MemoryJournal(self.clock)
        self.changes = Changes(cast(Directory, self.directory), self.journal, self.clock)

    async def outcomes(self) -> list[tuple[str, str]]:
        await self.journal.flush()
        rows = [entry for _, entry in await self.journal.read(0, 100)]
        return [(r.hub, msgspec.json.decode(r.payload, type=AuditRow).outcome) for r in rows]


@pytest.fixture
def world() -> _World:
    return _World()


async def test_changes_of_one_hub_never_overlap_and_other_hubs_do_not_wait(world: _World) -> None:
    inside: dict[str, int] = {}
    most: dict[str, int] = {}
    together = 0

    async def change(hub: str) -> None:
        nonlocal together
        async with world.changes.to(hub, "rules.set", by="test"):
            inside[hub] = inside.get(hub, 0) + 1
            most[hub] = max(most.get(hub, 0), inside[hub])
            together = max(together, sum(inside.values()))
            for _ in range(3):
                await asyncio.sleep(0)
            inside[hub] -= 1

    await asyncio.gather(*(change(hub) for hub in "abab" * 5))
    assert most == {"a": 1, "b": 1}
    assert together == 2
    assert sorted(world.directory.refreshed) == ["a"] * 10 + ["b"] * 10


async def test_locks_are_let_go_of(world: _World) -> None:
    async def change(hub: str) -> None:
        async with world.changes.to(hub, "rules.set", by="test"):
            await asyncio.sleep(0)

    await asyncio.gather(*(change(str(number % 7)) for number in range(50)))
    assert world.changes._locks == {}


async def test_every_end_goes_on_record(world: _World) -> None:
    async with world.changes.to("a", "rules.set", by="test"):
        pass
    with pytest.raises(ArautoError):
        async with world.changes.to("a", "rules.set", by="test"):
            raise ArautoError(Code.CONFLICT, "no")
    with pytest.raises(ZeroDivisionError):
        async with world.changes.to("a", "rules.set", by="test"):
            raise ZeroDivisionError
    world.directory.error = ArautoError(Code.STORAGE_UNAVAILABLE, "gone")
    with pytest.raises(ArautoError):
        async with world.changes.to("b", "rules.set", by="test"):
            pass
    assert await world.outcomes() == [
        ("a", "ok"),
        ("a", "CONFLICT"),
        ("a", "failed"),
        ("b", "STORAGE_UNAVAILABLE"),
    ]
    assert world.directory.refreshed == ["a"]


async def test_a_cancelled_change_frees_the_hub_and_goes_on_record(world: _World) -> None:
    entered = asyncio.Event()

    async def stuck() -> None:
        async with world.changes.to("a", "rules.set", by="test"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(stuck())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with world.changes.to("a", "rules.set", by="test"):
        pass
    assert await world.outcomes() == [("a", "failed"), ("a", "ok")]


async def test_a_journal_that_fails_does_not_undo_the_change(world: _World) -> None:
    await world.journal.close()
    done: list[Any] = []
    async with world.changes.to("a", "rules.set", by="test"):
        done.append(1)
    world.clock.advance(0)
    assert (done, world.directory.refreshed) == ([1], ["a"])
