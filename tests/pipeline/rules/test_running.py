"""One of the rules' queries beside a real node: it runs the node's rules, and rests without any."""

import threading
from pathlib import Path
from queue import Queue

import httpx
import pytest
from pyspark.sql import SparkSession

from arauto.model import JSON
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import Outgoing
from arauto.pipeline.rules.running import RuleQuery
from arauto.pipeline.rules.stream import PLAN_VERSION, RULES
from tests.integration.conftest import make_config
from tests.pipeline.sink.nodes import TOKEN, running_node
from tests.pipeline.waiting import LAST_RESORT_S, until

_PAIR = """
rule: pair
version: 1
from: {channels: [steps]}
sequence:
  - {as: one, where: "payload.step = '1'"}
  - {as: two, where: "payload.step = '2'"}
within: 1h
emit: {channel: alerts, payload: {}}
"""
_COUNT = """
rule: counted
version: 1
from: {channels: [steps]}
count: {}
window: 1m
when: count >= 2
emit: {channel: alerts, payload: {}}
"""


def _message(step: str) -> Outgoing:
    return Outgoing("steps", b'{"step": "%s"}' % step.encode(), JSON, id=f"step-{step}")


@pytest.mark.timeout(2 * LAST_RESORT_S)
def test_a_query_runs_the_rules_of_the_node_and_forgets_its_place_with_the_last_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    storage = {"kind": "sqlite", "dataDir": str(tmp_path)}
    with running_node(storage=storage) as node:
        config = make_config(storage=storage, pipeline={"apiUrl": node.url})
        lake = Lake(spark, tmp_path / "lake")
        checkpoint = lake.checkpoint(RULES, PLAN_VERSION)
        rules: Queue[int] = Queue()
        query = RuleQuery(
            RULES,
            Context(config, spark, lake),
            TOKEN,
            tmp_path / "segments",
            lambda _query, count: rules.put(count),
        )
        node.put("/v1/hubs/shop", {})
        path = "/v1/hubs/shop/correlations"
        node.put(f"{path}/pair", {"text": _PAIR, "enabled": True})
        node.put(f"{path}/counted", {"text": _COUNT, "enabled": True})
        stop = threading.Event()
        running = threading.Thread(target=query.run, args=(stop,))
        running.start()
        try:
            # Rules that count run in the other query.
            assert rules.get(timeout=LAST_RESORT_S) == 1
            ended = lambda: not running.is_alive()  # noqa: E731
            until((checkpoint / "offsets" / "0").exists, "the rules have begun", is_over=ended)
            with node.api() as api:
                for step in ("1", "2"):
                    api.publish("shop", [_message(step)])
            until(lambda: node.history("shop", "alerts"), "an alert", is_over=ended)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            httpx.delete(
                f"{node.url}{path}/pair", headers=headers, timeout=LAST_RESORT_S
            ).raise_for_status()
            assert rules.get(timeout=LAST_RESORT_S) == 0
            until(lambda: not checkpoint.exists(), "the place is forgotten", is_over=ended)
        finally:
            stop.set()
            running.join()
        [alert] = node.history("shop", "alerts")
        assert alert["headers"]["x-rule"] == "shop/pair@1"
    assert lake.table("matches").read().count() == 1
