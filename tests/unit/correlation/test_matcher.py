"""The matcher, case by case: what fires, when, with which payload, and what is kept meanwhile."""

import json
import pickle
from typing import Any

import pytest

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.matcher import Outcome, advance
from arauto.correlation.matches import event_match
from arauto.correlation.program import Event, Match, Program
from arauto.correlation.rows import event_of
from arauto.correlation.sequence import RUNS_MAX
from arauto.correlation.windows import Totals, totals_match

FAR_MS = 10**9
KEY = '["k"]'


def program_of(text: str, emit: str = "{channel: alerts}") -> Program:
    return compile_rule("shop", load_rule(f"rule: r\n{text}\nemit: {emit}"))


def row(seq: int, ts_ms: int, payload: Any = None, **columns: Any) -> dict[str, Any]:
    return {
        "hub": "shop",
        "kind": 1,
        "channel": "c",
        "user": "ana",
        "session": "s",
        "content_type": "",
        "id": f"m{seq}",
        "key": "",
        "headers": None,
        "text": json.dumps(payload),
        "ts_ms": ts_ms,
        "node": "n",
        "seq": seq,
    } | columns


def events_of(program: Program, rows: list[dict[str, Any]]) -> list[Event]:
    return [found[1] for r in rows if (found := event_of(program, r))]


def matched(program: Program, *payloads: tuple[int, Any]) -> list[Match]:
    rows = [row(n, ts_ms, payload) for n, (ts_ms, payload) in enumerate(payloads)]
    return advance(program, KEY, None, events_of(program, rows), FAR_MS).matches


def payloads(matches: list[Match]) -> list[dict[str, Any]]:
    return [match.payload for match in matches]


PRICE = """\
key: [payload.s]
let: {p: "cast(payload.p as double)"}
hold: {start: "p >= 1.05 * base(p)", for: 5s, base: last_stable}
"""


def test_a_price_that_stays_up_is_reported_with_the_price_before() -> None:
    program = program_of(PRICE, "{channel: a, payload: {from: base.p, to: last.p, at: first.p}}")
    found = matched(
        program, (0, {"s": "k", "p": 100}), (1, {"s": "k", "p": 105}), (2, {"s": "k", "p": 110})
    )
    assert payloads(found) == [{"from": 100, "to": 110, "at": 105}]
    assert (found[0].ts_ms, found[0].first, found[0].last) == (5001, ("n", 1), ("n", 2))
    assert (found[0].rule_ref, found[0].channel, found[0].key) == ("shop/r@1", "a", KEY)


def test_a_price_that_falls_back_is_not_reported() -> None:
    program = program_of(PRICE)
    assert not matched(program, *((n, {"s": "k", "p": p}) for n, p in enumerate([100, 106, 104])))


def test_an_event_without_the_price_changes_nothing() -> None:
    program = program_of(PRICE, "{channel: a, payload: {to: last.p}}")
    found = matched(
        program, *((n, {"s": "k", "p": p}) for n, p in enumerate([100, None, 106, "x"]))
    )
    assert payloads(found) == [{"to": 106}]


def test_a_hold_without_base_fires_once_until_it_is_cancelled() -> None:
    program = program_of('hold: {start: "payload.t > 80", for: 1s}')
    times = [(0, 90), (1500, 90), (2600, 90), (3000, 70), (3100, 90)]
    assert [m.ts_ms for m in matched(program, *((ms, {"t": t}) for ms, t in times))] == [1000, 4100]


def test_a_silent_key_is_forgotten() -> None:
    program = program_of(PRICE.replace("for: 5s", "for: 5s, forget: 10s"))
    event = events_of(program, [row(1, 0, {"s": "k", "p": 100})])
    outcome = advance(program, KEY, None, event, 1)
    assert outcome.deadline_ms == 10_000
    assert advance(program, KEY, outcome.state, [], 10_000).state is None


def test_a_hold_is_decided_when_the_watermark_is_there_and_not_before() -> None:
    program = program_of('hold: {start: "true", cancel: "false", for: 5s}')
    event = events_of(program, [row(1, 1000)])
    waiting = advance(program, KEY, None, event, 1000)
    assert (waiting.matches, waiting.deadline_ms) == ([], 1001)
    held = advance(program, KEY, waiting.state, [], 5999)
    assert (held.matches, held.deadline_ms) == ([], 6000)
    assert [match.ts_ms for match in advance(program, KEY, held.state, [], 6000).matches] == [6000]


FALLING = """\
let: {p: "cast(payload.p as double)"}
sequence:
  - {as: top, where: "p is not null"}
  - {as: down, where: "p < last.p", times: "2.."}
  - {as: up, where: "p > top.p"}
within: 1m
next: strict
"""


def test_a_step_can_be_compared_with_the_events_before_it() -> None:
    program = program_of(FALLING, "{channel: a, payload: {top: top.p, low: down.p, up: up.p}}")
    prices = [10, 9, 7, 8, 10, 9, 8, 12]
    found = matched(program, *((n, {"p": p}) for n, p in enumerate(prices)))
    assert payloads(found) == [{"top": 10, "low": 8, "up": 12}]


AVERAGE = """\
let: {p: "cast(payload.p as double)"}
sequence:
  - {as: low, where: "p < 10", times: "1.."}
  - {as: high, where: "(sum(low.p) + p) / (count(low) + 1) >= 10"}
within: 1m
next: strict
"""


def test_a_step_can_be_compared_with_what_came_together_before_it() -> None:
    text = AVERAGE.replace('times: "1.."', 'times: "3"')
    program = program_of(
        text, "{channel: a, payload: {avg: avg(low.p), n: count(low), to: high.p}}"
    )
    found = matched(program, *((n, {"p": p}) for n, p in enumerate([9, 1, 2, 3, 34])))
    assert payloads(found) == [{"avg": 2, "n": 3, "to": 34}]
    assert matched(program, *((n, {"p": p}) for n, p in enumerate([9, 1, 2, 3, 33]))) == []


def test_the_average_of_nothing_is_null() -> None:
    text = AVERAGE.replace("p < 10", "payload.q = 1")
    program = program_of(text, "{channel: a, payload: {avg: avg(low.p)}}")
    assert matched(program, (0, {"q": 1}), (1, {"p": 34})) == []


def test_the_last_event_can_start_the_next_match() -> None:
    falling = FALLING.replace("2..", "1..").replace("p > top.p", "p > last.p")
    program = program_of(falling + "skip: to_last", "{channel: a, payload: {top: top.p, up: up.p}}")
    found = matched(program, *((n, {"p": p}) for n, p in enumerate([5, 4, 6, 3, 7])))
    assert payloads(found) == [{"top": 5, "up": 6}, {"top": 6, "up": 7}]


DROP = """\
let: {p: "cast(payload.p as double)"}
sequence: [{as: top, where: p > 0}, {as: low, where: p < first.p - 10}]
within: 1m
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [(1, 2, 2), (3, 4, 4)]),
        ("prefer: first_done", [(1, 2, 2), (3, 4, 4)]),
        ("prefer: first_begun", [(0, 3, 3)]),
        ("prefer: first_begun\nskip: to_last", [(0, 3, 3), (3, 4, 4)]),
        ("skip: to_next", [(1, 2, 2), (0, 3, 3), (2, 3, 3), (3, 4, 4)]),
    ],
)
def test_of_matches_that_overlap_the_first_done_or_the_first_begun_wins(
    options: str, expected: list[tuple[int, int, int]]
) -> None:
    program = program_of(DROP + options)
    found = matched(program, *((n, {"p": p}) for n, p in enumerate([50, 70, 55, 35, 20])))
    assert [(m.first[1], m.last[1], m.ts_ms) for m in found] == expected


def test_a_match_waits_for_an_older_attempt_until_the_time_of_that_is_over() -> None:
    program = program_of(DROP + "prefer: first_begun")
    prices = [(0, 50), (30_000, 70), (30_001, 55), (59_000, 80), (59_001, 60)]
    rows = [row(n, ts_ms, {"p": p}) for n, (ts_ms, p) in enumerate(prices)]
    waiting = advance(program, KEY, None, events_of(program, rows), 59_999)
    assert (waiting.matches, waiting.deadline_ms) == ([], 60_000)
    over = advance(program, KEY, waiting.state, [], 60_000)
    found = [(m.first[1], m.last[1], m.ts_ms) for m in over.matches]
    assert found == [(1, 2, 60_000), (3, 4, 60_000)]
    assert over.state is None


def test_an_attempt_that_ends_lets_a_match_go_that_waited_for_it() -> None:
    text = DROP + "prefer: first_begun\nnext: strict"
    text = text.replace("{as: low", "{as: mid, where: p < 80, times: '0..'}, {as: low")
    program = program_of(text.replace("p < 80", "p >= first.p - 10 and p < 80"))
    found = matched(program, *((n, {"p": p}) for n, p in enumerate([50, 70, 55, 90])))
    assert [(m.first[1], m.last[1], m.ts_ms) for m in found] == [(1, 2, 3)]


def test_matches_that_wait_count_as_attempts() -> None:
    program = program_of(DROP + "prefer: first_begun\nbuffer: 10")
    prices = [50, *(70, 55) * 20]
    rows = [row(n, n, {"p": p}) for n, p in enumerate(prices)]
    outcome = advance(program, KEY, None, events_of(program, rows), 60_000)
    # The oldest attempt and two matches fill the memory; each later 70 and 55 find no room.
    assert [(m.first[1], m.last[1]) for m in outcome.matches] == [(1, 2), (3, 4)]
    assert outcome.dropped == 36


def test_an_abandoned_cart_is_reported_at_the_end_of_its_time() -> None:
    program = program_of(
        "sequence:\n"
        "  - {as: add, where: \"payload.t = 'add'\", times: '1..'}\n"
        "  - {where: \"payload.t = 'pay'\", absent: true}\n"
        "within: 30m",
        "{channel: a, payload: {sum: 'cast(add.payload.sum as double)', who: user}}",
    )
    adds: list[tuple[int, Any]] = [(0, {"t": "add", "sum": 5}), (9, {"t": "add", "sum": 7})]
    assert payloads(matched(program, *adds)) == [{"sum": 7, "who": "ana"}]
    assert matched(program, *adds)[0].ts_ms == 30 * 60_000
    assert matched(program, *adds, (1000, {"t": "pay"})) == []


@pytest.mark.parametrize(("skip", "count"), [("past_last", 1), ("to_next", 2)])
def test_skip_says_whether_matches_may_overlap(skip: str, count: int) -> None:
    steps = "sequence: [{where: \"payload = '1'\"}, {where: \"payload = '2'\"}]"
    program = program_of(f"{steps}\nwithin: 1m\nskip: {skip}")
    assert len(matched(program, (0, 1), (1, 1), (2, 2))) == count


@pytest.mark.parametrize(
    ("skip", "times"),
    [("past_last", [1000]), ("to_last", [1000, 1002]), ("to_next", [1000, 1001, 1002])],
)
def test_skip_counts_for_matches_that_time_decides_too(skip: str, times: list[int]) -> None:
    steps = "sequence: [{where: \"payload = '1'\", times: '1..'}, {where: \"payload = '2'\", absent: true}]"
    program = program_of(f"{steps}\nwithin: 1s\nskip: {skip}")
    assert [match.ts_ms for match in matched(program, (0, 1), (1, 1), (2, 1))] == times


def test_an_event_at_the_very_end_of_the_time_is_outside() -> None:
    steps = "sequence: [{where: \"payload = '1'\"}, {where: \"payload = '2'\"}]"
    program = program_of(f"{steps}\nwithin: 1s")
    assert len(matched(program, (0, 1), (999, 2))) == 1
    assert matched(program, (0, 1), (1000, 2)) == []


def test_silence_is_reported_once_and_again_after_the_next_event() -> None:
    program = program_of("absence: {}\nwithin: 1s")
    assert [m.ts_ms for m in matched(program, (0, 1), (500, 1), (9000, 1))] == [1500, 10_000]


def test_all_of_names_the_events_that_took_part() -> None:
    program = program_of(
        "all_of:\n  - {as: a, where: payload.a > 0}\n  - {as: b, where: payload.b > 0}\nwithin: 1s",
        "{channel: x, payload: {a: a.payload.a, b: b.payload.b, last: id}}",
    )
    found = matched(program, (0, {"b": 1}), (5, {"b": 2}), (6, {"a": 3}))
    assert payloads(found) == [{"a": "3", "b": "2", "last": "m2"}]


def test_a_cooldown_is_counted_in_event_time() -> None:
    program = program_of("match: 'true'", "{channel: a, cooldown: 1s}")
    assert program.path == "stateful"
    assert [m.ts_ms for m in matched(program, (0, 1), (999, 1), (1000, 1))] == [0, 1000]
    alone = advance(program, KEY, None, events_of(program, [row(1, 0)]), 1)
    assert alone.deadline_ms == 1000
    assert advance(program, KEY, alone.state, [], 1000).state is None


def test_a_stateless_match_is_the_same_with_and_without_the_matcher() -> None:
    program = program_of(
        "match: payload.n > 1", "{channel: a, payload: {n: payload.n * 2, k: 1 + 1}}"
    )
    (event,) = events_of(program, [row(7, 70, {"n": 1.25})])
    assert program.path == "stateless"
    direct = event_match(program, KEY, event)
    assert direct.payload == {"n": 2.5, "k": 2}
    assert [direct] == advance(program, KEY, None, [event], FAR_MS).matches


def test_totals_from_elsewhere_make_the_same_match() -> None:
    program = program_of(
        "count: {of: payload.n}\nwindow: 10s\nwhen: avg(of) >= 2",
        "{channel: a, payload: {avg: avg, low: min, n: count, end: window_end}}",
    )
    assert program.path == "window"
    found = matched(program, (0, {"n": 1}), (1, {"n": 4}), (2, {"n": "?"}))
    totals = Totals(
        start_ms=0,
        end_ms=10_000,
        first=("n", 0),
        last=("n", 2),
        count=3,
        present=2,
        sum=5.0,
        min=1.0,
    )
    assert payloads(found) == [{"avg": 2.5, "low": 1, "n": 3, "end": 10_000}]
    assert [totals_match(program, KEY, totals)] == found


def test_distinct_values_are_counted_over_all_of_a_hopping_window() -> None:
    program = program_of(
        "count: {of: payload.u}\nwindow: 4s\nevery: 2s\nwhen: count(distinct payload.u) >= 2"
    )
    found = matched(program, (0, {"u": "a"}), (2500, {"u": "b"}), (2600, {"u": "b"}))
    assert [match.ts_ms for match in found] == [4000]


def test_the_key_and_the_filter_decide_which_rows_count() -> None:
    program = program_of(
        "from: {channels: ['a:*'], where: payload.n > 0}\nkey: [user, payload.s]\nmatch: 'true'"
    )
    good = row(1, 0, {"n": 1, "s": "é"}, channel="a:b")
    found = event_of(program, good)
    assert found is not None
    assert found[0] == '["ana","é"]'
    for wrong in (
        {"channel": "b:a"},
        {"hub": "other"},
        {"kind": 2},
        {"text": '{"n": 0, "s": "x"}'},
        {"text": '{"n": 1}'},
        {"text": None},
        {"headers": {"x-origin": "pipeline"}},
    ):
        assert event_of(program, good | wrong) is None


def test_rules_can_ask_for_what_the_pipeline_publishes() -> None:
    program = program_of("from: {channels: [c]}\ninclude_pipeline: true\nmatch: 'true'")
    assert event_of(program, row(1, 0, headers={"x-origin": "pipeline"}))


HOLDING = "sequence: [{where: payload = '1'}, {where: payload = '2'}]\nwithin: 1h\nbuffer: 10"


def busy(program: Program, count: int, watermark_ms: int) -> Outcome:
    events = [Event(n, "n", n, 1) for n in range(count)]
    return advance(program, KEY, None, events, watermark_ms)


def test_events_that_wait_are_capped_and_counted() -> None:
    program = program_of(HOLDING)
    outcome = busy(program, 25, 0)
    assert outcome.dropped == 15
    assert outcome.deadline_ms == 1


def test_runs_are_capped_and_counted() -> None:
    assert busy(program_of(HOLDING), 25, FAR_MS // 1000).dropped == 25 - 10 // 3
    roomy = program_of(HOLDING.replace("10", "10000"))
    assert busy(roomy, RUNS_MAX + 5, FAR_MS // 1000).dropped == 5


def test_distinct_values_are_capped_and_counted() -> None:
    program = program_of(
        "count: {of: payload.u}\nwindow: 1h\nwhen: distinct_count > 5\nbuffer: 10",
        "{channel: a, payload: {n: distinct_count, all: count}}",
    )
    events = [Event(n, "n", n, 0, (), (str(n),)) for n in range(30)]
    outcome = advance(program, KEY, None, events, FAR_MS)
    assert payloads(outcome.matches) == [{"n": 10, "all": 30}]
    assert outcome.dropped == 20


def test_late_and_repeated_events_are_dropped_and_counted() -> None:
    program = program_of("absence: {}\nwithin: 1h")
    twice = [Event(5, "n", 1, 1), Event(5, "n", 1, 1)]
    first = advance(program, KEY, None, twice, 1000)
    assert first.dropped == 1
    assert advance(program, KEY, first.state, [Event(999, "n", 2, 1)], 1000).dropped == 1


def test_a_program_can_be_sent_to_another_process() -> None:
    program = program_of(PRICE)
    assert pickle.loads(pickle.dumps(program)) == program


def test_another_version_of_a_rule_gives_other_ids() -> None:
    ids = {
        matched(program_of(f"version: {version}\nmatch: 'true'"), (0, 1))[0].id
        for version in (1, 2)
    }
    assert len(ids) == 2
