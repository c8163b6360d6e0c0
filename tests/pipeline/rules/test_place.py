"""Where a rules' query is in the journal: for whom its stream waits, and from where its rules see rows."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.program import Program
from arauto.pipeline.rules.known import known_path, read_known, shown
from arauto.pipeline.rules.patience import EVERY_S, WAITS, Patience
from arauto.pipeline.rules.place import RulePlace
from arauto.pipeline.rules.registry import RuleSet
from arauto.pipeline.rules.since import Since
from arauto.pipeline.source.gate import Gate, before_unknown, read_gate
from arauto.pipeline.source.journal import Journal, RuleChange
from arauto.storage import segments
from arauto.storage.base import JournalEntry, Kind
from tests.pipeline.feed import T0, Feed, message

_TEXT = "rule: {}\nversion: {}\nmatch: payload.a > 1\nemit: {{channel: alerts, payload: {{}}}}\n"


def _set(at_s: float, rule: str, hub: str = "shop") -> JournalEntry:
    details = {"operation": "correlation.set", "target": rule, "outcome": "ok"}
    return JournalEntry(
        kind=Kind.AUDIT,
        ts_ms=T0 + int(at_s * 1_000),
        hub=hub,
        content_type="application/json",
        payload=msgspec.json.encode(details),
    )


def _held(*rules: tuple[str, str, int]) -> tuple[RuleSet, Mapping[str, Program]]:
    """What a node holds of such rules (hub, name, version), and what is run of that."""
    programs = [compile_rule(hub, load_rule(_TEXT.format(*rest))) for hub, *rest in rules]
    prints = frozenset((hub, rule, f"v{version}") for hub, rule, version in rules)
    return RuleSet(tuple(programs), prints), {each.rule: each for each in programs}


def _batch(checkpoint: Path, number: int, upto: dict[str, int], *, done: bool) -> None:
    """As Spark writes it down."""
    for name, lines in (("offsets", ["v1", "{}", msgspec.json.encode(upto).decode()]),) + (
        (("commits", ["v1", "{}"]),) if done else ()
    ):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / str(number)).write_text("\n".join(lines), encoding="utf-8")


class _Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_stream_waits_for_a_hub_so_many_times_and_then_passes_its_changes_alone(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, told = _Now(), list[int]()
    feed.write(message(1))
    checkpoint = tmp_path / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments, Patience(now), told.append)
    last = 1

    def stops() -> bool:
        """Whether a batch that would go to the end does not."""
        journal = Journal(feed.url, feed.segments, frozenset())
        try:
            return before_unknown(journal, {"n1": 0}, {"n1": last}, read_gate(place.gate)) != {
                "n1": last
            }
        finally:
            journal.close()

    def change(hub: str) -> bool:
        nonlocal last
        feed.write(_set(last, "a", hub))
        last += 1
        waits = stops()
        assert place.is_news() is waits
        place.settle([hub] if waits else [])
        assert not stops()
        return waits

    assert place.is_news()
    place.settle()
    # The clock of how long ago the node was asked does not matter here.
    monkeypatch.setattr("arauto.pipeline.rules.place._ASK_S", 3_600.0)
    assert [change("hasty") for _ in range(WAITS + 3)] == [True] * WAITS + [False] * 3
    assert read_known(checkpoint).passing == {"hasty"}
    assert change("calm")
    now.s += EVERY_S
    assert not place.is_news()
    assert told == [1, 0]
    assert [change("hasty"), change("hasty")] == [True, False]


def test_a_rule_that_runs_before_the_journal_tells_of_it_costs_its_hub_no_second_wait(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.pipeline.rules.patience.WAITS", 1)
    monkeypatch.setattr("arauto.pipeline.rules.place._ASK_S", 3_600.0)
    feed.write(message(1))
    checkpoint = tmp_path / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    assert place.is_news()
    # The node holds it already; now the journal tells of it too.
    feed.write(_set(2, "a"))
    place.begin(*_held(("shop", "a", 1)))
    place.settle()
    assert place.is_news(), "it may be a later one than the node was asked for"
    place.settle()
    assert not place.is_news()
    assert read_gate(place.gate) == Gate({"n1": 2}, frozenset())
    # The next change of the same rule is one.
    feed.write(_set(3, "a"))
    assert place.is_news()
    place.settle()
    assert read_gate(place.gate) == Gate({"n1": 3}, frozenset({"shop"}))


def test_a_pipeline_that_cannot_take_up_a_change_yet_is_there_and_looks_at_no_row_twice(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.write(message(1))
    checkpoint = tmp_path / "_checkpoints" / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    assert place.is_news()
    place.begin(*_held(("shop", "a", 1)))
    place.settle()
    looked: list[tuple[int, int]] = []
    rule_changes = Journal.rule_changes

    def counted(self: Journal, node: str, after: int, upto: int) -> list[RuleChange]:
        looked.append((after, upto))
        return rule_changes(self, node, after, upto)

    monkeypatch.setattr(Journal, "rule_changes", counted)
    monkeypatch.setattr("arauto.pipeline.rules.place._ASK_S", 3_600.0)
    # A batch is under way, which takes minutes.
    for n in range(2, 5):
        feed.write(_set(n, f"b{n}") if n == 2 else message(n))
        os.utime(known_path(checkpoint), (0, 0))
        assert place.is_news(), "what waits stays news"
        doing = shown(tmp_path, [("shop", "b2", "v1")])
        assert doing["shop", "b2"].state == "starting"
    assert looked == [(1, 2), (2, 3), (3, 4)]
    place.settle()
    assert not place.is_news()


def test_no_stream_passes_a_rule_that_was_set_again_while_the_one_before_was_taken_up(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.pipeline.rules.place._ASK_S", 3_600.0)
    feed.write(message(1))
    checkpoint = tmp_path / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    assert place.is_news()
    # Version 1 is what the node answered; the query before it took its time to end.
    feed.write(_set(2, "a"), _set(3, "a"), message(4))
    place.begin(*_held(("shop", "a", 1)))
    place.settle()
    assert place.is_news()
    journal = Journal(feed.url, feed.segments, frozenset())
    assert before_unknown(journal, {"n1": 1}, {"n1": 4}, read_gate(place.gate)) == {"n1": 1}
    journal.close()
    place.settle(["shop"])
    since, _ = place.begin(*_held(("shop", "a", 2)))
    assert since["a"].seq == 3


def test_a_rule_that_was_passed_begins_behind_what_is_planned_and_one_that_runs_stays_where_it_is(
    feed: Feed, tmp_path: Path
) -> None:
    feed.write(_set(1, "old"), message(2), _set(3, "new"), message(4), message(5))
    checkpoint = tmp_path / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    old, new = ("shop", "old", 1), ("shop", "new", 1)
    since, starting = place.begin(*_held(old))
    assert (since, starting) == ({"old": Since("n1", 1, T0 + 1_000)}, '{"n1":1}')
    _batch(checkpoint, 0, {"n1": 4}, done=False)
    since, _ = place.begin(*_held(old, new))
    assert (since["old"].seq, since["new"].seq) == (1, 4)
    # So it stays, also when the batch is done.
    _batch(checkpoint, 0, {"n1": 4}, done=True)
    _batch(checkpoint, 1, {"n1": 5}, done=False)
    since, _ = place.begin(*_held(old, new))
    assert (since["old"].seq, since["new"].seq) == (1, 4)


def test_what_has_expired_is_looked_for_behind_the_last_batch_that_is_done(
    feed: Feed, tmp_path: Path
) -> None:
    feed.write(*(message(n) for n in range(8)))
    feed.export(rows_max=2)
    feed.trim(8)
    for segment in segments.segments(feed.segments, "n1")[:3]:
        segment.path.unlink()
    checkpoint, seen = tmp_path / "rules" / "v1", {"n1": ((1, 8),)}
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    assert place.expired('{"n1":1}', seen) == {"n1": ((2, 6),)}
    _batch(checkpoint, 0, {"n1": 3}, done=True)
    _batch(checkpoint, 1, {"n1": 5}, done=False)
    assert place.expired('{"n1":1}', seen) == {"n1": ((4, 6),)}


@pytest.mark.parametrize("kept", [None, b"{", b"[]", b'{"rules": 7}'])
def test_rules_miss_no_row_of_a_batch_that_is_done_again_though_what_was_known_of_them_is_lost(
    feed: Feed, tmp_path: Path, kept: bytes | None
) -> None:
    feed.write(_set(1, "old"), message(2), message(3))
    checkpoint = tmp_path / "rules" / "v1"
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    place.begin(*_held(("shop", "old", 1)))
    _batch(checkpoint, 0, {"n1": 3}, done=False)
    path = known_path(checkpoint)
    path.unlink() if kept is None else path.write_bytes(kept)
    since, _ = place.begin(*_held(("shop", "old", 1)))
    assert since["old"].seq == 1


def test_what_an_earlier_version_knew_is_read_and_what_a_later_one_adds_is_passed_over(
    feed: Feed, tmp_path: Path
) -> None:
    feed.write(message(1))
    checkpoint = tmp_path / "rules" / "v1"
    known_path(checkpoint).parent.mkdir(parents=True)
    place = RulePlace(checkpoint, lambda: feed.url, feed.segments)
    rule = '{"hub":"shop","rule":"old","version":"v1","since":{"node":"n9","seq":7,"ts_ms":8}%s}'
    for rest, more in (("", ""), (',"x":1', ',"passing":["hasty"],"y":2')):
        known_path(checkpoint).write_text(
            f'{{"rules":[{rule % rest}],"problems":{{}},"runningMs":5{more}}}', encoding="utf-8"
        )
        assert read_known(checkpoint).passing == ({"hasty"} if more else frozenset())
        since, _ = place.begin(*_held(("shop", "old", 1)))
        assert since == {"old": Since("n9", 7, 8)}
    # Nobody is passed before somebody changes rules too often.
    assert read_known(checkpoint).passing == frozenset()
