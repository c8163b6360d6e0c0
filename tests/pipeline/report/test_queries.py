"""Numbers of a report, from a small lake."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.retention import REMOVED
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.report.model import ChannelRow, Peak, Ranked, RuleRow
from arauto.pipeline.report.queries import STEPS, _quality, _Source, make_report, step_for
from arauto.pipeline.report.summary import lead
from arauto.pipeline.rollup.partial import partial_rollups
from arauto.pipeline.schemas import TABLES
from arauto.storage.base import Kind
from tests.pipeline.report.samples import HOUR_MS, MONDAY_MS

DAY_MS = 24 * HOUR_MS


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def frame(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> DataFrame:
    columns = TABLES[name].columns
    filled: list[dict[str, Any]] = [
        {"node": "n1", "seq": seq, "hub": "shop"} | row for seq, row in enumerate(rows, 1)
    ]
    for row in filled:
        if isinstance(row.get("ts"), int):
            row["ts"] = moment(row["ts"])
    return spark.createDataFrame(
        [tuple(row.get(name) for name in columns.names) for row in filled], columns
    )


def counters(at_ms: int, hub: str, messages_in: int) -> dict[str, Any]:
    body = {
        "startMs": at_ms, "endMs": at_ms + 60_000, "sessionsPeak": 7,
        "total": {"messagesIn": messages_in, "deliveries": 3 * messages_in, "bytesIn": 10, "bytesOut": 30},
    }  # fmt: skip
    return {
        "ts": at_ms + 60_000, "kind": int(Kind.COUNTERS), "hub": hub, "channel": "", "user": "",
        "payload": json.dumps(body).encode(),
    }  # fmt: skip


def ended(at_ms: int, duration_ms: int) -> dict[str, Any]:
    body = json.dumps({"durationMs": duration_ms, "code": 5000}).encode()
    return {"ts": at_ms, "kind": int(Kind.SESSION_END), "channel": "", "user": "u", "payload": body}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(spark, Path(tmp_path_factory.mktemp("lake")))
    t = MONDAY_MS
    journal = [
        counters(t - HOUR_MS, "shop", 50),
        counters(t, "shop", 100),
        counters(t + 3 * HOUR_MS, "shop", 20),
        counters(t, "mall", 7),
        counters(t, "", 107),
        ended(t + 1_000, 1_000),
        ended(t + 2_000, 3_000),
        # Stored by a node that was killed before it wrote its counters.
        *(
            {
                "ts": t - 3 * DAY_MS + n,
                "kind": int(Kind.MESSAGE),
                "channel": "a",
                "payload": b"12345",
            }
            for n in range(2)
        ),
    ]
    messages = [
        {"ts": t + 61_000, "channel": "a", "user": "ann", "size_bytes": 5},
        {"ts": t + 62_000, "channel": "a", "user": "ann", "size_bytes": 5},
        {"ts": t + 63_000, "channel": "b", "user": "bob", "size_bytes": 1},
        {"ts": t + 600_000, "channel": "b", "user": "", "size_bytes": 1},
        {"ts": t + DAY_MS, "channel": "late", "user": "x", "size_bytes": 1},
        {"ts": t + 61_000, "channel": "a", "user": "eve", "size_bytes": 9, "hub": "mall"},
    ]
    counted = [
        (t - HOUR_MS, "shop", 50),
        (t, "shop", 100),
        (t + 3 * HOUR_MS, "shop", 20),
        (t, "", 107),
    ]
    others = {
        "counters": frame(
            spark, "counters",
            [
                {"ts": at + 300_000, "started": moment(at), "hub": hub, "publishes": n}
                for at, hub, n in counted
            ],
        ),
        "rollup_5m": partial_rollups(frame(spark, "journal", journal)),
        "messages": frame(spark, "messages", messages),
        "session_starts": frame(spark, "session_starts", [{"ts": t + 5 * HOUR_MS}, {"ts": t + 5 * HOUR_MS}]),
        "refusals": frame(
            spark, "refusals",
            [{"ts": t, "name": "RATE_LIMITED", "left_out": 4}, {"ts": t, "name": "BAD_FIELD"}],
        ),
        "matches": frame(spark, "matches", [{"ts": t + 9, "rule": "r"}, {"ts": t + 5, "rule": "r"}]),
        "quarantine": frame(spark, "quarantine", [{"ts": t, "reason": "torn"}]),
    }  # fmt: skip
    for name, rows in others.items():
        assert lake.table(name).append(rows, query="test", batch_id=0)
    return lake


def test_a_hubs_report_has_its_numbers(lake: Lake) -> None:
    told: list[str] = []
    report = make_report(
        lake,
        from_ms=MONDAY_MS,
        to_ms=MONDAY_MS + DAY_MS,
        made_ms=0,
        hub="shop",
        on_step=told.append,
    )
    assert tuple(told) == STEPS
    now = report.now
    assert (now.messages_in, now.messages_out, now.bytes_out) == (120, 360, 60)
    assert (now.sessions_ended, now.duration_mean_ms, now.sessions_peak) == (2, 2_000.0, 7)
    assert now.rules_fired == 2
    assert report.before is not None
    assert report.before.messages_in == 50
    assert report.minutes[0] == Peak(MONDAY_MS + 60_000, 3, "a", 2)
    assert report.hours == (Peak(MONDAY_MS, 4, "b", 2),)
    assert report.channels == (ChannelRow("a", 2, 10), ChannelRow("b", 2, 2))
    assert report.users == (Ranked("ann", 2), Ranked("bob", 1))
    assert report.starts == {(0, 5): 2}
    assert report.errors == (Ranked("RATE_LIMITED", 5), Ranked("BAD_FIELD", 1))
    assert report.rules == (RuleRow("r", 2, MONDAY_MS + 9),)
    assert report.quality.quarantined == (Ranked("torn", 1),)


def test_a_report_is_about_whole_windows_also_if_the_times_asked_for_are_not(lake: Lake) -> None:
    from_ms, to_ms = MONDAY_MS + 62_500, MONDAY_MS + DAY_MS + 62_500
    report = make_report(lake, from_ms=from_ms, to_ms=to_ms, made_ms=0, hub="shop")
    assert (report.from_ms, report.to_ms) == (MONDAY_MS, MONDAY_MS + DAY_MS + 300_000)
    # Roll-ups and messages of the first window, from before `from_ms`, count; so does the step asked for.
    assert (report.now.messages_in, report.channels[0], report.step) == (
        120, ChannelRow("a", 2, 10), "5m",
    )  # fmt: skip
    assert "late" in {row.name for row in report.channels}


def test_an_empty_hub_is_not_all_hubs(lake: Lake) -> None:
    with pytest.raises(ArautoError) as caught:
        make_report(lake, from_ms=0, to_ms=HOUR_MS, made_ms=0, hub="")
    assert caught.value.code is Code.BAD_HUB_NAME


def test_data_quality_adds_up_more_than_it_lists(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    journal = lake.table("journal")
    # Every second place of 1 to 61 arrived: 30 gaps. Four of the rows were removed for their age.
    coverage = {"n1": tuple((seq, seq) for seq in range(1, 62, 2)), "n2": ((5, 9),)}
    written = journal.write(frame(spark, "journal", []), "test", 0)
    journal.commit(written, "test", 0, coverage=coverage, notes={f"{REMOVED}@n1": 4})
    reasons = [{"ts": MONDAY_MS, "reason": f"r{n:02}"} for n in range(12)]
    lake.table("quarantine").append(
        frame(spark, "quarantine", [*reasons, *reasons]), query="test", batch_id=0
    )
    quality = _quality(_Source(lake, MONDAY_MS, MONDAY_MS + DAY_MS, None))
    assert (quality.journal_rows, quality.missing_rows) == (31 - 4 + 5, 30)
    assert (len(quality.gaps), len(quality.quarantined)) == (20, 10)
    assert quality.quarantined_rows == 24


def test_points_keep_an_even_pace_over_idle_times(lake: Lake) -> None:
    report = make_report(lake, from_ms=MONDAY_MS, to_ms=MONDAY_MS + DAY_MS, made_ms=0, hub="shop")
    assert report.step == "5m"
    starts = [point.start_ms for point in report.points]
    assert starts == list(range(MONDAY_MS, MONDAY_MS + 3 * HOUR_MS + 1, 300_000))
    assert [p.messages_in for p in report.points if p.messages_in] == [100, 20]
    assert (report.points[0].p99_ms, report.points[1].p99_ms) == (3_000, None)


def test_all_hubs_together_name_the_hub_of_each_channel(lake: Lake) -> None:
    report = make_report(lake, from_ms=MONDAY_MS, to_ms=MONDAY_MS + DAY_MS, made_ms=0)
    assert report.now.messages_in == 107
    assert {row.name for row in report.channels} == {"shop / a", "shop / b", "mall / a"}
    assert Ranked("mall / eve", 1) in report.users


def test_messages_that_were_stored_count_as_published_also_where_counters_are_missing(
    lake: Lake,
) -> None:
    start_ms = MONDAY_MS - 3 * DAY_MS
    report = make_report(lake, from_ms=start_ms, to_ms=start_ms + DAY_MS, made_ms=0, hub="shop")
    assert (report.now.messages_in, report.points[0].messages_in) == (2, 2)
    assert (report.now.bytes_in, report.points[0].bytes_in) == (10, 10)


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake that a pipeline writes: two windows are counted, a third has messages and no counters yet."""
    lake = Lake(spark, tmp_path)
    t = MONDAY_MS
    stored = [
        {
            "ts": t + n * 60_000,
            "kind": int(Kind.MESSAGE),
            "channel": "a",
            "user": "u",
            "payload": b"1",
        }
        for n in range(14)
    ]
    rows = [
        row | {"hub": hub}
        for hub in ("shop", "")
        for row in (counters(t, "", 50), counters(t + 300_000, "", 70))
    ]
    counted = [
        {
            "ts": at + 300_000,
            "started": moment(at),
            "ended": moment(at + 299_990),
            "hub": hub,
            "publishes": count,
        }
        for hub in ("shop", "")
        for at, count in ((t, 50), (t + 300_000, 70))
    ]
    lake.table("rollup_5m").append(
        partial_rollups(frame(spark, "journal", [*rows, *stored])), query="test", batch_id=0
    )
    lake.table("counters").append(frame(spark, "counters", counted), query="test", batch_id=0)
    messages = [row | {"size_bytes": 1} for row in stored]
    lake.table("messages").append(frame(spark, "messages", messages), query="test", batch_id=0)
    return lake


def test_what_is_still_being_counted_is_left_out_and_told(running: Lake) -> None:
    made_ms = MONDAY_MS + 14 * 60_000
    report = make_report(running, from_ms=MONDAY_MS, to_ms=made_ms, made_ms=made_ms, hub="shop")
    assert (report.to_ms, report.cut_ms) == (MONDAY_MS + 600_000,) * 2
    assert [(p.messages_in, p.messages_out) for p in report.points] == [(50, 150), (70, 210)]
    assert report.channels == (ChannelRow("a", 10, 10),)
    assert "What happened from 00:10 on is left out" in str(lead(report))


def test_where_a_node_tells_nothing_for_long_nothing_is_waited_for(running: Lake) -> None:
    made_ms = MONDAY_MS + HOUR_MS
    report = make_report(running, from_ms=MONDAY_MS, to_ms=made_ms, made_ms=made_ms, hub="shop")
    assert report.cut_ms == 0
    assert [(p.messages_in, p.messages_out) for p in report.points] == [
        (50, 150),
        (70, 210),
        (4, 0),
    ]
    assert report.now.messages_in == 124


def test_all_parts_are_read_as_of_one_moment(
    spark: SparkSession, running: Lake, tmp_path: Path
) -> None:
    made_ms = MONDAY_MS + HOUR_MS
    batches = iter(range(1, 100))

    def write_on(step: str) -> None:
        """What a pipeline does while a report is made."""
        batch = next(batches)
        for name in ("messages", "counters"):
            more = [{"ts": MONDAY_MS + 60_000, "channel": "a", "user": "u", "size_bytes": 1}]
            if name == "counters":
                more = [{"ts": MONDAY_MS + 300_000, "started": moment(MONDAY_MS), "publishes": 999}]
            running.table(name).append(frame(spark, name, more), query="test", batch_id=batch)

    # The first step begins before anything was read.
    told = iter(STEPS)
    report = make_report(
        running,
        from_ms=MONDAY_MS,
        to_ms=made_ms,
        made_ms=made_ms,
        hub="shop",
        on_step=lambda step: None if next(told) == STEPS[0] else write_on(step),
    )
    assert report.now.messages_in == sum(point.messages_in for point in report.points) == 124
    assert report.channels == (ChannelRow("a", 14, 14),)


def test_a_time_of_which_nothing_is_known_gives_an_empty_report(lake: Lake) -> None:
    report = make_report(lake, from_ms=0, to_ms=HOUR_MS, made_ms=0, hub="shop")
    assert (report.points, report.before, report.channels) == ((), None, ())


@pytest.mark.parametrize(
    ("days", "step"), [(0.1, "5m"), (1, "5m"), (2, "hour"), (16, "hour"), (17, "day"), (400, "day")]
)
def test_the_step_grows_with_the_time(days: float, step: str) -> None:
    assert step_for(0, int(days * DAY_MS)) == step


@pytest.mark.parametrize(("from_ms", "to_ms"), [(5, 5), (6, 5), (0, 401 * DAY_MS)])
def test_times_that_make_no_report_are_refused(from_ms: int, to_ms: int) -> None:
    with pytest.raises(ArautoError) as caught:
        step_for(from_ms, to_ms)
    assert caught.value.code is Code.BAD_FIELD
