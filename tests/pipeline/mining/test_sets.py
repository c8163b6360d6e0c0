"""Item sets and rules, held against trying everything."""

import json
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.sets import mine_sets
from tests.pipeline.mining.frames import count_sets, messages

SKUS = "payload.items[*].sku"


def options(*, caps: dict[str, Any] | None = None, **more: Any) -> MiningOptions:
    bounds = Caps(**{"count_min": 1, "stop_share": 1.0} | (caps or {}))
    given: dict[str, Any] = {"items": (SKUS,), "support_min": 0.0, "confidence_min": 0.0}
    return MiningOptions("shop", "sets", caps=bounds, **given | more)


def orders(spark: SparkSession, baskets: list[list[str]]) -> DataFrame:
    return messages(
        spark, [{"body": {"items": [{"sku": s} for s in basket]}} for basket in baskets]
    )


def found_sets(found: DataFrame) -> dict[tuple[str, ...], int]:
    rows = found.where("kind = 'set'").collect()
    return {tuple(json.loads(row["items"])): row["support"] for row in rows}


def test_support_confidence_and_lift_are_what_they_mean(spark: SparkSession) -> None:
    baskets = [["bread", "butter"], ["bread", "butter", "jam"], ["bread"], ["milk"], ["tea", "tea"]]
    found, bounded = mine_sets(orders(spark, baskets), options(caps={"count_min": 2}))
    assert found_sets(found) == {("bread", "butter"): 2}
    rules = {row["items"]: row for row in found.where("kind = 'rule'").collect()}
    one = rules['["butter"]']
    assert one["implies"] == '["bread"]'
    assert one["support"] == 2
    assert one["confidence"] == pytest.approx(1.0)
    assert one["lift"] == pytest.approx(1.0 / (3 / 5))
    assert rules['["bread"]']["confidence"] == pytest.approx(2 / 3)
    assert (bounded.baskets, bounded.rare_items, bounded.shortened) == (5, 3, 0)


def test_random_baskets_give_what_trying_everything_gives(spark: SparkSession) -> None:
    chance = random.Random(7)
    names = [f"i{n}" for n in range(9)]
    baskets = [chance.sample(names, chance.randint(1, 6)) for _ in range(80)]
    found, _ = mine_sets(orders(spark, baskets), options(caps={"count_min": 8}))
    assert found_sets(found) == count_sets(baskets, 8)


def test_messages_of_other_hubs_and_of_no_json_do_not_count(spark: SparkSession) -> None:
    body = {"items": [{"sku": "a"}, {"sku": "b"}]}
    rows: list[dict[str, Any]] = [
        {"body": body},
        {"body": body, "hub": "mall"},
        {"body": "{broken"},
        {"body": [1]},
    ]
    found, bounded = mine_sets(messages(spark, rows), options())
    assert found_sets(found) == {("a", "b"): 1}
    assert bounded.baskets == 1


def test_items_in_most_baskets_are_left_out_and_counted(spark: SparkSession) -> None:
    baskets = [["bag", "x", "y"], ["bag", "x", "y"], ["bag"], ["bag"], ["bag", "z"]]
    found, bounded = mine_sets(orders(spark, baskets), options(caps={"stop_share": 0.8}))
    assert found_sets(found) == {("x", "y"): 2}
    assert bounded.stop_items == 1


def test_large_baskets_keep_their_most_frequent_items(spark: SparkSession) -> None:
    baskets = [["a", "b", "c", "d"], ["a", "b"], ["a", "b", "c"]]
    found, bounded = mine_sets(orders(spark, baskets), options(caps={"items_max": 2}))
    assert found_sets(found) == {("a", "b"): 3}
    assert (bounded.shortened, bounded.size_max) == (2, 2)


def test_identical_large_baskets_end_in_time_because_they_are_cut(spark: SparkSession) -> None:
    baskets = [[f"i{n:02}" for n in range(30)]] * 20
    few = options(caps={"count_min": 10, "patterns_max": 1_000, "results_max": 50})
    found, bounded = mine_sets(orders(spark, baskets), few)
    assert bounded.size_max == 8  # 20 baskets of 255 sets, of which 10 must be alike
    assert bounded.shortened == 20
    assert len(found_sets(found)) == 50


def test_several_fields_make_named_items(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"body": {"kind": "buy", "n": 1}},
        {"body": {"kind": "buy", "n": 1}},
        {"body": {"kind": 2}},
    ]
    pairs = options(items=("payload.kind", "payload.n"))
    found, _ = mine_sets(messages(spark, rows), pairs)
    assert found_sets(found) == {("payload.kind=buy", "payload.n=1"): 2}


def test_a_basket_of_a_user_is_what_was_sent_in_a_window(spark: SparkSession) -> None:
    rows = [
        {"channel": "a", "user": "u1", "at_s": 0},
        {"channel": "b", "user": "u1", "at_s": 50},
        {"channel": "c", "user": "u1", "at_s": 70},
        {"channel": "a", "user": "u2", "at_s": 1},
        {"channel": "b", "user": "u2", "at_s": 2},
        {"channel": "a", "user": "", "at_s": 2},
        {"channel": "c", "user": "", "at_s": 2},
    ]
    found, bounded = mine_sets(
        messages(spark, rows), options(items=("channel",), per="user", window_s=60)
    )
    assert found_sets(found) == {("a", "b"): 2}
    assert bounded.baskets == 3


def test_of_too_many_baskets_a_sample_is_taken_and_shown(spark: SparkSession) -> None:
    found, bounded = mine_sets(orders(spark, [["a", "b"]] * 200), options(caps={"baskets_max": 50}))
    assert bounded.baskets == 200
    assert 0 < bounded.sampled < 120
    assert found_sets(found) == {("a", "b"): bounded.sampled}


def test_nothing_to_mine_finds_nothing(spark: SparkSession) -> None:
    found, bounded = mine_sets(orders(spark, []), options())
    assert found.count() == 0
    assert bounded.baskets == 0
