"""Roll-ups: partial rows merge to the same numbers in any split and order."""

import random
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from arauto.pipeline.rollup.merge import fold_partials, merge_rollups
from arauto.pipeline.rollup.partial import partial_rollups
from tests.pipeline.archive.support import at, journal


def _ended(at_s: float, duration_ms: int, **more: Any) -> dict[str, Any]:
    details = msgspec.json.encode({"durationMs": duration_ms, "code": 5000})
    return {"kind": 3, "at": at_s, "payload": details, **more}


def _counters(at_s: float, hub: str, node: str = "n1", **details: Any) -> dict[str, Any]:
    start = int(at(at_s - 300).timestamp() * 1000)
    payload = msgspec.json.encode({"startMs": start, "endMs": start + 300_000, **details})
    return {"kind": 5, "at": at_s, "hub": hub, "node": node, "payload": payload}


def _found(merged: DataFrame, *names: str) -> dict[Any, tuple[Any, ...]]:
    """(minutes after T0, hub) → the named numbers."""
    zero = at(0).timestamp()
    return {
        (int(row.start.timestamp() - zero) // 60, row.hub): tuple(row[name] for name in names)
        for row in merged.collect()
    }


def _traffic(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of all kinds that count, of two nodes and hubs, over a quarter of an hour."""
    rows: list[dict[str, Any]] = []
    for seq in range(1, count + 1):
        hub, node, at_s = rng.choice(["a", "b"]), rng.choice(["n1", "n2"]), rng.uniform(0, 900)
        row = {"seq": seq, "hub": hub, "node": node, "at": at_s}
        kind = rng.choice([1, 1, 1, 2, 3, 4, 5, 8])
        if kind == 3:
            row = _ended(at_s, rng.randrange(10_000), **row)
        elif kind == 5:
            total = {"messagesIn": rng.randrange(100), "bytesOut": rng.randrange(100)}
            gauges = {"channels": rng.randrange(9), "sessions": rng.randrange(9)}
            row = {**row, **_counters(at_s, hub, node, total=total, gauges=gauges)}
        else:
            user, channel = f"u{rng.randrange(40)}", f"c{rng.randrange(20)}"
            row |= {"kind": kind, "user": user, "channel": channel, "payload": b'{"leftOut": 2}'}
        rows.append(row)
    return rows


def test_any_split_and_order_of_batches_gives_the_same_roll_ups(spark: SparkSession) -> None:
    rng = random.Random(20261116)
    rows = _traffic(rng, 400)
    whole = merge_rollups(partial_rollups(journal(spark, *rows)), "5m")
    shuffled = rng.sample(rows, len(rows))
    cuts = sorted(rng.sample(range(1, len(rows)), 3))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    partials = reduce(DataFrame.union, [partial_rollups(journal(spark, *part)) for part in parts])
    assert len(whole.collect()) >= 9
    assertDataFrameEqual(merge_rollups(partials, "5m"), whole)
    # What compaction makes of them must not change a number either.
    assertDataFrameEqual(merge_rollups(fold_partials(partials), "5m"), whole)


def test_sums_are_per_hub_and_in_all(spark: SparkSession) -> None:
    rows = journal(
        spark,
        {"at": 1, "hub": "a", "payload": b"xx"},
        {"at": 2, "hub": "b", "payload": b"yyy"},
        {"at": 301, "hub": "b", "payload": b"z"},
        {"at": 3, "hub": "a", "kind": 4, "payload": b'{"leftOut": 4}'},
        {"at": 4, "hub": "a", "kind": 2},
        _ended(5, 100, hub="a"),
        _ended(6, 300, hub="b"),
    )
    names = ("published", "published_bytes", "refused", "sessions_started", "sessions_ended")
    partials = partial_rollups(rows)
    assert _found(merge_rollups(partials, "5m"), *names, "duration_mean_ms") == {
        (0, "a"): (1, 2, 5, 1, 1, 100.0),
        (0, "b"): (1, 3, 0, 0, 1, 300.0),
        (0, ""): (2, 5, 5, 1, 2, 200.0),
        (5, "b"): (1, 1, 0, 0, 0, None),
        (5, ""): (1, 1, 0, 0, 0, None),
    }
    hours = _found(merge_rollups(partials, "hour"), "published", "duration_mean_ms")
    assert hours == {(0, "a"): (1, 100.0), (0, "b"): (2, 300.0), (0, ""): (3, 200.0)}


def test_counters_belong_to_the_interval_they_count_and_nodes_add_up(spark: SparkSession) -> None:
    rows = journal(
        spark,
        _counters(300, "", total={"messagesIn": 9}, gauges={"hubs": 2, "sessions": 5}),
        _counters(300, "a", total={"messagesIn": 7}, gauges={"sessions": 4}, sessionsPeak=6),
        _counters(600, "a", total={"messagesIn": 1}, gauges={"sessions": 3}),
        _counters(300, "a", "n2", total={"messagesIn": 2}, gauges={"sessions": 1}, sessionsPeak=1),
    )
    partials = partial_rollups(rows)
    names = ("messages_in", "sessions", "sessions_peak", "hubs")
    assert _found(merge_rollups(partials, "5m"), *names) == {
        (0, ""): (9, 5, None, 2),
        (0, "a"): (9, 5, 7, None),
        (5, "a"): (1, 3, None, None),
        (5, ""): (0, None, None, None),
    }
    # Over an hour a gauge is its largest value of each node, and then the nodes' sum.
    assert _found(merge_rollups(partials, "hour"), *names)[(0, "a")] == (10, 5, 7, None)


def test_a_row_that_comes_late_corrects_its_old_window(spark: SparkSession) -> None:
    on_time = partial_rollups(journal(spark, {"at": 1}, {"at": 700}))
    late = partial_rollups(journal(spark, {"at": 299, "seq": 9, "user": "bob"}))
    merged = _found(merge_rollups(on_time.union(late), "5m"), "published", "distinct_users")
    assert merged[(0, "shop")] == (2, 2)
    assert merged[(10, "shop")] == (1, 1)


def test_percentiles_and_distinct_counts_are_close_to_the_exact_ones(spark: SparkSession) -> None:
    count = 20_000
    rows = spark.range(count).selectExpr(
        "'n1' node",
        "id seq",
        "cast(if(id % 2 = 0, 1, 3) as int) kind",
        f"timestamp_millis({int(at(0).timestamp() * 1000)} + id % 300000) ts",
        "'a' hub",
        "concat('c', id % 3000) channel",
        "concat('u', id % 10000) user",
        'cast(concat(\'{"durationMs":\', id, "}") as binary) payload',
    )
    halves = [
        partial_rollups(rows.where(f"seq % 4 >= {low} and seq % 4 < {low + 2}")) for low in (0, 2)
    ]
    merged = merge_rollups(halves[0].union(halves[1]), "day").where("hub = 'a'")
    (row,) = merged.collect()
    # Even ids are messages: half of the channels and of the users.
    assert abs(row.distinct_channels - 1_500) <= 75
    assert abs(row.distinct_users - 5_000) <= 250
    for name, rank in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert abs(row[f"duration_{name}_ms"] - rank * count) <= 0.03 * count
    assert row.duration_mean_ms == count / 2
