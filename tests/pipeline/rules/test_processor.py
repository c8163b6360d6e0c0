"""The processor without a cluster: one state per rule and key, one timer, nothing left behind."""

from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from arauto.correlation.program import Event, Program
from arauto.pipeline.rules import processor
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.compile import state_ref
from arauto.pipeline.rules.packing import SEPARATOR, pack
from arauto.pipeline.rules.processor import STATE_NAME, RuleProcessor, held_bytes
from tests.pipeline.rules.support import PAIR, programs

_SPIKE = """
rule: spike
version: 1
match: payload.price > 1
emit: {channel: alerts, payload: {}}
"""
_HOLD = """
rule: held
version: 1
hold: {start: payload.up = true, for: 5s}
emit: {channel: alerts, payload: {}}
"""


def _tester(*compiled: Program) -> TwsTester:
    by_state = {state_ref(program): program for program in compiled}
    # Late rows are the matcher's business: no time is taken from rows here.
    return TwsTester(
        RuleProcessor(Carried(by_state)), timeMode="EventTime", eventTimeExtractor=lambda _: 2**62
    )


def _subject(program: Program, key: str = "[]") -> str:
    return f"{state_ref(program)}{SEPARATOR}{key}"


def _event(subject: str, at_ms: int, bits: int, program: Program, *, settled_ms: int = 0) -> Row:
    nums, texts = (None,) * len(program.nums), (None,) * len(program.texts)
    event = Event(at_ms, "n1", at_ms, bits, nums, texts)
    return Row(subject=subject, packed=pack(event, settled_ms))


def _timers(tester: TwsTester, subject: str) -> list[int]:
    tester.handle.setGroupingKey(subject)
    return list(tester.handle.listTimers())


def _rules(rows: Any) -> list[str]:
    return [row["rule"] for row in rows]


def test_a_sequence_matches_once_the_watermark_has_passed_it() -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    tester.setWatermark(1_000)
    events = [_event(subject, 3_000, 2, pair), _event(subject, 2_000, 1, pair)]
    assert tester.test(subject, events) == []
    assert _rules(tester.setWatermark(4_000)) == ["pair"]
    assert tester.peekValueState(STATE_NAME, subject) is None
    assert _timers(tester, subject) == []


def test_what_the_source_knows_to_be_complete_is_matched_without_waiting_for_the_watermark() -> (
    None
):
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    tester.setWatermark(1_000)
    first = _event(subject, 2_000, 1, pair, settled_ms=3_500)
    second = _event(subject, 3_000, 2, pair, settled_ms=3_500)
    assert _rules(tester.test(subject, [second, first])) == ["pair"]
    # What follows at the very time up to which rows are complete has to wait.
    rest = [
        _event(subject, at_ms, at_ms // 4_000, pair, settled_ms=4_000) for at_ms in (3_999, 4_000)
    ]
    assert tester.test(subject, rest) == []
    # Time never goes back for a key, though timers go by the watermark.
    late = _event(subject, 3_200, 1, pair)
    [told] = tester.test(subject, [late])
    assert (told["id"], told["payload"]) == (None, "1")


def test_a_hold_fires_by_timer_when_nothing_more_comes() -> None:
    [held] = programs(_HOLD)
    tester, subject = _tester(held), _subject(held)
    tester.setWatermark(1_000)
    assert tester.test(subject, [_event(subject, 1_500, 1, held)]) == []
    assert tester.setWatermark(6_499) == []
    [fired] = tester.setWatermark(6_500)
    assert (fired["rule"], fired["ts"].timestamp()) == ("held", 6.5)


def test_a_key_never_has_more_than_one_timer() -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    for at_ms in range(1_000, 20_000, 700):
        tester.test(subject, [_event(subject, at_ms + 500, 1, pair)])
        assert len(_timers(tester, subject)) == 1
        tester.setWatermark(at_ms)


def test_a_stateless_rule_fires_at_once_and_remembers_nothing() -> None:
    [spike] = programs(_SPIKE)
    tester, subject = _tester(spike), _subject(spike)
    rows = [_event(subject, 5_000, 1, spike), _event(subject, 6_000, 0, spike)]
    assert [row["first_seq"] for row in tester.test(subject, rows)] == [5_000]
    assert tester.peekValueState(STATE_NAME, subject) is None


def test_state_of_a_rule_that_has_gone_goes_with_its_timer() -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    tester.test(subject, [_event(subject, 2_000, 1, pair)])
    tester.processor = RuleProcessor(Carried({}))
    tester.processor.init(tester.handle)
    assert tester.setWatermark(3_600_000) == []
    assert tester.peekValueState(STATE_NAME, subject) is None


def test_events_for_which_there_is_no_room_are_told() -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    told = tester.test(subject, [_event(subject, 1_000 + n, 1, pair) for n in range(14)])
    assert [(row["id"], row["payload"]) for row in told] == [(None, "4")]


def test_state_is_looked_at_within_a_day_however_far_its_deadline_is() -> None:
    [pair] = programs(PAIR.replace("within: 10s", "within: 7d"))
    tester, subject = _tester(pair), _subject(pair)
    tester.setWatermark(1_000)
    tester.test(subject, [_event(subject, 500, 1, pair)])
    assert _timers(tester, subject) == [1_000 + 24 * 3_600_000]


def test_a_hub_that_holds_as_much_as_it_may_takes_no_more_until_time_has_made_room() -> None:
    [pair] = programs(PAIR)
    tester, subject, other = _tester(pair), _subject(pair), _subject(pair, '["b"]')
    tester.processor = RuleProcessor(Carried({state_ref(pair): pair}), hub_bytes_max=1)
    tester.processor.init(tester.handle)
    tester.setWatermark(1_000)
    assert tester.test(subject, [_event(subject, 2_000, 1, pair)]) == []
    [told] = tester.test(other, [_event(other, 2_000, 1, pair), _event(other, 2_500, 1, pair)])
    assert (told["channel"], told["payload"]) == ("hub_full", "2")
    assert tester.peekValueState(STATE_NAME, other) is None
    # What is there goes with its time, and then there is room.
    tester.setWatermark(20_000)
    assert tester.test(other, [_event(other, 21_000, 1, pair)]) == []
    assert tester.peekValueState(STATE_NAME, other) is not None


def test_what_a_hub_holds_is_known_to_the_next_task_and_goes_with_the_last_of_it() -> None:
    [pair], [foreign] = programs(PAIR), programs(PAIR, hub="else")
    tester, mine, theirs = _tester(pair, foreign), _subject(pair), _subject(foreign)

    def next_task(hub_bytes_max: int) -> None:
        tester.processor.close()
        by_state = {state_ref(program): program for program in (pair, foreign)}
        tester.processor = RuleProcessor(Carried(by_state), hub_bytes_max=hub_bytes_max)
        tester.processor.init(tester.handle)

    tester.test(mine, [_event(mine, 2_000, 1, pair)])
    tester.test(theirs, [_event(theirs, 2_000, 1, foreign)])
    kept = tester.peekValueState(STATE_NAME, mine)
    assert kept is not None
    size = held_bytes(mine, kept[1])
    next_task(size + 1)
    assert tester.test(mine, [_event(mine, 2_100, 1, pair)]) == []
    next_task(size + 1)
    [told] = tester.test(mine, [_event(mine, 2_200, 1, pair)])
    assert told["channel"] == "hub_full"
    # Another hub is not concerned.
    assert tester.test(theirs, [_event(theirs, 2_100, 1, foreign)]) == []
    tester.setWatermark(50_000)
    next_task(size + 1)
    assert list(tester.handle.value_states[STATE_NAME].state) == []


def test_long_keys_are_part_of_what_a_hub_holds() -> None:
    [pair] = programs(PAIR)
    tester = _tester(pair)
    tester.processor = RuleProcessor(Carried({state_ref(pair): pair}), hub_bytes_max=100_000)
    tester.processor.init(tester.handle)
    subjects = [_subject(pair, f'["{n}{"é" * 2_000}"]') for n in range(50)]
    for subject in subjects:
        tester.test(subject, [_event(subject, 2_000, 1, pair)])
    kept = [each for each in subjects if tester.peekValueState(STATE_NAME, each) is not None]
    assert 0 < sum(len(each.encode()) for each in kept) <= 100_000
    # And they go with their states.
    tester.setWatermark(50_000)
    tester.processor.close()
    assert list(tester.handle.value_states[STATE_NAME].state) == []


def test_a_state_that_cannot_be_read_is_given_up_and_told_and_stops_nothing() -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    tester.test(subject, [_event(subject, 2_000, 1, pair)])
    [timer_ms] = _timers(tester, subject)
    tester.updateValueState(STATE_NAME, subject, (timer_ms, b"\xc1 damaged"))
    [told] = tester.test(subject, [_event(subject, 2_100, 1, pair)])
    assert (told["channel"], told["payload"]) == ("failed", "1")
    assert tester.peekValueState(STATE_NAME, subject) is None
    assert _timers(tester, subject) == []


def test_events_of_one_key_and_batch_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    [pair] = programs(PAIR)
    tester, subject = _tester(pair), _subject(pair)
    events = [_event(subject, 1_000 + n, 1, pair) for n in range(9)]
    monkeypatch.setattr(processor, "CALL_BYTES_MAX", 3 * len(events[0]["packed"]))
    [told] = tester.test(subject, events)
    assert (told["channel"], told["payload"]) == ("late_or_no_room", "6")


def test_timers_that_make_more_than_java_may_be_given_at_once_are_looked_at_a_batch_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [held] = programs(_HOLD)
    tester, subjects = _tester(held), [_subject(held, f'["{n}"]') for n in range(3)]
    tester.setWatermark(1_000)
    for subject in subjects:
        tester.test(subject, [_event(subject, 1_500, 1, held)])
    monkeypatch.setattr(processor, "CALL_BYTES_MAX", 1)
    fired = []
    for watermark_ms in (6_500, 6_501, 6_502):
        # A task begins.
        tester.processor.init(tester.handle)
        fired.append(len(tester.setWatermark(watermark_ms)))
    assert fired == [1, 1, 1]


def test_a_stateless_rule_makes_no_more_of_a_batch_than_java_may_be_given_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [spike] = programs(_SPIKE)
    tester, subject = _tester(spike), _subject(spike)
    monkeypatch.setattr(processor, "CALL_BYTES_MAX", 1)
    rows = [_event(subject, 5_000 + n, 1, spike) for n in range(3)]
    found = tester.test(subject, rows)
    assert [row["id"] is not None for row in found] == [True, False]
    assert (found[1]["channel"], found[1]["payload"]) == ("too_large", "2")
