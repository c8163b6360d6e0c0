"""However a rule joins, keeps and publishes what clients send: what comes of it has a bound in bytes."""

import msgspec
import pytest

from arauto.correlation.bounds import (
    CALL_BYTES_MAX,
    EVENT_BYTES_MAX,
    KEY_BYTES_MAX,
    MEMORY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    WAITING_BYTES_MAX,
    refused,
)
from arauto.correlation.matcher import Outcome, advance
from arauto.correlation.matches import event_match
from arauto.correlation.program import Event, Program
from arauto.correlation.rows import event_of
from tests.unit.correlation.test_matcher import FAR_MS, KEY, events_of, program_of, row

_LONG = "x" * 60_000
#: Names that each stand for two of the one before: 2^7 copies of one text.
_DOUBLES = """let:
  a: payload.text
  b: a || a
  c: b || b
  d: c || c
  e: d || d
  f: e || e
  g: f || f
  h: g || g"""
_MARGIN = 8_192


def _long(seq: int, ts_ms: int, text: str = _LONG, **more: object) -> dict[str, object]:
    return row(seq, ts_ms, {"text": text, "step": str(seq % 2), **more})


def _size(value: object) -> int:
    return len(msgspec.msgpack.encode(value))


def _fed(program: Program, count: int, *, watermark_ms: int = 0) -> Outcome:
    events = events_of(program, [_long(n, 1_000 + n, f"{n}{_LONG}") for n in range(count)])
    return advance(program, KEY, None, events, watermark_ms)


def test_a_text_joined_with_itself_again_and_again_is_no_value_and_is_counted() -> None:
    emitted = ", ".join(f"v{n}: h || '{n}'" for n in range(30))
    program = program_of(f"{_DOUBLES}\nmatch: 'true'", f"{{channel: c, payload: {{{emitted}}}}}")
    before = refused.count
    found = event_of(program, _long(1, 1_000))
    assert found is not None
    assert _size(found[1]) < EVENT_BYTES_MAX + _MARGIN
    assert refused.count == before + 1
    short = event_of(program, _long(1, 1_000, "ab"))
    assert short is not None
    assert event_match(program, *short).payload["v0"] == "ab" * 128 + "0"


def test_the_values_of_one_event_share_a_bound_and_conditions_still_see_the_whole_row() -> None:
    lets = ", ".join(f"v{n}: \"payload.text || '{n}'\"" for n in range(30))
    emitted = ", ".join(f"v{n}: v{n}" for n in range(30))
    program = program_of(
        f"let: {{{lets}}}\nmatch: length(payload.text) = 60000",
        f"{{channel: c, payload: {{{emitted}}}}}",
    )
    before = refused.count
    found = event_of(program, _long(1, 1_000))
    assert found is not None
    assert _size(found[1]) < EVENT_BYTES_MAX + _MARGIN
    assert refused.count - before == 29
    payload = event_match(program, *found).payload
    assert payload["v0"] == _LONG + "0"
    assert payload["v1"] is None


def test_characters_of_several_bytes_count_as_their_bytes() -> None:
    program = program_of("match: 'true'", "{channel: c, payload: {v: payload.text}}")
    found = event_of(program, _long(1, 1_000, "€" * 30_000))
    assert found is not None
    assert found[1].texts == (None,)


@pytest.mark.parametrize("text", ["x" * 60_000, "€" * (KEY_BYTES_MAX // 3 + 1)])
def test_a_row_whose_key_is_too_long_does_not_concern_the_rule_and_is_counted(text: str) -> None:
    program = program_of("key: [payload.text]\nmatch: 'true'")
    before = refused.count
    assert event_of(program, _long(1, 1_000, text)) is None
    assert refused.count == before + 1
    assert event_of(program, _long(1, 1_000, "x" * 4_000)) is not None


def test_events_that_wait_are_bounded_in_bytes_and_what_is_left_out_is_counted() -> None:
    program = program_of(
        "buffer: 10000\nsequence: [{as: one, where: payload.step = '0'}, "
        "{as: two, where: payload.step = '1' and payload.text = one.payload.text}]\nwithin: 1h"
    )
    outcome = _fed(program, 200)
    assert outcome.state is not None
    assert len(outcome.state) < WAITING_BYTES_MAX + _MARGIN
    kept = WAITING_BYTES_MAX // 60_003
    assert outcome.dropped == 200 - kept


def test_attempts_are_bounded_in_bytes_and_the_oldest_stay() -> None:
    steps = ", ".join(
        f"{{as: s{n}, where: payload.step = '0' and payload.text <> s0.payload.text}}"
        for n in range(1, 6)
    )
    program = program_of(
        f"buffer: 10000\nsequence: [{{as: s0, where: payload.step = '0'}}, {steps}, "
        "{as: end, where: \"payload.step = 'never'\"}]\nwithin: 1h\nskip: to_next"
    )
    outcome = _fed(program, 120, watermark_ms=100_000)
    assert outcome.state is not None
    assert len(outcome.state) < MEMORY_BYTES_MAX + _MARGIN
    assert outcome.too_large > 0
    # What is there goes on: the next call decodes it, and it ends with its time.
    after = advance(program, KEY, outcome.state, [], FAR_MS)
    assert after.state is None


@pytest.mark.parametrize(
    "text",
    [
        "count: {of: payload.text}\nwindow: 10s\nwhen: count(distinct of) >= 50",
        "change: {of: payload.n, abs_pct: '> 0'}\ngroup: {by: \"''\", member: payload.text}\n"
        "window: 10s\nwhen: members >= 50",
    ],
)
def test_different_values_and_members_are_remembered_in_a_few_bytes_each(text: str) -> None:
    program = program_of(f"buffer: 10000\n{text}")
    texts = [f"{n % 60}{_LONG}" for n in range(120)]
    rows = [_long(n, 1_000 + n, each, n=n + 1) for n, each in enumerate(texts)]
    events = events_of(program, rows)
    outcome = advance(program, KEY, None, events, 5_000)
    assert outcome.state is not None
    assert len(outcome.state) < 60 * 100
    assert (outcome.dropped, outcome.too_large) == (0, 0)
    assert len(advance(program, KEY, outcome.state, [], FAR_MS).matches) == 1


def test_values_of_any_size_cannot_make_windows_larger_than_a_memory_may_be() -> None:
    program = program_of(
        "buffer: 10000\ncount: {of: payload.text}\nwindow: 10s\nwhen: count(distinct of) >= 1"
    )
    events = [Event(1_000, "n", n, 0, (), ("€" * 20 + str(n).rjust(12),)) for n in range(10_000)]
    outcome = advance(program, KEY, None, events, 5_000)
    assert outcome.state is not None
    assert len(outcome.state) < MEMORY_BYTES_MAX
    assert outcome.too_large == 0


def test_the_texts_of_a_match_are_cut_to_what_a_message_may_be() -> None:
    emitted = ", ".join(f"v{n}: one.payload.text" for n in range(16))
    program = program_of(
        "sequence: [{as: one, where: payload.step = '0'}, {as: two, where: payload.step = '1'}]\n"
        "within: 1h",
        f"{{channel: c, payload: {{{emitted}, n: length(one.payload.text)}}}}",
    )
    for text in (_LONG, '"' * 60_000, "€" * 20_000):
        outcome = advance(
            program, KEY, None, events_of(program, [_long(0, 1, text), _long(1, 2, "")]), FAR_MS
        )
        [match] = outcome.matches
        assert len(msgspec.json.encode(match.payload)) <= PAYLOAD_BYTES_MAX
        assert match.payload["n"] == len(text)
        first = match.payload["v0"]
        assert isinstance(first, str)
        assert first.endswith("…")
        assert text.startswith(first[:-1])
        assert outcome.too_large == 1


def test_matches_made_in_one_go_are_bounded_in_bytes_and_those_left_out_are_counted() -> None:
    program = program_of("match: 'true'", "{channel: c, cooldown: 1ms, payload: {v: payload.text}}")
    events = events_of(program, [_long(n, 1_000 + 2 * n) for n in range(400)])
    outcome = advance(program, KEY, None, events, FAR_MS)
    assert sum(_size(match) for match in outcome.matches) < CALL_BYTES_MAX + 70_000
    assert len(outcome.matches) + outcome.too_large == 400
