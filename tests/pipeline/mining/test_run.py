"""Runs: stored, numbered, compared, told."""

import dataclasses
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.run import _only_run, change_messages, mine
from tests.pipeline.mining.frames import messages

OPTIONS = MiningOptions(
    "shop",
    "sets",
    ("payload.items[*]",),
    support_min=0.0,
    confidence_min=0.0,
    caps=Caps(count_min=2, stop_share=1.0),
)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def add(lake: Lake, batch_id: int, baskets: list[str], hub: str = "shop") -> None:
    rows = [
        {"body": {"items": list(basket)}, "hub": hub, "seq": batch_id * 1_000 + n}
        for n, basket in enumerate(baskets)
    ]
    frame = messages(lake.spark, rows)
    assert lake.table("messages").append(frame, query="test", batch_id=batch_id)


def test_runs_are_numbered_stored_and_compared_with_the_one_before(lake: Lake) -> None:
    add(lake, 0, ["ab", "ab", "cd", "c"])
    first = mine(lake, OPTIONS, now_ms=1_000)
    assert first.run == 1
    assert {row["change"] for row in first.changes.collect()} == {"new"}
    add(lake, 1, ["ab", "cd"])
    add(lake, 2, ["ab"] * 30, hub="mall")
    second = mine(lake, OPTIONS, now_ms=2_000)
    assert second.run == 2
    told = second.changes.where("kind = 'set'").select("change", "items").collect()
    assert [tuple(row) for row in told] == [("new", '["c","d"]')]
    stored = (
        lake.table("mined").read(hub="shop").where("kind = 'set'").select("run", "items", "support")
    )
    assert {tuple(row) for row in stored.collect()} == {
        (1, '["a","b"]', 2),
        (2, '["a","b"]', 3),
        (2, '["c","d"]', 2),
    }


def test_a_question_that_is_being_mined_is_refused_and_another_is_not(lake: Lake) -> None:
    add(lake, 0, ["ab", "ab"])
    with _only_run(lake, OPTIONS):
        with pytest.raises(ArautoError) as caught:
            mine(lake, OPTIONS, now_ms=1_000)
        assert caught.value.code is Code.LAKE_BUSY
        assert "hub shop" in caught.value.message
        with _only_run(lake, dataclasses.replace(OPTIONS, channel="orders")):
            pass
    assert lake.table("mined").state().batches == {}
    assert mine(lake, OPTIONS, now_ms=1_000).run == 1


def test_a_run_that_ends_in_an_error_lets_the_next_one_in(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), _only_run(lake, OPTIONS):
        raise ZeroDivisionError
    with _only_run(lake, OPTIONS):
        pass


def test_the_lock_is_held_until_the_run_is_committed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(lake, 0, ["ab", "ab"])
    refused: list[Code] = []

    def append(table: Table, *_: object, query: str, batch_id: int) -> bool:
        try:
            with _only_run(lake, OPTIONS):
                pass
        except ArautoError as error:
            refused.append(error.code)
        return False

    monkeypatch.setattr(Table, "append", append)
    with pytest.raises(ArautoError) as caught:
        mine(lake, OPTIONS, now_ms=1_000)
    assert refused == [Code.LAKE_BUSY]
    # Its number was taken all the same, so what was found is not what is stored.
    assert caught.value.code is Code.CONFLICT


def test_only_messages_of_the_time_asked_for_count(lake: Lake) -> None:
    add(lake, 0, ["ab", "ab"])
    assert mine(lake, OPTIONS, now_ms=1_000, to_ms=1_000).bounded.baskets == 0


def test_changes_are_told_with_the_same_ids_each_time(lake: Lake) -> None:
    add(lake, 0, ["ab", "ab"])
    mined = mine(lake, OPTIONS, now_ms=1_000)
    told = list(change_messages(mined, OPTIONS, "analytics:mined"))
    assert told == list(change_messages(mined, OPTIONS, "analytics:mined"))
    assert len({message.id for message in told}) == len(told) == 4
    bodies = [json.loads(message.payload) for message in told]
    assert bodies[-1] == {
        "run": 1, "change": "summary", "kind": "sets", "items": ["payload.items[*]"],
        "baskets": 2, "new": 3, "gone": 0, "changed": 0,
    }  # fmt: skip
    rule = next(body for body in bodies if body["kind"] == "rule")
    assert (rule["items"], rule["implies"], rule["supportAfter"]) == (["a"], ["b"], 1.0)
