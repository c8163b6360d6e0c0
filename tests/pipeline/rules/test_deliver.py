"""Matches reach the table and the node, each once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rules.allowance import Allowance
from arauto.pipeline.rules.deliver import Delivery
from arauto.pipeline.rules.output import MATCHES
from arauto.pipeline.sink.options import SinkOptions
from tests.pipeline.rules.support import programs
from tests.pipeline.sink.nodes import TOKEN, running_node

_RULE = """
rule: spike
version: 3
from: {channels: [prices]}
match: payload.price > 1
emit: {channel: alerts, payload: {}}
include_pipeline: true
"""


def _match(number: int | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(MATCHES.names)
    row |= {"ts": datetime(2026, 11, 16, tzinfo=UTC), "hub": "shop", "rule": "spike", "version": 3}
    row |= {"key": "[]", "first_node": "n1", "first_seq": 1, "last_node": "n1", "last_seq": 2}
    row |= {"id": f"id{number}", "channel": "alerts", "payload": f'{{"n":{number}}}'}
    return row | more


def _checkpoint(directory: Path, id: str) -> Path:
    directory.mkdir()
    (directory / "metadata").write_text(f'{{"id":"{id}"}}')
    return directory


def test_batches_of_a_new_checkpoint_are_new_though_their_numbers_were_used(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Lake(spark, tmp_path).table("matches")
    with running_node() as node:
        node.put("/v1/hubs/shop", {})
        options = SinkOptions(url=node.url, token=TOKEN)
        for number, id in enumerate(("one", "two")):
            frame = spark.createDataFrame([tuple(_match(number).values())], MATCHES)
            Delivery("rules", table, options, (), _checkpoint(tmp_path / id, id))(frame, 0)
    assert sorted(row.id for row in table.read().collect()) == ["id0", "id1"]


def test_a_hub_at_its_quota_loses_its_own_alerts_and_no_other_hub_waits_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The full hub comes first, with channels it may not open; then the one that must not suffer.
    full = [_match(n, hub="full", channel=f"alerts:{n}") for n in range(5)]
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in (*full, _match(9))], MATCHES
    ).coalesce(1)
    table = Lake(spark, tmp_path).table("matches")
    left_out: list[int] = []
    with running_node() as node:
        node.put("/v1/hubs/full", {"quotas": {"channelsMax": 1}})
        node.put("/v1/hubs/shop", {})
        # Who waited for the full hub would wait for longer than this test may take.
        options = SinkOptions(url=node.url, token=TOKEN, refused_max=1_000, retry_s=3_600)
        checkpoint = _checkpoint(tmp_path / "c1", "one")
        Delivery("rules", table, options, (), checkpoint, left_out.append)(frame, 0)
        published = node.history("shop", "alerts")
    assert [message["data"] for message in published] == [{"n": 9}]
    assert left_out == [4]
    # What was not published can still be looked up.
    assert table.read().count() == 6


def test_a_hub_with_more_alerts_than_allowed_publishes_those_it_may_and_keeps_the_rest_in_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    loud = [_match(n, hub="loud") for n in range(30)]
    rows = [tuple(row.values()) for row in (*loud, _match(99))]
    frame = spark.createDataFrame(rows, MATCHES).coalesce(1)
    table = Lake(spark, tmp_path).table("matches")
    left_out: list[int] = []
    with running_node() as node:
        node.put("/v1/hubs/loud", {})
        node.put("/v1/hubs/shop", {})
        options = SinkOptions(url=node.url, token=TOKEN)
        checkpoint = _checkpoint(tmp_path / "c1", "one")
        # A clock that stands still: a burst of ten, and nothing comes after it.
        allowance = Allowance(1, lambda: 0.0)
        deliver = Delivery("rules", table, options, (), checkpoint, left_out.append, allowance)
        deliver(frame, 0)
        deliver(spark.createDataFrame([tuple(_match(50, hub="loud").values())], MATCHES), 1)
        loudly = [message["data"]["n"] for message in node.history("loud", "alerts")]
        quietly = [message["data"]["n"] for message in node.history("shop", "alerts")]
    assert sorted(loudly) == list(range(10))
    assert quietly == [99]
    assert left_out == [20, 1]
    assert table.read().count() == 32


def test_a_batch_delivered_twice_is_there_once_and_refusals_stop_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        _match(1),
        _match(2),
        _match(3, channel="no such * channel"),
        # How many events were left out: not a match.
        _match(None, id=None, payload="17", channel="hub_full"),
    ]
    lake = Lake(spark, tmp_path)
    with running_node() as node:
        node.put("/v1/hubs/shop", {})
        options = SinkOptions(url=node.url, token=TOKEN, refused_max=1_000)
        checkpoint = _checkpoint(tmp_path / "c1", "one")
        table, chosen = lake.table("matches"), tuple(programs(_RULE))
        told: list[tuple[str, int]] = []
        delivery = Delivery(
            "rules",
            table,
            options,
            chosen,
            checkpoint,
            on_events_left_out=lambda reason, count: told.append((reason, count)),
        )
        frame = spark.createDataFrame([tuple(row.values()) for row in rows], MATCHES)
        delivery(frame, 0)
        delivery(frame, 0)
        published = node.history("shop", "alerts")
    assert lake.table("matches").read().count() == 3
    bodies = sorted(msgspec.json.encode(message["data"]) for message in published)
    assert bodies == [b'{"n":1}', b'{"n":2}']
    assert told == [("hub_full", 17)] * 2
    headers = published[0]["headers"]
    # Second-hand, since the rule listens to the pipeline: no rule looks at it.
    assert (headers["x-rule"], headers["x-origin"], headers["x-hops"]) == (
        "shop/spike@3",
        "pipeline",
        "2",
    )
