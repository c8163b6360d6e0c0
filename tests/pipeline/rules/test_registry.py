"""Which rules run, and when a change of them starts the query anew. No Spark."""

from typing import Any

import msgspec
import pytest

from arauto.correlation.compiler import compile_rule
from arauto.correlation.program import Program
from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import CorrelationRecord
from arauto.pipeline.rules import compile as compiling
from arauto.pipeline.rules import registry
from arauto.pipeline.rules.compile import by_ref, state_ref, takes_window
from arauto.pipeline.rules.registry import kinds_of, rule_set
from arauto.pipeline.rules.reload import (
    BATCH_S,
    GAP_S,
    GATHER_S,
    Turn,
    changed_hubs,
    had_its_turn,
    look,
    restarted,
)
from tests.pipeline.rules.support import RULES, programs

_TEXT = "rule: {name}\nversion: 1\nmatch: payload.a > 1\nemit: {{channel: alerts, payload: {{}}}}\n"


def _record(name: str, hub: str = "shop", **more: object) -> CorrelationRecord:
    fields = {"text": _TEXT.format(name=name), "enabled": True, "version": "1"} | more
    return msgspec.convert({"hub": hub, "id": name, **fields}, CorrelationRecord)


def test_one_bad_rule_does_not_keep_others_from_running() -> None:
    found = rule_set(
        [_record("good"), _record("bad", text="rule: ["), _record("off", enabled=False)]
    )
    assert [program.rule for program in found.programs] == ["good"]
    assert list(found.problems) == ["shop/bad"]
    # The bad one is part of what is compared: mending it is a change.
    assert {name for _, name, _ in found.fingerprint} == {"good", "bad"}


def test_the_kinds_of_rows_that_rules_need_include_heartbeats() -> None:
    ends = _TEXT.format(name="b").replace("match", "from: {kinds: [session_end]}\nmatch")
    found = rule_set([_record("a"), _record("b", text=ends)])
    assert kinds_of(found.programs) == (1, 3, 8)


def test_rules_beyond_the_most_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RULES_MAX", 2)
    found = rule_set([_record(name) for name in ("c", "a", "b")])
    assert [program.rule for program in found.programs] == ["a", "b"]
    assert list(found.problems) == ["shop/c"]


def test_a_hub_with_very_many_rules_does_not_displace_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "RULES_MAX", 5)
    many = [_record(f"r{n}", hub="aaa") for n in range(9)]
    others = [_record(name, hub=hub) for hub in ("mall", "shop") for name in ("x",)]
    for records in (many + others, others + many[::-1]):
        found = rule_set(records)
        chosen = [f"{program.hub}/{program.rule}" for program in found.programs]
        assert chosen == ["aaa/r0", "aaa/r1", "aaa/r2", "mall/x", "shop/x"]
        assert list(found.problems) == [f"aaa/r{n}" for n in range(3, 9)]


def test_too_many_programs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "RULES_MAX", 3)
    with pytest.raises(ArautoError, match="at most 3") as caught:
        by_ref(programs())
    assert caught.value.code is Code.BAD_RULE


def test_state_is_kept_under_what_the_rule_does() -> None:
    [one] = programs(_TEXT.format(name="r"))
    [other] = programs(_TEXT.format(name="r").replace("> 1", "> 2"))
    assert one.ref == other.ref
    assert state_ref(one) != state_ref(other)


def test_only_plain_totals_are_left_to_the_aggregation() -> None:
    assert [program.rule for program in programs(RULES) if takes_window(program)] == ["busy"]


def test_a_rule_is_compiled_once_however_often_the_node_is_asked_also_if_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []

    def count(hub: str, rule: Any) -> Program:
        compiled.append(hub)
        return compile_rule(hub, rule)

    monkeypatch.setattr(registry, "compile_rule", count)
    good = [_record("r", hub=f"once-{n}") for n in range(10)]
    bad = _record("r", hub="once-bad", text="rule: [")
    first = rule_set([*good, bad])
    assert (len(first.programs), set(first.problems)) == (10, {"once-bad/r"})
    assert rule_set([*good, bad]) == first
    assert len(compiled) == 10
    # The same text in another hub is another rule, and so is another text.
    changed = _record("r", hub="once-0", text=good[0].text.replace("> 1", "> 2"))
    rule_set([_record("r", hub="once-10"), changed])
    assert compiled[10:] == ["once-0", "once-10"]


def test_changes_are_gathered_and_restarts_kept_apart() -> None:
    one, two = frozenset({("h", "a", "1")}), frozenset({("h", "a", "2")})
    watch = restarted(one, 100.0)
    assert look(watch, one, 500.0) == (watch, False)
    watch, due = look(watch, two, 101.0)
    assert not due
    # Gathered for long enough, but too soon after the last start.
    watch, due = look(watch, two, 101.0 + GATHER_S)
    assert not due
    assert look(watch, two, 100.0 + GAP_S)[1]
    # Changed back meanwhile: nothing to do.
    watch, due = look(watch, one, 100.0 + GAP_S)
    assert not due
    assert watch.changed_s is None


def test_changes_of_a_hub_that_nobody_waits_for_start_nothing_and_come_with_those_of_others() -> (
    None
):
    one, two = ("hasty", "a", "1"), ("hasty", "a", "2")
    calm, erased = ("calm", "b", "1"), ("hasty", "", "erased 7")
    passing = frozenset({"hasty"})
    watch = restarted(frozenset({one}), 0.0)
    watch, due = look(watch, frozenset({two}), 100.0, passing)
    assert (watch.changed_s, due) == (None, False)
    assert look(watch, frozenset({two}), 900.0, passing) == (watch, False)
    for other in (calm, erased):
        waiting, due = look(watch, frozenset({two, other}), 900.0, passing)
        assert (waiting.changed_s, due) == (900.0, False)
        assert look(waiting, frozenset({two, other}), 900.0 + GATHER_S, passing)[1]
    # It is waited for again.
    watch, _ = look(watch, frozenset({two}), 900.0)
    assert look(watch, frozenset({two}), 900.0 + GATHER_S)[1]
    assert changed_hubs(frozenset({one, calm}), frozenset({two, calm, erased})) == {"hasty", ""}


def test_changes_in_many_hubs_cut_off_no_batch_before_one_is_done() -> None:
    batch_s = 5 * GAP_S
    watch = restarted(frozenset(), 0.0)
    before = done = restarts = 0
    began_s = 0.0
    # Each second a rule of another hub is changed.
    for second in range(1, 1_001):
        if second - began_s >= batch_s:
            done, began_s = done + 1, float(second)
        wanted = frozenset({(f"h{second}", "a", "1")})
        watch, due = look(watch, wanted, float(second))
        if due and had_its_turn(watch, Turn(True, before, done), float(second)):
            watch, before, began_s = restarted(wanted, float(second)), done, float(second)
            restarts += 1
    assert restarts == done == 1_000 // batch_s


def test_rules_take_effect_at_once_where_no_batch_is_under_way_and_in_one_that_does_not_end() -> (
    None
):
    watch = restarted(frozenset(), 0.0)
    assert had_its_turn(watch, Turn(False, 3, 3), 1.0)
    assert not had_its_turn(watch, Turn(True, 3, 3), BATCH_S - 1)
    assert had_its_turn(watch, Turn(True, 3, 3), BATCH_S)
    assert had_its_turn(watch, Turn(True, None, 0), 1.0)
