"""Wildcards: what they cover, and that no text takes long to decide. The texts are what clients send."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arauto.correlation.expression import Expr
from arauto.correlation.interpreter import evaluate
from arauto.correlation.parsing import parse
from arauto.correlation.scope import Scope
from arauto.correlation.wildcards import channel_regex
from arauto.names import CHANNEL_BYTES_MAX, matches

PAYLOAD_CHARS = 65_536
# Few signs, so that pieces overlap; with those that mean something in regular expressions or in SQL.
SIGNS = "aab.\\\n'\"*+?()[]{}^$|#-ü\U0001f600"


def like(text: str, pattern: str) -> object:
    expr = Expr("like", "boolean", (Expr("literal", "text", value=text),), value=pattern)
    return evaluate(expr, {})


def naive(text: str, pattern: str) -> bool:
    """By the definition: which beginnings of the text the beginning of the pattern covers."""
    covered = [True] + [False] * len(text)
    for sign in pattern:
        if sign == "%":
            covered = [any(covered[: n + 1]) for n in range(len(covered))]
        else:
            fits = [sign in ("_", char) for char in text]
            covered = [False, *(before and fit for before, fit in zip(covered, fits, strict=False))]
    return covered[-1]


patterns = st.lists(st.sampled_from("%%%__aaab.\\\n'*#ü\U0001f600"), max_size=9).map("".join)
texts = st.text(st.sampled_from(SIGNS), max_size=9)


@given(texts, patterns)
@example("aba", "ab%ba")
@example("aab", "%a%ab")
@example("aab", "%aab%ab")
@example("", "%%")
@example("a\n", "%a")
@example("\U0001f600", "_")
@example("\U0001f600", "%__")
def test_like_covers_what_its_definition_says(text: str, pattern: str) -> None:
    assert like(text, pattern) is naive(text, pattern)


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "", ".", "ü"]), min_size=1, max_size=5).map(":".join),
    st.lists(
        st.sampled_from(["a", "b", "*", "#", "a*", "*b", "*a*", "**", "."]), min_size=1, max_size=4
    ).map(":".join),
)
@example("a:a:a:b", "*a:#:*b")
@example("a:b:c", "*:#")
@example("a::b", "a:#:b")
def test_the_regex_of_a_pattern_covers_the_channels_the_pattern_covers(
    name: str, pattern: str
) -> None:
    found = re.search(channel_regex(pattern, r"\Z"), name) is not None
    assert found == matches(pattern, name)


@pytest.mark.parametrize(
    "pattern",
    [
        "%a%a%a%b",
        "%a%a%b%a",
        "%a_a%a_a%a_b%a",
        "%_a%_a%_a%_b_",
        "%%%%b_",
        f"%{'a' * 40}%{'a' * 40}b%a",
        f"%{'_' * 40}a%a%{'a' * 40}b_",
    ],
)
def test_the_longest_text_is_decided_at_once_whatever_the_pattern(pattern: str) -> None:
    text = "a" * PAYLOAD_CHARS
    expr = parse(f"payload like '{pattern}'", Scope())
    started = time.process_time()
    assert evaluate(expr, {"text": text}) is False
    assert time.process_time() - started < 0.5


def test_the_longest_channel_is_decided_at_once_whatever_the_pattern() -> None:
    name = "a" * CHANNEL_BYTES_MAX
    started = time.process_time()
    assert re.search(channel_regex("*a*a*a*b", r"\Z"), name) is None
    assert time.process_time() - started < 0.05
