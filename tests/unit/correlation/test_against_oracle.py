"""Whatever the arrival order and the cuts, the matcher finds what the naive one finds in the whole."""

from hypothesis import given, settings
from hypothesis import strategies as st

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.matcher import advance
from arauto.correlation.program import Event, Match, Program
from tests.unit.correlation.oracle import oracle

STEP_MS = 500
LONGEST = 24
HORIZON_MS = 200_000


def program_of(text: str) -> Program:
    return compile_rule("shop", load_rule(text + "\nemit: {channel: alerts}"))


_CONDITIONS = ["payload.a = '1'", "payload.b = '1'", "payload.c = '1'", "payload.d = '1'"]
#: With this one, a younger attempt can be complete before an older one.
_LOWER = "p < first.p"


@st.composite
def sequences(draw: st.DrawFn) -> Program:
    steps: list[str] = []
    count = draw(st.integers(2, 4))
    for n in range(count):
        absent = (
            n > 0 and draw(st.integers(0, 3)) == 0 and "absent" not in (steps[-1] if steps else "")
        )
        times = draw(st.sampled_from(["1", "2", "1..", "2..3", "0..1", "0.."]))
        if n in (0, count - 1) and times[0] == "0":
            times = "1"
        tail = "absent: true" if absent else f'times: "{times}"'
        lower = n > 0 and draw(st.integers(0, 2)) == 0
        steps.append(f'  - {{where: "{_LOWER if lower else _CONDITIONS[n]}", {tail}}}')
    skip = draw(st.sampled_from(["past_last", "to_last", "to_next"]))
    if skip != "to_next":
        skip += "\nprefer: " + draw(st.sampled_from(["first_done", "first_begun"]))
    strict = draw(st.sampled_from(["relaxed", "strict"]))
    lines = [
        "rule: r",
        'let: {p: "cast(payload.p as double)"}',
        "sequence:",
        *steps,
        f"within: {draw(st.sampled_from(['1s', '4s', '20s']))}",
    ]
    return program_of("\n".join([*lines, f"skip: {skip}", f"next: {strict}"]))


def falls() -> st.SearchStrategy[Program]:
    """Sequences in which younger attempts often overtake older ones, that then win or fail."""
    a, b = _CONDITIONS[:2]
    lower = f'{{where: "{_LOWER}"}}'
    bodies = [
        f'sequence: [{{where: "{a}"}}, {lower}]\nnext: relaxed',
        f'sequence: [{{where: "{a}"}}, {{where: "{b}", times: "0.."}}, {lower}]\nnext: strict',
        f'sequence: [{{where: "{a}"}}, {{where: "{b}", absent: true}}, {lower}]\nnext: relaxed',
    ]
    head = 'rule: r\nlet: {p: "cast(payload.p as double)"}\nprefer: first_begun\n'
    return st.builds(
        lambda body, skip, within: program_of(f"{head}{body}\nskip: {skip}\nwithin: {within}"),
        st.sampled_from(bodies),
        st.sampled_from(["past_last", "to_last"]),
        st.sampled_from(["2s", "10s"]),
    )


def simple_rules() -> st.SearchStrategy[Program]:
    a, b, c = _CONDITIONS[:3]
    price = 'let: {p: "cast(payload.p as double)"}\n'
    texts = [
        f'match: "{a}"',
        f'hold: {{start: "{a}", cancel: "{b}", for: 3s}}',
        price + 'hold: {start: "p >= 1.05 * base(p)", cancel: "p < 1.05 * base(p)", for: 2s,'
        " base: last_stable}",
        f'absence: {{after: "{a}", expect: "{b}"}}\nwithin: 3s',
        f'absence: {{expect: "{a}"}}\nwithin: 3s',
        "absence: {}\nwithin: 1500ms",
        f'all_of: [{{where: "{a}"}}, {{where: "{b}"}}, {{where: "{c}"}}]\nwithin: 3s',
        f'any_of: [{{where: "{a}"}}, {{where: "{b}"}}, {{where: "{c}"}}]\nat_least: 2\nwithin: 2s',
        f'any_of: [{{where: "{a}"}}, {{where: "{b}"}}]',
        price + 'count: {of: p}\nwindow: 4s\nwhen: "count() >= 2 and sum(p) > 0"',
        price + 'count: {of: p}\nwindow: 6s\nevery: 2s\nwhen: "count() >= 2 and sum(p) > 0"',
        price
        + 'change: {of: p, abs_pct: ">= 2"}\ngroup: {by: channel, member: payload.m}\nwindow: 6s\n'
        'every: 3s\nwhen: "members >= 2 and same_sign_share >= 1"',
    ]
    return st.sampled_from([program_of("rule: r\n" + text) for text in texts])


def cooled(rules: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    """The same rules, half of them with a cooldown."""

    def with_cooldown(program: Program, cooldown_ms: int) -> Program:
        fields = {name: getattr(program, name) for name in program.__struct_fields__}
        return Program(**{**fields, "cooldown_ms": cooldown_ms})

    return st.builds(with_cooldown, rules, st.sampled_from([0, 0, 2500]))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    count = draw(st.integers(0, LONGEST))
    events = []
    for seq in range(count):
        ts_ms = draw(st.integers(0, 30)) * STEP_MS
        prices = st.sampled_from([None, 90.0, 100.0, 104.0, 106.0, 120.0, -5.0])
        member = draw(st.sampled_from([None, "x", "y", "z"]))
        node = draw(st.sampled_from("ab"))
        events.append(Event(ts_ms, node, seq, draw(st.integers(0, 15)), (draw(prices),), (member,)))
    return events


@st.composite
def feeds(draw: st.DrawFn) -> list[tuple[list[Event], int]]:
    """Batches in some order of arrival, each with a watermark that no later event is older than."""
    arrivals = draw(st.permutations(draw(histories())))
    batches: list[tuple[list[Event], int]] = []
    watermark_ms = 0
    while arrivals:
        size = draw(st.integers(0, 6))
        batch, arrivals = arrivals[:size], arrivals[size:]
        possible_ms = min((event.ts_ms for event in arrivals), default=HORIZON_MS)
        slack_ms = draw(st.integers(0, 4)) * STEP_MS
        watermark_ms = max(watermark_ms, possible_ms - slack_ms)
        batches.append((list(batch), watermark_ms))
    return [*batches, ([], HORIZON_MS)]


def fed(program: Program, feed: list[tuple[list[Event], int]]) -> list[Match]:
    """Run a feed the way the pipeline does, waking the key when it asked to be woken."""
    state: bytes | None = None
    deadline_ms: int | None = None
    matches: list[Match] = []
    for batch, watermark_ms in feed:
        due = deadline_ms is not None and deadline_ms <= watermark_ms
        if not batch and not due:
            continue
        outcome = advance(program, '["k"]', state, batch, watermark_ms)
        assert outcome.dropped == 0
        assert outcome.deadline_ms is None or outcome.deadline_ms > watermark_ms
        assert (outcome.state is None) == (outcome.deadline_ms is None)
        assert all(match.ts_ms <= watermark_ms for match in outcome.matches)
        state, deadline_ms = outcome.state, outcome.deadline_ms
        matches += outcome.matches
    return matches


def check(program: Program, feed: list[tuple[list[Event], int]]) -> None:
    matches = fed(program, feed)
    events = [event for batch, _ in feed for event in batch]
    expected = oracle(program, events, HORIZON_MS)
    assert [(match.first, match.last, match.ts_ms) for match in matches] == expected
    whole = advance(program, '["k"]', None, events, HORIZON_MS)
    assert [match.id for match in whole.matches] == [match.id for match in matches]
    assert len({match.id for match in matches}) == len(matches)


@settings(max_examples=300, deadline=None)
@given(cooled(sequences()), feeds())
def test_sequences_are_found_as_in_the_whole_history(
    program: Program, feed: list[tuple[list[Event], int]]
) -> None:
    check(program, feed)


@settings(max_examples=200, deadline=None)
@given(cooled(falls()), feeds())
def test_what_began_first_wins_as_in_the_whole_history(
    program: Program, feed: list[tuple[list[Event], int]]
) -> None:
    check(program, feed)


@settings(max_examples=500, deadline=None)
@given(cooled(simple_rules()), feeds())
def test_every_other_kind_is_found_as_in_the_whole_history(
    program: Program, feed: list[tuple[list[Event], int]]
) -> None:
    check(program, feed)
