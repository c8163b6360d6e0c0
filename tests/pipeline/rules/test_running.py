"""One of the rules' queries beside a real node: it runs the node's rules, and rests without any."""

import threading
from pathlib import Path
from queue import Queue

import httpx
import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

from arauto.model import JSON
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import Outgoing
from arauto.pipeline.rules import patience
from arauto.pipeline.rules.known import shown
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


_EACH = """
rule: {0}
version: 1
from: {{channels: [numbers]}}
match: payload.n >= 0
emit: {{channel: "seen:{0}", payload: {{n: payload.n}}}}
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


@pytest.mark.timeout(2 * LAST_RESORT_S)
def test_a_rule_sees_all_that_is_published_after_it_was_set_and_nothing_from_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    storage = {"kind": "sqlite", "dataDir": str(tmp_path)}
    with running_node(storage=storage) as node, node.api() as api:
        config = make_config(storage=storage, pipeline={"apiUrl": node.url})
        lake = Lake(spark, tmp_path / "lake")
        query = RuleQuery(
            RULES,
            Context(config, spark, lake),
            TOKEN,
            tmp_path / "segments",
            lambda _query, _count: None,
        )
        node.put("/v1/hubs/shop", {})

        def publish(n: int) -> None:
            api.publish("shop", [Outgoing("numbers", b'{"n": %d}' % n, JSON)])

        def push(name: str) -> tuple[str, str, str]:
            record = api.put_correlation("shop", name, _EACH.format(name))
            return record.hub, record.id, record.version

        def seen(name: str) -> list[str]:
            return [each["data"]["n"] for each in node.history("shop", f"seen:{name}")]

        publish(1)
        # Nothing runs yet.
        first = push("first")
        publish(2)
        assert shown(lake.root, [first])["shop", "first"].state == "waits"
        stop = threading.Event()
        running = threading.Thread(target=query.run, args=(stop,))
        running.start()
        ended = lambda: not running.is_alive()  # noqa: E731
        try:
            until(lambda: seen("first"), "the first alert", is_over=ended)
            # Others run already, and what is written while they start anew is not lost either.
            second = push("second")
            publish(3)
            assert shown(lake.root, [second])["shop", "second"].state == "starting"
            until(lambda: seen("second"), "an alert of the second rule", is_over=ended)
            until(lambda: len(seen("first")) == 2, "one more of the first", is_over=ended)
            doing = shown(lake.root, [first, second])
            assert {each.state for each in doing.values()} == {"running"}
            assert 0 < doing["shop", "first"].since_ms <= doing["shop", "second"].since_ms
        finally:
            stop.set()
            running.join()
        assert seen("first") == ["2", "3"]
        assert seen("second") == ["3"]
        assert shown(lake.root, [first])["shop", "first"].state == "starting"


@pytest.mark.timeout(2 * LAST_RESORT_S)
def test_a_hub_whose_rules_change_all_the_time_holds_nobody_up_and_gets_them_with_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "WAITS", 1)
    monkeypatch.setattr(patience, "EVERY_S", 10 * LAST_RESORT_S)
    storage = {"kind": "sqlite", "dataDir": str(tmp_path)}
    with running_node(storage=storage) as node, node.api() as api:
        config = make_config(storage=storage, pipeline={"apiUrl": node.url})
        lake = Lake(spark, tmp_path / "lake")
        starts: list[int] = []
        query = RuleQuery(
            RULES,
            Context(config, spark, lake),
            TOKEN,
            tmp_path / "segments",
            lambda _query, count: starts.append(count),
        )
        kept = len(_accumulatorRegistry)
        for hub in ("calm", "hasty"):
            node.put(f"/v1/hubs/{hub}", {})

        def publish(hub: str, n: int) -> None:
            api.publish(hub, [Outgoing("numbers", b'{"n": %d}' % n, JSON)])

        def push(hub: str, name: str) -> None:
            record = api.put_correlation(hub, name, _EACH.format(name))
            records[hub, name] = record.version

        records: dict[tuple[str, str], str] = {}

        def state(hub: str, name: str) -> str:
            return shown(lake.root, [(hub, name, records[hub, name])])[hub, name].state

        def seen(hub: str, name: str) -> list[str]:
            return [each["data"]["n"] for each in node.history(hub, f"seen:{name}")]

        push("calm", "first")
        # Behind it in the journal, so that both are there when the rule begins and nobody waits for it.
        publish("calm", 1)
        stop = threading.Event()
        running = threading.Thread(target=query.run, args=(stop,))
        running.start()
        ended = lambda: not running.is_alive()  # noqa: E731
        try:
            until(lambda: seen("calm", "first"), "the first alert", is_over=ended)
            # Once it is waited for.
            push("hasty", "one")
            publish("hasty", 1)
            until(lambda: seen("hasty", "one"), "an alert of the other hub", is_over=ended)
            push("hasty", "two")
            publish("hasty", 2)
            publish("calm", 2)
            until(lambda: len(seen("calm", "first")) == 2, "the second alert", is_over=ended)
            assert starts == [1, 2]
            assert state("hasty", "two") == "later"
            # It begins with the next rule for which somebody waits.
            push("calm", "second")
            publish("calm", 3)
            publish("hasty", 3)
            until(lambda: seen("calm", "second"), "an alert of the next rule", is_over=ended)
            until(lambda: seen("hasty", "two"), "an alert of the late one", is_over=ended)
            assert starts == [1, 2, 4]
            assert state("hasty", "two") == "running"
        finally:
            stop.set()
            running.join()
        assert seen("calm", "second") == ["3"]
        assert seen("hasty", "two") == ["3"]
        assert seen("hasty", "one") == ["1", "2", "3"]
        assert len(_accumulatorRegistry) == kept, "PySpark keeps them for ever"
