"""Roll-ups on their way to a real node: all of them, corrected when late rows come, the newest also live."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.follow import QUERY
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rollup.partial import WINDOW_MS, partial_rollups
from arauto.pipeline.rollup.serve import Destination, serve, served
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, running_node

#: The first test of a process waits for Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(240)

_WINDOWS = 600
_CHANNEL = "analytics:rollup"


def _points(node: KeepingNode, period: str, from_ms: int) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    while from_ms:
        answer = httpx.get(
            f"{node.url}/v1/hubs/shop/analytics/{period}",
            params={"fromMs": from_ms},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
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
        assert serve(lake, destination) > 0
        assert (serve(lake, destination), served(lake)) == (0, 1)
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
        serve(lake, destination)
        assert [point["values"]["published"] for point in _points(node, "5m", oldest_ms)[:2]] == [
            2,
            1,
        ]
        # The window, its hour and its day.
        assert len(node.history("shop", _CHANNEL)) == live + 3
