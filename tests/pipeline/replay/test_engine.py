"""A replay publishes in order, on time, each message once, and stops in a way that can be taken up.

The node is real; only the replay's own clock is the test's, so that nothing waits.
"""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import NodeApi, Outcome
from arauto.pipeline.replay.engine import Limits, Replayer, World
from arauto.pipeline.replay.progress import Progress, ProgressFile
from arauto.pipeline.replay.spec import Past, ReplaySpec
from tests.pipeline.sink.nodes import QUICK, TOKEN, KeepingNode, free_port, running_node

LIMITS = Limits(rate_max=500, run_max=1_000)


def past(number: int, *, gap_ms: int = 0, channel: str = "a:1") -> Past:
    return Past(
        ts_ms=1_000_000 + number * gap_ms,
        node="node-1",
        seq=number,
        channel=channel,
        epoch=1,
        offset=number,
        user="",
        content_type="application/json",
        key="",
        headers={},
        expires_ms=0,
        payload=b'{"n": %d}' % number,
    )


class FakeWorld:
    """Time that passes when somebody sleeps."""

    def __init__(self, wall_ms: int = 1_800_000_000_000) -> None:
        self.at_s = 100.0
        self.wall_ms = wall_ms

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    @property
    def world(self) -> World:
        return World(
            now_s=lambda: self.at_s, wall_ns=lambda: self.wall_ms * 1_000_000, sleep=self.sleep
        )


class WatchedApi(NodeApi):
    """Talks to a real node, and notes when; `dies_after` requests were answered, it dies."""

    def __init__(self, node: KeepingNode, clock: FakeWorld, dies_after: int = 1_000_000) -> None:
        super().__init__(node.url, TOKEN, retry=QUICK)
        self.clock = clock
        self.dies_after = dies_after
        self.sent: list[tuple[float, int]] = []

    def publish_once(self, hub: str, messages: Any) -> list[Outcome]:
        outcomes = super().publish_once(hub, messages)
        self.sent.append((self.clock.at_s, len(messages)))
        if len(self.sent) > self.dies_after:
            raise KillError
        return outcomes


class KillError(BaseException):
    """As sudden as a kill: nothing in the program catches it."""


class LostFile(ProgressFile):
    """What is left of a process that died: only what it had saved by a certain time."""

    def __init__(self, lake_dir: Path, replay_id: str, saves_max: int) -> None:
        super().__init__(lake_dir, replay_id)
        self.saves_left = saves_max

    def save(self, progress: Progress) -> None:
        if self.saves_left > 0:
            self.saves_left -= 1
            super().save(progress)


def spec(name: str, **parts: Any) -> ReplaySpec:
    given: dict[str, Any] = {"id": name, "hub": "shop", "speed": 0.0, **parts}
    return ReplaySpec(channels=("a:*",), from_ms=0, to_ms=9_000_000_000_000, **given)


def replayed(node: KeepingNode, name: str, channel: str = "a:1", hub: str = "shop") -> list[int]:
    return [each["data"]["n"] for each in node.history(hub, f"replay:{name}:{channel}")]


def replayer(
    api: NodeApi, tmp_path: Path, plan: ReplaySpec, clock: FakeWorld, limits: Limits = LIMITS
) -> Replayer:
    file = ProgressFile(tmp_path, plan.id)
    return Replayer(api, file, Progress(spec=plan), limits, world=clock.world)


def test_messages_come_in_order_and_marked(node: KeepingNode, tmp_path: Path) -> None:
    clock = FakeWorld()
    with WatchedApi(node, clock) as api:
        run = replayer(api, tmp_path, spec("order"), clock)
        run.run(past(n) for n in range(700))
        run.finish()
    assert replayed(node, "order") == list(range(700))
    headers = node.history("shop", "replay:order:a:1")[3]["headers"]
    wanted = {
        "x-replay": "order",
        "x-original-ts": "1000000",
        "x-original-serial": "0000000000000001-3",
    }
    assert headers.items() >= wanted.items()
    saved = ProgressFile(tmp_path, "order").load()
    assert (saved.published, saved.done, saved.place) == (700, True, (1_000_000, "node-1", 699))


@pytest.mark.parametrize(("speed", "lasts_s"), [(1.0, 99.0), (10.0, 9.9), (0.5, 198.0)])
def test_messages_come_as_far_apart_as_the_speed_says(
    node: KeepingNode, tmp_path: Path, speed: float, lasts_s: float
) -> None:
    clock = FakeWorld()
    name = f"speed{speed}"
    with WatchedApi(node, clock) as api:
        run = replayer(api, tmp_path, spec(name, speed=speed), clock)
        run.run(past(n, gap_ms=1_000) for n in range(100))
        times = [at_s for at_s, _ in api.sent]
    assert len(times) == 100
    apart = [(b - a) * speed for a, b in pairwise(times)]
    assert apart == pytest.approx([1.0] * 99, abs=0.05)
    assert times[-1] - times[0] == pytest.approx(lasts_s, rel=0.01)


def test_full_speed_keeps_to_the_largest_rate(node: KeepingNode, tmp_path: Path) -> None:
    clock = FakeWorld()
    with WatchedApi(node, clock) as api:
        limits = Limits(rate_max=50, run_max=1_000)
        run = replayer(api, tmp_path, spec("rate"), clock, limits)
        run.run(past(n) for n in range(1_000))
        seconds: dict[int, int] = {}
        for at_s, count in api.sent:
            seconds[int(at_s)] = seconds.get(int(at_s), 0) + count
    # A burst of a fifth of a second may fall into the next one.
    assert max(seconds.values()) <= 60
    assert 1_000 / 50 <= clock.at_s - 100 <= 40


def test_a_used_up_quota_slows_it_down_and_keeps_each_channels_order(tmp_path: Path) -> None:
    with running_node() as node:
        node.put("/v1/hubs/shop", {"quotas": {"messagesPerS": 30}})
        # Real time: the quota is the node's.
        with NodeApi(node.url, TOKEN) as api:
            plan = spec("quota")
            file = ProgressFile(tmp_path, plan.id)
            run = Replayer(api, file, Progress(spec=plan), Limits(rate_max=400, run_max=1))
            run.run(past(n, channel=f"a:{n % 3}") for n in range(90))
        for channel in range(3):
            got = replayed(node, "quota", f"a:{channel}")
            assert got == list(range(channel, 90, 3))


@pytest.mark.parametrize("saves", [0, 1, 2])
def test_a_kill_between_publishing_and_saving_repeats_nothing(
    node: KeepingNode, tmp_path: Path, saves: int
) -> None:
    clock = FakeWorld()
    plan = spec(f"kill{saves}")
    messages = [past(n, channel=f"a:{n % 2}") for n in range(400)]
    lost = LostFile(tmp_path, plan.id, 1 + saves)
    with WatchedApi(node, clock, dies_after=6) as api:
        run = Replayer(api, lost, Progress(spec=plan), LIMITS, world=clock.world)
        run.save()
        clock.at_s += 10
        with pytest.raises(KillError):
            run.run(messages)
    done = sum(len(replayed(node, plan.id, f"a:{n}")) for n in range(2))
    progress = ProgressFile(tmp_path, plan.id).load()
    assert progress.handled < done
    with WatchedApi(node, clock) as api:
        run = Replayer(api, ProgressFile(tmp_path, plan.id), progress, LIMITS, world=clock.world)
        run.run(each for each in messages if progress.place is None or each.place > progress.place)
    for channel in range(2):
        assert replayed(node, plan.id, f"a:{channel}") == list(range(channel, 400, 2))
    assert progress.handled == 400


def test_what_channels_still_hold_is_not_repeated_when_the_node_forgot_the_ids(
    tmp_path: Path,
) -> None:
    rules = {"clientPublish": True, "store": "all", "idempotencyS": 0.001}
    changes = {"hub": {"defaults": {"defaultPublic": True}, "defaultRules": rules}}
    with running_node(**changes) as node:
        clock = FakeWorld()
        plan = spec("forgot")
        for saved_ms in (0, 1):
            progress = Progress(spec=plan, saved_ms=saved_ms)
            with WatchedApi(node, clock) as api:
                file = ProgressFile(tmp_path, plan.id)
                run = Replayer(api, file, progress, LIMITS, world=clock.world)
                run.run(past(n) for n in range(150))
        assert replayed(node, "forgot") == list(range(150))
        assert (progress.published, progress.repeated) == (0, 150)


@pytest.mark.parametrize("handled", [0, 60])
def test_a_resume_that_is_interrupted_leaves_the_next_one_as_much_in_doubt(
    tmp_path: Path, handled: int
) -> None:
    rules = {"clientPublish": True, "store": "all", "idempotencyS": 0.001}
    changes = {"hub": {"defaults": {"defaultPublic": True}, "defaultRules": rules}}
    messages = [past(n) for n in range(400)]

    def interrupted() -> Iterator[Past]:
        yield from messages[:handled]
        raise KillError

    with running_node(**changes) as node:
        clock = FakeWorld(wall_ms=time.time_ns() // 1_000_000)
        plan = spec("twice")
        lost = LostFile(tmp_path, plan.id, saves_max=1)
        with WatchedApi(node, clock, dies_after=3) as api:
            run = Replayer(api, lost, Progress(spec=plan), LIMITS, world=clock.world)
            run.save()
            with pytest.raises(KillError):
                run.run(messages)
        done = len(replayed(node, plan.id))
        assert handled < done < 400
        file = ProgressFile(tmp_path, plan.id)
        clock.wall_ms += 3_600_000
        with WatchedApi(node, clock) as api:
            run = Replayer(api, file, file.load(), LIMITS, world=clock.world)
            run.save()
            with pytest.raises(KillError):
                run.run(interrupted())
        clock.wall_ms += 3_600_000
        progress = file.load()
        place = progress.place
        with WatchedApi(node, clock) as api:
            run = Replayer(api, file, progress, LIMITS, world=clock.world)
            run.run(each for each in messages if place is None or each.place > place)
        assert replayed(node, plan.id) == list(range(400))
        assert progress.repeated == done


def test_a_replay_without_doubt_looks_no_further_back_than_its_place(
    node: KeepingNode, tmp_path: Path
) -> None:
    clock = FakeWorld()
    plan = spec("place")
    file = ProgressFile(tmp_path, plan.id)
    with WatchedApi(node, clock) as api:
        run = Replayer(api, file, Progress(spec=plan), LIMITS, world=clock.world)
        run.save()
        clock.wall_ms += 5_000
        run.run([past(0)])
        moved_ms = clock.wall_ms
        clock.wall_ms += 5_000
        run.save()
    assert file.load().saved_ms == moved_ms


def test_a_message_refused_for_good_stops_it_with_what_was_done_saved(
    node: KeepingNode, tmp_path: Path
) -> None:
    clock = FakeWorld()
    with WatchedApi(node, clock) as api:
        run = replayer(api, tmp_path, spec("refused", speed=1.0), clock)
        long = "a:" + "x" * 250
        messages = [past(0, gap_ms=1_000), past(1, gap_ms=1_000, channel=long), past(2)]
        with pytest.raises(ArautoError, match="refused a message") as caught:
            run.run(messages)
    assert caught.value.code is Code.BAD_CHANNEL_NAME
    assert ProgressFile(tmp_path, "refused").load().place == (1_000_000, "node-1", 0)


def test_refused_messages_can_be_left_out(node: KeepingNode, tmp_path: Path) -> None:
    clock = FakeWorld()
    with WatchedApi(node, clock) as api:
        limits = Limits(rate_max=500, run_max=1_000, skip_refused=True)
        run = replayer(api, tmp_path, spec("skip"), clock, limits)
        run.run([past(0), past(1, channel="a:" + "x" * 250), past(2)])
    assert replayed(node, "skip") == [0, 2]
    assert (run.progress.published, run.progress.refused) == (2, 1)


def test_no_node_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    clock = FakeWorld()
    with NodeApi(f"http://127.0.0.1:{free_port()}", TOKEN, retry=QUICK) as api:
        run = replayer(api, tmp_path, spec("nobody"), clock)
        with pytest.raises(ArautoError, match="took nothing for 120 s") as caught:
            run.run([past(0)])
    assert caught.value.code is Code.NODE_UNREACHABLE
    assert 120 <= clock.at_s - 100 <= 140


def test_several_pieces_follow_one_schedule(node: KeepingNode, tmp_path: Path) -> None:
    clock = FakeWorld()
    with WatchedApi(node, clock) as api:
        run = replayer(api, tmp_path, spec("pieces", speed=1.0), clock)
        run.run([past(0, gap_ms=1_000), past(1, gap_ms=1_000)])
        run.run([past(2, gap_ms=1_000), past(60, gap_ms=1_000)])
        times = [at_s - 100 for at_s, _ in api.sent]
    assert times == pytest.approx([0, 1, 2, 60], abs=0.1)


def test_another_hub_can_be_the_target(node: KeepingNode, tmp_path: Path) -> None:
    clock = FakeWorld()
    plan = spec("moved", target_hub="lab", target="same")
    with WatchedApi(node, clock) as api:
        replayer(api, tmp_path, plan, clock).run([past(5)])
    (got,) = node.history("lab", "a:1")
    assert got["data"] == {"n": 5}
