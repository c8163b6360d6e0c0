"""Roll-ups on their way to a real node: all of them, corrected when late rows come, the newest also live."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.follow import QUERY
from arauto.pipeline.lake.compact import DAY_MS
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import NodeApi, Outcome, Outgoing
from arauto.pipeline.rollup.partial import WINDOW_MS, partial_rollups
from arauto.pipeline.rollup.serve import Destination, publish, serve, served, store
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, running_node
from tests.pipeline.waiting import LAST_RESORT_S

_WINDOWS = 600
_CHANNEL = "analytics:rollup"


def _points(node: KeepingNode, period: str, from_ms: int) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    while from_ms:
        answer = httpx.get(
            f"{node.url}/v1/hubs/shop/analytics/{period}",
            params={"fromMs": from_ms},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=LAST_RESORT_S,
        )
        assert answer.is_success, answer.text
        page = answer.json()
        points += page["items"]
        from_ms = page["next"]
    return points


def test_all_windows_reach_the_node_and_late_rows_correct_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    table = lake.table("rollup_5m")
    # The node keeps windows of the last 90 days only, so these are of the last two.
    newest_ms = time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS - WINDOW_MS
    oldest_ms = newest_ms - WINDOW_MS * (_WINDOWS - 1)
    newest_s = (newest_ms - T0) / 1000
    rows = [{"seq": n + 1, "at": newest_s - 300 * n} for n in range(_WINDOWS)]
    table.append(partial_rollups(journal(spark, *rows)), query=QUERY, batch_id=1)
    with running_node() as node:
        destination = Destination(node.url, TOKEN, _CHANNEL, "system")
        assert serve(lake, destination, now_ms=newest_ms) > 0
        assert (serve(lake, destination, now_ms=newest_ms), served(lake)) == (0, 1)
        points = _points(node, "5m", oldest_ms)
        assert [point["startMs"] for point in points] == [
            newest_ms - WINDOW_MS * n for n in reversed(range(_WINDOWS))
        ]
        assert {point["values"]["published"] for point in points} == {1}
        assert (
            sum(
                point["values"]["published"]
                for point in _points(node, "day", oldest_ms - 86_400_000)
            )
            == _WINDOWS
        )
        live = len(node.history("shop", _CHANNEL))

        late = {"seq": 9_999, "at": newest_s - 300 * (_WINDOWS - 1)}
        table.append(partial_rollups(journal(spark, late)), query=QUERY, batch_id=2)
        serve(lake, destination, now_ms=newest_ms)
        assert [point["values"]["published"] for point in _points(node, "5m", oldest_ms)[:2]] == [
            2,
            1,
        ]
        # The window, its hour and its day.
        assert len(node.history("shop", _CHANNEL)) == live + 3


def _window_now() -> int:
    return time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS


def _row(start_ms: int, **values: Any) -> dict[str, Any]:
    return {"at": (start_ms - T0) / 1000, **values}


def test_hubs_the_node_does_not_have_and_windows_far_ahead_hold_up_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    now_ms = _window_now()
    rows = [
        _row(now_ms),
        _row(now_ms - WINDOW_MS),
        # Begins two days ahead: the clock of its node was wrong.
        _row(now_ms + 2 * DAY_MS),
        _row(now_ms, hub="gone"),
        _row(now_ms - WINDOW_MS, hub="gone"),
    ]
    frame = partial_rollups(journal(spark, *rows))
    lake.table("rollup_5m").append(frame, query=QUERY, batch_id=1)
    with running_node(engine={"allowDynamicHubs": False}) as node:
        node.put("/v1/hubs/shop", {})
        with structlog.testing.capture_logs() as logs:
            serve(lake, Destination(node.url, TOKEN, _CHANNEL, "system"), now_ms=now_ms)
        assert served(lake) == 1
        points = _points(node, "5m", now_ms - DAY_MS)
        assert [point["startMs"] for point in points] == [now_ms - WINDOW_MS, now_ms]
        published = {message["key"] for message in node.history("shop", _CHANNEL)}
        assert {f"5m-{now_ms}", f"5m-{now_ms - WINDOW_MS}"} <= published
    # Once for each, however many windows.
    assert sorted(line["hub"] for line in logs if "hub" in line) == ["gone"]
    assert [line["windows"] for line in logs if "windows" in line] == [1]


def test_late_rows_of_windows_the_lake_dropped_leave_the_nodes_sums_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    table = lake.table("rollup_5m")
    now_ms = _window_now()
    # The first window of the oldest day that is kept, and the last of the day before.
    kept_ms = now_ms // DAY_MS * DAY_MS - 2 * DAY_MS
    dropped_ms = kept_ms - WINDOW_MS
    with running_node() as node:
        destination = Destination(node.url, TOKEN, "", "system")
        for batch_id in (1, 2):
            rows = [_row(start_ms, seq=batch_id) for start_ms in (kept_ms, dropped_ms)]
            frame = partial_rollups(journal(spark, *rows))
            table.append(frame, query=QUERY, batch_id=batch_id)
            serve(lake, destination, now_ms=now_ms, gold_days=0 if batch_id == 1 else 2)
        points = _points(node, "5m", dropped_ms)
        assert [(point["startMs"], point["values"]["published"]) for point in points] == [
            (dropped_ms, 1),
            (kept_ms, 2),
        ]
        assert served(lake) == 2


def test_a_row_the_node_does_not_take_is_found_and_the_others_are_kept() -> None:
    now_ms = _window_now()
    values = {"published": 1}
    items: list[dict[str, Any]] = [
        {"period": "5m", "hub": "shop", "startMs": now_ms - WINDOW_MS * n, "values": values}
        for n in range(5)
    ]
    items[1] = {**items[1], "hub": "no hub's name"}
    items[3] = {**items[3], "values": {"published": -1}}
    with running_node() as node:
        with node.api() as api:
            refused = store(api, items)
        points = _points(node, "5m", now_ms - DAY_MS)
    assert [hub for hub, _ in refused] == ["no hub's name", "shop"]
    assert [point["startMs"] for point in points] == [items[n]["startMs"] for n in (4, 2, 0)]


class _Refusing(NodeApi):
    """Refuses what is published to some hubs."""

    def __init__(self, refusals: dict[str, ArautoError | Outcome]) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self._refusals = refusals
        self.published: list[str] = []

    def publish(
        self, hub: str, messages: Iterable[Outgoing], *, wait_for_hub: bool = True
    ) -> list[Outcome]:
        assert not wait_for_hub, "hubs take turns: none waits for another"
        refusal = self._refusals.get(hub, Outcome())
        if isinstance(refusal, ArautoError):
            raise refusal
        self.published.append(hub)
        return [refusal for _ in messages]


_ITEMS: list[dict[str, Any]] = [
    {"period": "5m", "hub": hub, "startMs": 0, "values": {}} for hub in ("a", "b", "c")
]
_SOMEWHERE = Destination("http://127.0.0.1:1", "", _CHANNEL, "system")


@pytest.mark.parametrize(
    "code",
    [
        Code.UNKNOWN_HUB,
        Code.BAD_HUB_NAME,
        Code.HUB_CLOSED,
        Code.TOO_MANY_CHANNELS,
        Code.STORAGE_SHARE_FULL,
    ],
)
def test_a_hub_that_takes_no_messages_does_not_stop_the_next(code: Code) -> None:
    whole, single = ArautoError(code, "no"), Outcome(ArautoError(code, "no"))
    with _Refusing({"a": whole, "b": single}) as api:
        refused = publish(api, _ITEMS, _SOMEWHERE, 1)
    assert ([hub for hub, _ in refused], api.published) == (["a", "b"], ["b", "c"])


@pytest.mark.parametrize("code", [Code.NODE_UNREACHABLE, Code.OVERLOADED, Code.ADMIN_DENIED])
def test_what_is_the_same_for_all_hubs_stops_and_is_tried_again(code: Code) -> None:
    for refusal in (ArautoError(code, "no"), Outcome(ArautoError(code, "no"))):
        with _Refusing({"b": refusal}) as api, pytest.raises(ArautoError) as raised:
            publish(api, _ITEMS, _SOMEWHERE, 1)
        assert raised.value.code is code
        assert "c" not in api.published
