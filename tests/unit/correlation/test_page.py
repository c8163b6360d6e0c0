"""The page for authors of rules: its examples are rules, and its limits are those of the code."""

import re
from pathlib import Path

import pytest

from arauto.correlation.bodies import BODIES
from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.expression import KINDS
from arauto.correlation.scope import COLUMNS, TOTALS
from arauto.errors import ArautoError

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
