"""Which rules run, and when a change of them starts the query anew. No Spark."""

import msgspec
import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import CorrelationRecord
from arauto.pipeline.rules import compile as compiling
from arauto.pipeline.rules import registry
from arauto.pipeline.rules.compile import by_ref, state_ref, takes_window
from arauto.pipeline.rules.registry import kinds_of, rule_set
from arauto.pipeline.rules.reload import GAP_S, GATHER_S, look, restarted
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
