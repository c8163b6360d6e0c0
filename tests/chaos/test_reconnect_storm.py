"""Thousands of clients return at the same moment: all are back soon, as who they were, and miss nothing."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.processes import NodeProcess, raise_file_limit
from tests.chaos.swarm import JWT_SECRET, Swarm

pytestmark = pytest.mark.slow

SIZE = int(os.environ.get("CHAOS_CLIENTS", "2000"))
_CHANNELS = 200
_MISSED = 10
_BACK_S_MAX = 30.0


async def start(start_process: StartProcess) -> NodeProcess:
    if raise_file_limit() < 2 * SIZE:
        pytest.skip(f"NOT CHECKED: {SIZE} clients; more files must be allowed (ulimit -n)")
    jwt = {"algorithm": "HS256", "secret": JWT_SECRET}
    # Sessions are kept at once: what changes within the usual half second may not outlive a crash.
    session = {"restoreSaveDelayS": 0}
    return await start_process(hub={"defaults": {"jwt": jwt}}, session=session)


@asynccontextmanager
async def joined_swarm(node: NodeProcess) -> AsyncIterator[Swarm]:
    """Everyone is there and has heard something; afterwards the node has nothing to complain of."""
    swarm = Swarm(node, SIZE, _CHANNELS)
    try:
        await swarm.join()
        await swarm.publish(_MISSED)
        await swarm.until_all_heard()
        yield swarm
        assert node.complaints() == []
    finally:
        await swarm.close()


async def storm(swarm: Swarm, say: Say, what: str) -> None:
    """Everyone is away and `_MISSED` messages came meanwhile: let them return, and see."""
    began_s = time.monotonic()
    back_s = await swarm.come_back()
    await swarm.until_all_heard()
    recovered_s = time.monotonic() - began_s
    lost, doubled = swarm.check()
    unrecovered = sum(member.unrecovered for member in swarm.members)
    assert (lost, doubled, unrecovered) == (0, 0, 0)
    assert recovered_s < _BACK_S_MAX
    say(
        f"{SIZE} reconnects after {what}: all back in {back_s:.1f} s, half of them as restored "
        f"sessions, all recovered in {recovered_s:.1f} s; {SIZE * _MISSED} missed messages ok, "
        f"{lost} lost, {doubled} duplicated"
    )


@within(180)
async def test_when_all_connections_break_at_once_all_return_and_miss_nothing(
    start_process: StartProcess, say: Say
) -> None:
    node = await start(start_process)
    async with joined_swarm(node) as swarm:
        swarm.drop()
        await swarm.until_lost()
        await swarm.publish(_MISSED)
        await storm(swarm, say, "all connections broke")


@within(180)
async def test_when_the_node_is_killed_all_return_to_its_successor_and_miss_nothing(
    start_process: StartProcess, say: Say
) -> None:
    node = await start(start_process)
    async with joined_swarm(node) as swarm:
        await node.kill()
        await swarm.until_lost()
        await node.start()
        await swarm.publish(_MISSED)
        await storm(swarm, say, "kill -9 and a restart")
