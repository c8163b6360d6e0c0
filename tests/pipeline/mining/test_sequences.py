"""Sequences, held against trying everything."""

import json
import random

from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.sequences import mine_sequences
from tests.pipeline.mining.frames import count_sequences, messages


def options(**caps: int) -> MiningOptions:
    bounds = Caps(**{"count_min": 1} | caps)
    return MiningOptions(
        "shop", "sequences", ("payload.step",), per="session", support_min=0.0, caps=bounds
    )


def visits(spark: SparkSession, visits: list[list[str]]) -> DataFrame:
    """The rows of all visits, in an order that is not theirs."""
    rows = [
        {"session": f"s{n}", "body": {"step": step}, "at_s": at}
        for n, steps in enumerate(visits)
        for at, step in enumerate(steps)
    ]
    random.Random(3).shuffle(rows)
    return messages(spark, rows)


def found_sequences(found: DataFrame) -> dict[tuple[str, ...], int]:
    return {tuple(json.loads(row["items"])): row["support"] for row in found.collect()}


def test_steps_are_in_order_of_time_and_repeats_count_once(spark: SparkSession) -> None:
    frame = visits(spark, [["look", "look", "cart", "pay"], ["look", "pay"], ["pay", "look"]])
    found, bounded = mine_sequences(frame, options(count_min=2))
    assert found_sequences(found) == {("look", "pay"): 2}
    assert (bounded.baskets, bounded.rare_items) == (3, 1)


def test_random_sequences_give_what_trying_everything_gives(spark: SparkSession) -> None:
    chance = random.Random(11)
    plain = []
    for _ in range(40):
        steps = [chance.choice("abcde") for _ in range(chance.randint(1, 7))]
        plain.append([s for i, s in enumerate(steps) if i == 0 or s != steps[i - 1]])
    found, _ = mine_sequences(
        visits(spark, plain), options(count_min=6, steps_max=4, results_max=5000)
    )
    assert found_sequences(found) == count_sequences(plain, 6, 4)


def test_of_long_sequences_the_latest_steps_stay(spark: SparkSession) -> None:
    found, bounded = mine_sequences(visits(spark, [["a", "b", "c", "d"]]), options(items_max=2))
    assert found_sequences(found) == {("c", "d"): 1}
    assert bounded.shortened == 1
