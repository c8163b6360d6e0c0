"""A stream stops where a rule was set that whoever reads it does not know; and what that rule then sees."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.rules.since import Since, find_since, not_before, starting_place
from arauto.pipeline.source.gate import (
    Gate,
    before_unknown,
    open_gate,
    read_gate,
    unknown_changes,
)
from arauto.pipeline.source.journal import Journal
from arauto.storage import segments
from arauto.storage.base import JournalEntry, Kind
from tests.pipeline.feed import T0, Feed, beat, message

_ENDS = {"n1": 9, "n2": 4}


def _audit(at_s: float, operation: str, target: str, outcome: str = "ok") -> JournalEntry:
    details = {"operation": operation, "target": target, "outcome": outcome, "by": "http ::1"}
    return JournalEntry(
        kind=Kind.AUDIT,
        ts_ms=T0 + int(at_s * 1_000),
        hub="shop",
        content_type="application/json",
        payload=msgspec.json.encode(details),
    )


@pytest.fixture
def journal(any_feed: Feed) -> Iterator[Journal]:
    any_feed.write(
        message(1),
        _audit(2, "correlation.set", "refused", "BAD_RULE"),
        _audit(3, "correlation.delete", "gone"),
        _audit(4, "rules.set", "chat"),
        JournalEntry(kind=Kind.AUDIT, ts_ms=T0, hub="shop", payload=b"odd"),
        message(5),
        _audit(100, "correlation.set", "early"),
        message(101),
        # A clock that was set back does not matter on the node itself.
        _audit(90, "correlation.set", "late"),
    )
    any_feed.write(message(6), message(30), message(95), message(200), node="n2")
    with contextlib.closing(Journal(any_feed.url, any_feed.segments, frozenset())) as opened:
        yield opened


def test_a_batch_ends_before_a_rule_that_is_not_known_and_other_nodes_wait(
    journal: Journal,
) -> None:
    assert before_unknown(journal, {}, _ENDS, Gate()) == {"n1": 6}
    assert before_unknown(journal, {"n1": 6, "n2": 1}, _ENDS, Gate()) == {"n1": 6, "n2": 1}
    assert before_unknown(journal, {"n1": 2, "n2": 1}, _ENDS, Gate({"n1": 8})) == {"n1": 8, "n2": 1}
    assert before_unknown(journal, {}, _ENDS, Gate({"n1": 9})) == _ENDS
    assert before_unknown(journal, {}, {"n1": 6, "n2": 4}, Gate()) == {"n1": 6, "n2": 4}


def test_changes_are_noticed_also_when_a_rule_is_deleted(journal: Journal) -> None:
    [gone] = unknown_changes(journal, {"n1": 2, "n2": 4}, {"n1": 3, "n2": 4})
    assert (gone.hub, gone.rule, gone.is_set) == ("shop", "gone", False)
    assert not unknown_changes(journal, {"n1": 3}, {"n1": 6, "n2": 4})


def test_nobody_stops_for_a_hub_that_is_to_be_passed(journal: Journal) -> None:
    assert before_unknown(journal, {}, _ENDS, Gate(passing=frozenset({"shop"}))) == _ENDS
    assert before_unknown(journal, {}, _ENDS, Gate(passing=frozenset({"other"}))) == {"n1": 6}


def test_a_gate_that_cannot_be_read_lets_nothing_pass(tmp_path: Path) -> None:
    path = tmp_path / "new" / "gate.json"
    assert read_gate(path) == Gate()
    gate = Gate({"n1": 3}, frozenset({"shop"}))
    open_gate(path, gate)
    assert read_gate(path) == gate
    # As it was written by earlier versions.
    path.write_text('{"n1": 3}')
    assert read_gate(path) == Gate()
    path.write_text("{")
    assert read_gate(path) == Gate()


def test_a_rule_sees_what_was_written_after_it_was_set(journal: Journal) -> None:
    early, late = ("shop", "early"), ("shop", "late")
    since = find_since(journal, [early, late, ("shop", "refused"), ("other", "early")])
    assert since == {
        early: Since("n1", 7, T0 + 100_000),
        late: Since("n1", 9, T0 + 90_000),
    }
    assert not since[late].covers("n1", 9, T0 + 999_000)
    assert since[late].covers("n1", 10, T0)
    assert since[late].covers("n2", 1, T0 + 90_000)
    assert not since[late].covers("n2", 99, T0 + 89_999)
    # Clocks of other nodes may differ by a minute.
    assert starting_place(journal, [early, late], since) == {"n1": 7, "n2": 1}
    assert starting_place(journal, [late], since) == {"n1": 9, "n2": 1}
    # One that was set before all that is kept sees all of it.
    assert starting_place(journal, [late, ("shop", "old")], since) == {"n1": 0, "n2": 0}


def test_a_rule_is_found_also_where_its_row_has_left_the_database(
    journal: Journal, any_feed: Feed
) -> None:
    any_feed.export()
    any_feed.trim(8)
    assert before_unknown(journal, {}, _ENDS, Gate()) == {"n1": 6}
    assert unknown_changes(journal, {"n1": 2}, {"n1": 3})
    early, late = ("shop", "early"), ("shop", "late")
    since = find_since(journal, [early, late])
    assert (since[early].seq, since[late].seq) == (7, 9)
    assert starting_place(journal, [early, late], since) == {"n1": 7, "n2": 1}


def test_a_rule_that_was_passed_sees_what_comes_behind_the_rows_that_were_planned_without_it(
    journal: Journal,
) -> None:
    early, late, old = ("shop", "early"), ("shop", "late"), ("shop", "old")
    since = find_since(journal, [early, late]) | {old: None}
    assert not_before(journal, since, {}) == since
    # One that is waited for is at most the next row.
    assert not_before(journal, since, {"n1": 6, "n2": 4}) == since
    assert not_before(journal, since, {"n1": 8, "n2": 4}) == since | {
        early: Since("n1", 8, T0 + 101_000)
    }


def test_finding_where_to_start_costs_no_more_for_hundreds_of_rules_than_for_one(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch = journal._source.fetch

    def counted(sql: str, *params: Any) -> list[Sequence[Any]]:
        asked.append(sql)
        return fetch(sql, *params)

    monkeypatch.setattr(journal._source, "fetch", counted)
    costs = []
    for rules in (1, 300):
        asked.clear()
        since = {("shop", f"r{n}"): Since("n1", 7, T0 + 100_000 + n) for n in range(rules)}
        assert starting_place(journal, since, since) == {"n1": 7, "n2": 2}
        assert not_before(journal, since, {"n1": 8})["shop", "r0"] == Since("n1", 8, T0 + 101_000)
        costs.append(len(asked))
    assert costs[1] <= costs[0], costs


@pytest.mark.parametrize("checksum", [True, False], ids=["with checksum", "older"])
def test_a_damaged_segment_keeps_no_rule_from_starting_and_lets_no_stream_pass(
    journal: Journal, any_feed: Feed, monkeypatch: pytest.MonkeyPatch, *, checksum: bool
) -> None:
    monkeypatch.setattr("arauto.pipeline.rules.since._LOOK_ROWS", 2)
    any_feed.export(rows_max=2)
    any_feed.trim(8)
    segment = segments.segments(any_feed.segments, "n1")[2]
    segment.path.write_bytes(segment.path.read_bytes()[:-9])
    if not checksum:
        segment.path.rename(any_feed.segments / "seg-n1-5-6.parquet")
    rules = [("shop", "early"), ("shop", "late"), ("shop", "old")]
    # Who was set before that is taken for older than all that is kept.
    assert find_since(journal, rules) == {
        rules[0]: Since("n1", 7, T0 + 100_000),
        rules[1]: Since("n1", 9, T0 + 90_000),
    }
    with pytest.raises(ArautoError) as raised:
        before_unknown(journal, {}, _ENDS, Gate())
    assert raised.value.code is Code.STORAGE_CORRUPT


def test_segments_that_expire_while_a_rule_is_looked_for_keep_it_from_nothing(
    journal: Journal, any_feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    any_feed.export(rows_max=2)
    any_feed.trim(8)
    listed = segments.segments(any_feed.segments, "n1")
    monkeypatch.setattr(segments, "segments", lambda directory, node: listed)
    listed[0].path.unlink()
    assert find_since(journal, [("shop", "late"), ("shop", "old")]).keys() == {("shop", "late")}


@pytest.mark.parametrize("harm", ["damaged", "overlaps", "goes"])
def test_a_segment_of_a_node_that_is_gone_stops_nobody_who_asks_for_its_time_alone(
    journal: Journal, any_feed: Feed, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    any_feed.write(*(beat(at_s) for at_s in (6, 30, 95, 200)), node="n3")
    any_feed.export("n3")
    any_feed.trim(4, "n3")
    listed = segments.segments(any_feed.segments, "n3")
    [segment] = listed
    if harm == "damaged":
        segment.path.write_bytes(b"no")
    elif harm == "overlaps":
        (any_feed.segments / "seg-n3-2-9.parquet").write_bytes(b"no")
    else:
        monkeypatch.setattr(segments, "segments", lambda directory, node: listed)
        segment.path.unlink()
    early = ("shop", "early")
    since = {early: Since("n1", 7, T0 + 100_000)}
    # Rows whose times cannot be known are passed over here; reading them is refused.
    assert starting_place(journal, [early], since) == {"n1": 7, "n2": 2, "n3": 4}
    assert journal.settled_ms({"n1": 8, "n3": 4}) == T0 + 101_000
