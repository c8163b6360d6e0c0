"""The page for authors of rules: its examples are rules, and its limits are those of the code."""

import re
from pathlib import Path

import pytest

from arauto.correlation.bodies import BODIES
from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.expression import KINDS
from arauto.correlation.matcher import advance
from arauto.correlation.rows import event_of
from arauto.correlation.scope import COLUMNS, TOTALS
from arauto.errors import ArautoError
from tests.unit.correlation.test_matcher import row

PAGE = (Path(__file__).parents[3] / "docs" / "topics" / "correlation.md").read_text(
    encoding="utf-8"
)
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split()[1])
def test_every_example_is_a_rule(text: str) -> None:
    assert compile_rule("shop", load_rule(text)).ref.startswith("shop/")


@pytest.mark.parametrize("kind", BODIES)
def test_every_kind_has_an_example(kind: str) -> None:
    assert any(re.search(rf"^{kind}:", text, re.MULTILINE) for text in EXAMPLES)


@pytest.mark.parametrize("name", [*COLUMNS, *KINDS.values(), *TOTALS["count"], *TOTALS["change"]])
def test_every_name_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_van_of_the_page_is_told_of_once_it_stood_for_a_minute_and_not_while_it_drives() -> (
    None
):
    [text] = [each for each in EXAMPLES if each.startswith("rule: standing-still\n")]
    program = compile_rule("shop", load_rule(text))
    driven = [(n * 10, n * 0.01) for n in range(9)]
    # A little shaking is standing, and the second event there begins the minute.
    stood = [(90 + n * 30, (0.08, 0.0801)[n % 2]) for n in range(10)]
    events = []
    for seq, (at_s, la) in enumerate(driven + stood):
        sent = row(seq, at_s * 1_000, {"van": "v1", "la": la, "lo": 7.5})
        found = event_of(program, sent)
        assert found is not None
        events.append(found[1])
    matches = advance(program, '["v1"]', None, events, 10**9).matches
    assert [(match.ts_ms, match.payload) for match in matches] == [
        (150_000, {"van": "v1", "la": "0.0801", "lo": "7.5"})
    ]


WRONG = [
    "rule: r\nkey: [payload.s]\nmatch: 'true'\nemit:\n  channel: a\n  payload: {to: lst.payload.p}\n",
    "rule: r\nsequence: [{where: 'true'}, {where: 'false'}]\nemit: {channel: a}\n",
    "rule: r\nkey: [user]\ncount: {}\nwindow: 10ms\nwhen: count > 1\nemit: {channel: a}\n",
    "rule: r\nfrom:\n  where: payload.price >\nmatch: 'true'\nemit: {channel: a}\n",
]


@pytest.mark.parametrize("text", WRONG)
def test_messages_are_those_shown_on_the_page(text: str) -> None:
    with pytest.raises(ArautoError) as caught:
        load_rule(text)
    assert f"\n{caught.value.message}\n" in PAGE
