"""SIGTERM under load: everyone is told, what was acknowledged is kept, and the node is gone in time."""

import time

import pytest

from arauto.errors import Code
from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.link import open_link
from tests.chaos.load import Load, Plan

pytestmark = pytest.mark.slow

_ROUNDS = 3
_GRACE_S = 10.0
_IDLE = 50


@within(120)
async def test_a_node_that_is_asked_to_stop_tells_everyone_and_keeps_what_it_acknowledged(
    start_process: StartProcess, say: Say, seed: int
) -> None:
    node = await start_process(node={"shutdownGraceS": _GRACE_S})
    load = Load(node, Plan(), seed)
    load.start()
    took_s: list[float] = []
    told = 0
    try:
        for _ in range(_ROUNDS):
            await load.until_acked(500)
            idle = [await open_link(node.url) for _ in range(_IDLE)]
            busy = [link for link in load.links if not link.lost.is_set()]
            began_s = time.monotonic()
            code = await node.terminate()
            took_s.append(time.monotonic() - began_s)
            assert code == 0, node.words()
            for link in [*idle, *busy]:
                await link.lost.wait()
                assert link.close_code == Code.GOING_AWAY
                assert link.last_error is not None
                assert link.last_error.code == Code.GOING_AWAY
                assert link.last_error.retryable
                told += 1
            await node.start()
            await load.check()
            await load.check_documents()
        await load.stop()
        ok = (await load.check(again=True)) + (await load.check_documents())
    finally:
        await load.abandon()
    assert max(took_s) < _GRACE_S
    assert load.codes == {}, "nothing was refused"
    assert node.complaints() == []
    say(
        f"SIGTERM × {_ROUNDS} (seed {seed}): {ok.ok} ok, 0 lost, 0 duplicated, {load.unanswered} "
        f"indefinite; {told} clients told 4000 GOING_AWAY; exit code 0 after at most {max(took_s):.1f} s"
    )
