"""Nonsense, random or malicious, is refused with the one error there is for it; and memory stays small."""

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from arauto.correlation.coercion import ExpressionError
from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rules
from arauto.correlation.interpreter import evaluate
from arauto.correlation.matcher import advance
from arauto.correlation.parsing import parse
from arauto.correlation.program import Event
from arauto.correlation.scope import Scope
from arauto.errors import ArautoError, Code


def words(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(text.split())


_WORDS = words(
    "payload.a payload.b[0] channel headers.x 1 2.5 'x' null true ( ) + - * / % = < > and or not in like "
    "between is case when then else end if cast as double coalesce abs round , . [ ] || base count"
)
_ROW = {
    "hub": "h", "channel": "c", "user": "", "session": "", "kind": 1, "content_type": "", "id": "", "key": "",
    "headers": None, "text": '{"a": "1", "b": [true]}', "json": '{"a": "1", "b": [true]}',
}  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=60))
@example("(" * 900)
@example("not " * 249)
@example("-" * 999)
@example("a[" * 400)
@example("case when " * 90)
def test_any_text_is_an_expression_that_can_be_used_or_an_error(text: str) -> None:
    with suppress(ExpressionError):
        expr = parse(text, Scope())
        evaluate(expr, _ROW)


_YAML = st.recursive(
    st.sampled_from(["a", "1", "true", "5m", "'payload.a > 1'", "'2..'", "~", "add"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(
            words("as where of times channel payload start cancel for after by member"),
            inner,
            max_size=3,
        ).map(lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}")
    ),
    max_leaves=8,
)
_FIELDS = words(
    "rule version from key let emit hold sequence absence all_of any_of count change match within window "
    "every when group skip next buffer at_least include_pipeline"
)


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(_FIELDS, _YAML, max_size=7).map(
        lambda d: "\n".join(f"{k}: {v}" for k, v in d.items())
    )
    | st.text(max_size=80)
)
@example("a: &a [x]\nb: *a")
@example("{" * 10_000)
@example("\ufeff\x85\u2028")
@example("\ud800")
def test_any_text_is_rules_or_a_bad_rule(text: str) -> None:
    code = Code.BAD_RULE
    try:
        load_rules(text)
    except ArautoError as error:
        code = error.code
    assert code == Code.BAD_RULE


_GREEDY = [
    "sequence: [{where: \"payload = '1'\", times: '1..'}, {where: \"payload = '2'\"}]\nwithin: 7d",
    "count: {of: payload.x}\nwindow: 7d\nwhen: distinct_count > 1000",
    "change: {of: payload.p, abs_pct: '> 1'}\ngroup: {by: hub, member: id}\nwindow: 7d\nwhen: members > 99",
    "hold: {start: 'true', cancel: 'false', for: 7d}",
    "all_of: [{where: \"payload = '1'\"}, {where: \"payload = '2'\"}]\nwithin: 7d",
]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(_GREEDY), st.integers(0, 400), st.integers(10, 40))
def test_state_stays_within_its_rows(body: str, watermark_ms: int, buffer: int) -> None:
    text = f"rule: r\n{body}\nbuffer: {buffer}\nemit: {{channel: a}}"
    program = compile_rule("h", load_rules(text)[0])
    state = None
    for start in range(0, 400, 100):
        events = [
            Event(ts_ms, "node", ts_ms, 1, (float(ts_ms),), (f"{ts_ms:020}",))
            for ts_ms in range(start, start + 100)
        ]
        outcome = advance(program, "[]", state, events, min(watermark_ms, start + 100))
        state = outcome.state
        # A row is about 50 bytes; the matcher's memory and what waits for the watermark have a cap each.
        assert len(state or b"") < 200 + 2 * 60 * buffer
    assert state is not None
