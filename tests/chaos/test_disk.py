"""Disks that are full, read-only, limited or hung: writes are refused, never falsely acknowledged."""

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from arauto.errors import Code
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.chaos.bystander import Bystander, put_free_namespace
from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.disks import Disk, ext4_disk, small_disk
from tests.chaos.load import Load, Plan
from tests.chaos.processes import NodeProcess

pytestmark = pytest.mark.slow

_REFUSALS = {Code.STORAGE_FAILED, Code.STORAGE_FULL, Code.STORAGE_READ_ONLY}
_MB = 1_000_000
_PLAN = Plan(publishers=2, in_flight=16)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path, 8 * _MB) as disk:
        disk.load_ballast(4 * _MB)
        yield disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ext4_disk(tmp_path, 64 * _MB) as disk:
        yield disk


async def free_namespace(data_dir: Path) -> None:
    """Make the channels of the namespace `free` live without the store."""
    storage = await open_sqlite(data_dir, "node-1", FakeClock())
    await put_free_namespace(storage)
    await storage.close()


@asynccontextmanager
async def under_load(
    start_process: StartProcess, data_dir: Path, plan: Plan = _PLAN
) -> AsyncIterator[tuple[NodeProcess, Load, Bystander]]:
    """A node on a disk, publishers and writers at work, and somebody whom the disk does not concern."""
    await free_namespace(data_dir)
    node = await start_process(data_dir)
    load = Load(node, plan)
    bystander = Bystander(node)
    await bystander.start()
    load.start()
    try:
        yield node, load, bystander
    finally:
        await load.abandon()
        await bystander.close()


def summary(what: str, load: Load, ok: int) -> str:
    codes = ", ".join(f"{count} × {Code(code).name}" for code, count in sorted(load.codes.items()))
    return (
        f"{what}: {ok} ok, 0 lost, 0 duplicated, {load.unanswered} indefinite; refused "
        f"{codes or 'nothing'}"
    )


async def check_all(node: NodeProcess, load: Load) -> int:
    """Compare now and after a restart; return how much is ok."""
    await load.check()
    await load.check_documents()
    assert node.complaints() == []
    assert [link.close_code for link in load.links if link.close_code] == [], "nobody was sent away"
    await node.kill()
    await node.start()
    ok = (await load.check(again=True)) + (await load.check_documents())
    return ok.ok


@within(120)
async def test_on_a_full_disk_publishes_are_refused_until_there_is_room_again(
    full_disk: Disk, start_process: StartProcess, say: Say
) -> None:
    plan = Plan(publishers=2, in_flight=16, payload_bytes=4_000)
    async with under_load(start_process, full_disk.data_dir, plan) as (node, load, bystander):
        await load.until_refused(200)
        before = load.acks
        await bystander.check()
        await bystander.check_newcomer()
        full_disk.drop_ballast()
        await load.until_acked(50)
        await load.stop()
        await bystander.check()
        assert before > 50
        assert set(load.codes) <= _REFUSALS
        assert Code.STORAGE_FULL in load.codes
        say(summary("full disk", load, await check_all(node, load)))


@within(120)
async def test_on_a_disk_that_turns_read_only_publishes_are_refused_until_it_is_writable_again(
    disk: Disk, start_process: StartProcess, say: Say
) -> None:
    async with under_load(start_process, disk.data_dir) as (node, load, bystander):
        for _ in range(3):
            await load.until_acked(200)
            disk.forbid_writing()
            try:
                await load.until_refused(200)
                await bystander.check()
                await bystander.check_newcomer()
            finally:
                disk.allow_writing()
        await load.until_acked(200)
        await load.stop()
        # A write that failed just before the disk came back leaves nobody to ask why it failed.
        unexplained = load.codes.pop(Code.STORAGE_FAILED, 0)
        assert unexplained <= 3 * load.plan.in_flight_max
        assert set(load.codes) == {Code.STORAGE_READ_ONLY}
        say(summary("read-only disk × 3", load, await check_all(node, load)))


@within(120)
async def test_when_the_file_system_gives_up_publishes_are_refused_and_after_its_repair_all_is_there(
    disk: Disk, start_process: StartProcess, say: Say
) -> None:
    await free_namespace(disk.data_dir)
    node = await start_process(disk.data_dir)
    load = Load(node, _PLAN)
    late = Load(node, Plan(channels=("late",), documents=("doc:late",)))
    bystander = Bystander(node)
    await bystander.start()
    load.start()
    try:
        await load.until_acked(500)
        # Not in the midst of a sync: Linux may report success for one that is under way at this moment.
        await load.stop()
        disk.break_down()
        late.start()
        await late.until_refused(500)
        await bystander.check()
        await bystander.check_newcomer()
        await late.stop()
        await load.check()
        await load.check_documents()
        assert node.complaints() == []
        await node.kill()
        disk.repair()
        await node.start()
        ok = (await load.check(again=True)) + (await load.check_documents())
        assert (await late.check()).ok == 0
        assert set(late.codes) == {Code.STORAGE_READ_ONLY}
        say(summary("file system gave up and was repaired", late, ok.ok))
    finally:
        await load.abandon()
        await late.abandon()
        await bystander.close()


@within(120)
async def test_when_the_system_refuses_writes_publishes_are_refused_until_it_takes_them_again(
    tmp_path: Path, start_process: StartProcess, say: Say
) -> None:
    """A limit on the size of files can be set and lifted from outside, without privilege."""
    data_dir = tmp_path / "data"
    async with under_load(start_process, data_dir) as (node, load, bystander):
        for _ in range(3):
            await load.until_acked(200)
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
            await load.until_refused(200)
            await bystander.check()
            await bystander.check_newcomer()
            no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, no_limit)
        await load.until_acked(200)
        await load.stop()
        assert set(load.codes) <= _REFUSALS
        say(summary("refused writes × 3", load, await check_all(node, load)))


@within(120)
async def test_while_the_disk_hangs_nothing_stored_is_acknowledged_and_the_rest_goes_on(
    disk: Disk, start_process: StartProcess, say: Say
) -> None:
    async with under_load(start_process, disk.data_dir) as (node, load, bystander):
        for _ in range(3):
            await load.until_acked(200)
            disk.freeze()
            try:
                # Answers already on their way may still come in; then it is silent.
                for _ in range(20):
                    await bystander.check()
                before = load.acks
                for _ in range(20):
                    await bystander.check()
                await bystander.check_newcomer()
                assert load.acks == before
            finally:
                disk.thaw()
        await load.until_acked(200)
        await load.stop()
        assert load.codes == {}
        say(summary("hung disk × 3", load, await check_all(node, load)))
