"""Text from elsewhere cannot drive the terminal that shows it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.printable import one_line, printable

_ANY_TEXT = st.text(st.characters(exclude_categories=()))
_ORDINARY = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")))


@given(_ANY_TEXT)
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    left = {
        unicodedata.category(character) for character in printable(text) if character not in "\n\t"
    }
    assert not left & {"Cc", "Cs", "Zl", "Zp"}


@given(_ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(_ANY_TEXT)
def test_safe_text_is_not_changed_again(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31mred", "\\x9b31mred"),
        ("right\rwrong", "right\\x0dwrong"),
        ("abc\u202ecba", "abc\\u202ecba"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_escapes_show_what_was_there(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(_ANY_TEXT)
def test_text_for_a_line_stays_on_its_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert "\t" not in one_line(text)
