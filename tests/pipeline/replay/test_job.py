"""A whole replay, from a real lake to a real node."""

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.replay import past
from arauto.pipeline.replay.engine import Limits, limits_for
from arauto.pipeline.replay.job import preview, run_replay
from arauto.pipeline.replay.progress import Progress, ProgressFile, open_progress
from arauto.pipeline.replay.spec import ReplaySpec
from tests.pipeline.replay.rows import START_MS, message, save
from tests.pipeline.replay.test_engine import FakeWorld, KillError, WatchedApi
from tests.pipeline.sink.nodes import KeepingNode, running_node


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two hundred messages of two channels, from two nodes that wrote in turns."""
    lake = Lake(spark, tmp_path_factory.mktemp("lake"))
    rows = [
        message(seq=n, after_s=n, channel=f"a:{n // 2 % 2}", node=f"node-{n % 2}")
        for n in range(200)
    ]
    save(lake, rows[::2], 0)
    save(lake, rows[1::2], 1)
    return lake


def spec(name: str, speed: float = 0.0) -> ReplaySpec:
    return ReplaySpec(
        id=name,
        hub="shop",
        channels=("a:#",),
        from_ms=START_MS,
        to_ms=START_MS + 86_400_000,
        speed=speed,
    )


def replayed(node: KeepingNode, name: str, channel: str) -> list[int]:
    return [each["data"]["n"] for each in node.history("shop", f"replay:{name}:{channel}")]


def in_order(channel: int) -> list[int]:
    return [n for n in range(200) if n // 2 % 2 == channel]


def test_everything_comes_once_and_in_order_piece_by_piece(
    lake: Lake, node: KeepingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_SLICE_ROWS", 70)
    clock = FakeWorld()
    with (
        WatchedApi(node, clock) as api,
        open_progress(lake.root, spec("whole")) as (file, progress),
    ):
        limits = limits_for(api, progress.spec)
        run_replay(lake, api, file, progress, limits, world=clock.world)
    assert [replayed(node, "whole", f"a:{n}") for n in range(2)] == [in_order(0), in_order(1)]
    assert (progress.published, progress.done) == (200, True)
    with (
        pytest.raises(ArautoError, match="is done") as caught,
        open_progress(lake.root, None, "whole"),
    ):
        pass
    assert caught.value.code is Code.CONFLICT


def test_a_replay_that_died_is_taken_up_by_its_id_alone_and_repeats_nothing(
    lake: Lake, node: KeepingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeWorld()
    limits = Limits(rate_max=500, run_max=1_000)
    save_file = ProgressFile.save
    saves = iter([True])

    def save_once(file: ProgressFile, progress: Progress) -> None:
        if next(saves, False):
            save_file(file, progress)

    # Only the beginning is saved: it dies after publishing, before each of the other saves.
    with (
        open_progress(lake.root, spec("died")) as (file, progress),
        WatchedApi(node, clock, dies_after=3) as api,
        monkeypatch.context() as patch,
    ):
        patch.setattr(ProgressFile, "save", save_once)
        with pytest.raises(KillError):
            run_replay(lake, api, file, progress, limits, world=clock.world)
    assert sum(len(replayed(node, "died", f"a:{n}")) for n in range(2)) > 20
    with open_progress(lake.root, None, "died") as (file, progress):
        assert progress.place is None
        with WatchedApi(node, clock) as api:
            run_replay(lake, api, file, progress, limits, world=clock.world)
    assert [replayed(node, "died", f"a:{n}") for n in range(2)] == [in_order(0), in_order(1)]
    assert progress.handled == 200
    assert progress.repeated > 20


def test_a_preview_counts_and_measures(lake: Lake) -> None:
    found = preview(lake, spec("preview", speed=2.0))
    assert (found.summary.rows, found.summary.channels) == (200, 2)
    assert found.channels == [("a:0", 100), ("a:1", 100)]
    assert found.duration_s == pytest.approx(99.5)
    assert preview(lake, spec("preview")).duration_s == pytest.approx(0.4)


def test_an_id_is_used_once(lake: Lake) -> None:
    ProgressFile(lake.root, "taken").save(Progress(spec=spec("taken")))
    with (
        pytest.raises(ArautoError, match="take another id"),
        open_progress(lake.root, spec("taken")),
    ):
        pass


def test_an_unknown_replay_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ArautoError, match="no replay nope"), open_progress(tmp_path, None, "nope"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_half_of_a_hubs_quota_is_left_to_live_traffic() -> None:
    with running_node() as node:
        node.put("/v1/hubs/shop", {"quotas": {"messagesPerS": 100}})
        with NodeApi(node.url, "test-admin-token-of-32-characters") as api:
            limits = limits_for(api, spec("quota"))
    assert (limits.rate_max, limits.run_max) == (50, 1)


def test_a_hub_that_is_not_there_yet_is_met_with_care(node: KeepingNode) -> None:
    with node.api() as api:
        limits = limits_for(api, msgspec.structs.replace(spec("new"), target_hub="unborn"))
    assert (limits.rate_max, limits.run_max) == (500, 1)
