"""Roll-ups through the admin API: kept once each, shown in pages, bounded and checked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arauto.admin.operations.analytics import Analytics
from arauto.admin.rollups import Rollup, RollupRow
from arauto.errors import Code
from arauto.storage.memory import MemoryKeyValueStore
from arauto.testing.clock import FakeClock
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode

ROLLUPS = "/v1/analytics/rollups"
_5M = 300_000
_HOUR = 3_600_000
_DAY = 86_400_000


@pytest.fixture(params=["memory", "sqlite"])
async def node(
    start_node: StartNode, tmp_path: Path, request: pytest.FixtureRequest
) -> RunningNode:
    return await start_node(storage={"kind": request.param, "dataDir": str(tmp_path)})


def now_of(node: RunningNode, step_ms: int) -> int:
    """The start of the running period."""
    return node.node.clock.wall_ms() // step_ms * step_ms


def row(start_ms: int, *, period: str = "5m", hub: str = "", **values: float) -> dict[str, Any]:
    return {"period": period, "hub": hub, "startMs": start_ms, "values": values}


async def test_rows_come_back_in_order_and_only_their_own(node: RunningNode, admin: Admin) -> None:
    now_ms = now_of(node, _5M)
    rows = [row(now_ms - n * _5M, messagesIn=n) for n in range(30)]
    rows += [row(now_ms, hub="shop", bytesIn=7), row(now_of(node, _HOUR), period="hour", hubs=2)]
    assert await admin.ok("POST", ROLLUPS, {"rows": rows}) == {"stored": 32, "skipped": 0}
    page = await admin.ok("GET", "/v1/analytics/5m")
    assert (page["period"], page["hub"], page["next"]) == ("5m", "", 0)
    assert [each["values"] for each in page["items"]] == [
        {"messagesIn": n} for n in range(29, -1, -1)
    ]
    assert [each["startMs"] for each in page["items"]] == [
        now_ms - n * _5M for n in range(29, -1, -1)
    ]
    shop = await admin.ok("GET", "/v1/hubs/shop/analytics/5m")
    assert shop["items"] == [{"startMs": now_ms, "values": {"bytesIn": 7}}]
    hourly = await admin.ok("GET", "/v1/analytics/hour")
    assert [each["values"] for each in hourly["items"]] == [{"hubs": 2}]
    assert (await admin.ok("GET", "/v1/hubs/other/analytics/5m"))["items"] == []


async def test_a_row_sent_again_replaces_the_first_whole_and_its_neighbours_stay(
    node: RunningNode, admin: Admin
) -> None:
    now_ms = now_of(node, _5M)
    first = [row(now_ms, messagesIn=1, bytesIn=5), row(now_ms - _5M, messagesIn=9)]
    await admin.ok("POST", ROLLUPS, {"rows": first})
    await admin.ok("POST", ROLLUPS, {"rows": [row(now_ms, messagesIn=2, durationMeanMs=1.5)]})
    items = (await admin.ok("GET", "/v1/analytics/5m"))["items"]
    assert [each["values"] for each in items] == [
        {"messagesIn": 9},
        {"messagesIn": 2, "durationMeanMs": 1.5},
    ]


async def test_a_range_is_paged_by_time_and_pages_meet_without_gap_or_overlap(
    node: RunningNode, admin: Admin
) -> None:
    now_ms = now_of(node, _5M)
    starts = [now_ms - n * _5M for n in range(100, 0, -1) if n % 7]
    await admin.ok("POST", ROLLUPS, {"rows": [row(ms, messagesIn=1) for ms in starts]})
    found, at_ms, pages = [], now_ms - 100 * _5M, 0
    while at_ms:
        page = await admin.ok("GET", "/v1/analytics/5m", fromMs=at_ms, toMs=now_ms, limit=30)
        found += [each["startMs"] for each in page["items"]]
        at_ms, pages = page["next"], pages + 1
    assert found == starts
    assert pages == 4


async def test_each_period_shows_a_range_of_its_own_unless_told(
    node: RunningNode, admin: Admin
) -> None:
    ages = {"5m": (_DAY, _5M), "hour": (30 * _DAY, _HOUR), "day": (366 * _DAY, _DAY)}
    for period, (shown_ms, step_ms) in ages.items():
        old_ms = (node.node.clock.wall_ms() - shown_ms) // step_ms * step_ms
        rows = [row(old_ms + n * step_ms, period=period, hubs=n + 1) for n in (-1, 0, 1)]
        await admin.ok("POST", ROLLUPS, {"rows": rows})
        shown = await admin.ok("GET", f"/v1/analytics/{period}")
        assert [each["values"]["hubs"] for each in shown["items"]] == [2]
        told = await admin.ok("GET", f"/v1/analytics/{period}", fromMs=old_ms)
        assert [each["values"]["hubs"] for each in told["items"]] == [1, 2]


async def test_rows_too_old_to_be_kept_are_skipped_and_counted(
    node: RunningNode, admin: Admin
) -> None:
    now_ms = now_of(node, _DAY)
    old = [now_ms - 91 * _DAY, now_ms - 4 * 366 * _DAY]
    rows = [row(ms, period=period) for ms in old for period in ("5m", "hour", "day")]
    assert await admin.ok("POST", ROLLUPS, {"rows": rows}) == {"stored": 3, "skipped": 3}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"period": "week"}, "rows[0].period"),
        ({"startMs": 1}, "rows[0].startMs"),
        ({"startMs": 300_000 * 10**9}, "rows[0].startMs"),
        ({"startMs": -300_000}, "rows[...].startMs"),
        ({"hub": "no such/hub"}, "hub"),
        ({"values": {"messagesIn": -1}}, "rows[...].values.messagesIn"),
        ({"values": {"messagesIn": "5"}}, "rows[...].values.messagesIn"),
        ({"values": {"visitors": 5}}, "rows[...].values"),
        ({"extra": 1}, "rows[...]"),
    ],
)
async def test_a_row_that_breaks_a_rule_is_refused_and_named(
    node: RunningNode, admin: Admin, change: dict[str, Any], field: str
) -> None:
    good = row(now_of(node, _5M), messagesIn=1)
    status, problem = await admin.refused("POST", ROLLUPS, {"rows": [good | change]})
    assert status == 400
    assert problem["field"].replace("[0]", "[...]") == field.replace("[0]", "[...]")
    assert (await admin.ok("GET", "/v1/analytics/5m"))["items"] == []


async def test_one_bad_row_keeps_the_whole_batch_out(node: RunningNode, admin: Admin) -> None:
    now_ms = now_of(node, _5M)
    rows = [row(now_ms, messagesIn=1), row(now_ms + 1, messagesIn=1)]
    status, problem = await admin.refused("POST", ROLLUPS, {"rows": rows})
    assert (status, problem["field"]) == (400, "rows[1].startMs")
    assert (await admin.ok("GET", "/v1/analytics/5m"))["items"] == []


async def test_a_batch_is_bounded(node: RunningNode, admin: Admin) -> None:
    now_ms = now_of(node, _5M)
    rows = [row(now_ms - n * _5M) for n in range(1_001)]
    status, problem = await admin.refused("POST", ROLLUPS, {"rows": rows})
    assert (status, problem["code"]) == (413, Code.BATCH_TOO_LARGE)
    assert (await admin.ok("POST", ROLLUPS, {"rows": rows[:1_000]}))["stored"] == 1_000
    assert await admin.ok("POST", ROLLUPS, {"rows": []}) == {"stored": 0, "skipped": 0}


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/v1/analytics/week", {}, 400),
        ("/v1/analytics/5m", {"fromMs": 2_000, "toMs": 1_000}, 400),
        ("/v1/analytics/5m", {"fromMs": 2**53}, 400),
        ("/v1/analytics/5m", {"limit": 1_501}, 400),
        ("/v1/hubs/a%20b/analytics/5m", {}, 400),
    ],
)
async def test_a_question_that_breaks_a_rule_is_refused(
    admin: Admin, path: str, query: dict[str, Any], status: int
) -> None:
    assert (await admin.refused("GET", path, **query))[0] == status


async def test_batches_that_come_at_once_lose_nothing() -> None:
    clock = FakeClock(start_wall_ms=1_794_819_600_000)

    class Slow(MemoryKeyValueStore):
        """Lets others run between reading and writing."""

        async def get(self, hub: str, key: str) -> bytes | None:
            found = await super().get(hub, key)
            await asyncio.sleep(0)
            return found

    analytics = Analytics(Slow(clock), clock)
    batches = [
        [
            RollupRow(
                period="5m", hub="", start_ms=1_794_819_600_000 + n * _5M, values=Rollup(hubs=n)
            )
        ]
        for n in range(12)
    ]
    await asyncio.gather(*(analytics.store(batch) for batch in batches))
    clock.advance(3_600)
    page = await analytics.page("5m", limit=1_500)
    assert [point.values.hubs for point in page.items] == list(range(12))
