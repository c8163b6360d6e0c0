"""Rules that count for ever new keys: what they hold is bounded per hub, and no other hub notices."""

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.rules.crowding import (
    COUNTED_BYTES_MAX,
    WINDOW_BYTES,
    Crowding,
    TaskRoom,
    held_by_hub,
)
from arauto.pipeline.rules.left_out import LeftOut, LeftOutSum
from arauto.pipeline.rules.stream import COUNTS, PLAN_VERSION, by_query
from tests.pipeline.rules.support import heartbeat, message, programs, run_stream, write_rows

_KEYS = """
rule: keys
version: 1
key: [payload.k]
count: {}
window: 1h
every: 1m
when: count > 1000
emit: {channel: alerts, payload: {}}
"""
_QUIET = """
rule: quiet
version: 1
count: {}
window: 10s
when: count = 2
emit: {channel: alerts, payload: {}}
"""


def _loud(seq: int, key: str) -> dict[str, object]:
    return message(seq, 1_000 + seq, f'{{"k": "{key}"}}', hub="loud")


def test_a_task_lets_so_many_bytes_of_a_hub_in_and_counts_on_for_keys_it_has(
    tmp_path: Path,
) -> None:
    window = WINDOW_BYTES + len("r") + len("a")
    room = TaskRoom(tmp_path / "full.json", bytes_max=5 * window).for_task()
    assert room.admits("loud", "r", "a", 1, 2)
    assert room.admits("loud", "r", "b", 1, 2)
    assert not room.admits("loud", "r", "c", 1, 2)
    assert room.admits("loud", "r", "a", 1, 2)
    assert not room.admits("loud", "r", "a", 2, 2)
    assert room.admits("quiet", "r", "c", 1, 5)


def test_long_keys_do_not_let_more_in(tmp_path: Path) -> None:
    room = TaskRoom(tmp_path / "full.json").for_task()
    long = "é" * 2_000
    admitted = sum(room.admits("loud", "r", f"{n}{long}", 1, 1) for n in range(10_000))
    assert admitted * len(long.encode()) <= COUNTED_BYTES_MAX // 8


def test_a_hub_that_is_full_goes_on_when_there_is_room_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crowding = Crowding(tmp_path / "new" / "v2", bytes_max=100)

    def is_full() -> bool:
        return not crowding.room.for_task().admits("loud", "r", "a", 1, 1)

    for held, wanted in ((99, False), (100, True), (91, True), (89, False), (99, False)):
        crowding.judge({"loud": held, "quiet": 1})
        assert is_full() is wanted, held
    crowding.judge({"loud": 100})
    assert is_full()
    crowding.forget()
    assert not is_full()


def test_looking_at_what_is_held_takes_a_small_part_of_the_time_and_a_failure_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowding = Crowding(tmp_path / "v2", bytes_max=100)
    spark, query = Mock(), Mock()
    query.lastProgress.stateOperators = [Mock(numRowsTotal=10**7)]
    now_s = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    looked: list[float] = []

    def held(spark: object, checkpoint: Path) -> dict[str, int]:
        looked.append(now_s[0])
        now_s[0] += 30
        if len(looked) == 1:
            raise RuntimeError("Java says something that PySpark does not know")
        return {"loud": 100}

    monkeypatch.setattr("arauto.pipeline.rules.crowding.held_by_hub", held)
    while len(looked) < 4:
        crowding.look(spark, query)
        now_s[0] += 1
    assert not crowding.room.for_task().admits("loud", "r", "a", 1, 1)
    assert [later - at for at, later in pairwise(looked)] == [pytest.approx(180, abs=2)] * 3


def test_what_counts_of_a_hub_hold_is_bounded_and_another_hubs_alert_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = [*programs(_KEYS, hub="loud"), *programs(_QUIET)]
    left_out = spark.sparkContext.accumulator(LeftOut(), LeftOutSum())
    place = tmp_path / "checkpoint" / COUNTS / f"v{PLAN_VERSION}"
    crowding = Crowding(place, bytes_max=10_000)
    [ref] = [ref for ref in by_query(rules)[COUNTS] if ref.startswith("loud/")]
    crowding.room.bytes_max = 600 * (WINDOW_BYTES + len(ref) + len('["a10"]'))
    options = {"room": crowding.room, "left_out": left_out}

    # As many new keys as can be: a task takes ten of them, with sixty windows each.
    write_rows(tmp_path / "in", [[_loud(n, f"a{n}") for n in range(1, 101)]])
    assert run_stream(spark, tmp_path / "in", rules, tmp_path / "checkpoint", **options) == []
    assert left_out.value == Counter({("loud", "keys", "hub_full"): 90})
    [(hub, size)] = held_by_hub(spark, place).items()
    assert hub == "loud"
    assert 600 * 256 < size < 600 * 400

    # Then the hub is full, and nothing of it comes in, until its windows have ended.
    crowding.judge({hub: size})
    mine = [message(200 + n, 2_000 + n, "{}") for n in range(2)]
    ends = [[heartbeat(300, 30_000)], [heartbeat(301, 40_000)]]
    write_rows(tmp_path / "in", [[_loud(n, f"b{n}") for n in range(101, 201)], mine, *ends])
    found = run_stream(spark, tmp_path / "in", rules, tmp_path / "checkpoint", **options)
    assert [(row[2], row[3]) for row in found] == [("shop", "quiet")]
    assert left_out.value == Counter({("loud", "keys", "hub_full"): 190})
    assert held_by_hub(spark, place)["loud"] <= size

    hours = [[heartbeat(400, 8_000_000)], [heartbeat(401, 8_100_000)]]
    write_rows(tmp_path / "in", hours)
    run_stream(spark, tmp_path / "in", rules, tmp_path / "checkpoint", **options)
    assert held_by_hub(spark, place) == {}
