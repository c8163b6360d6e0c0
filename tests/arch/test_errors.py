"""Error numbers are public: each is there once, in its range, and in the documentation."""

import re

from arauto.errors import Code
from tests.arch.source import ROOT, Module, assert_none, modules

_PAGE = ROOT / "docs" / "protocol" / "errors.md"
_DEFINITION = re.compile(r"^    ([A-Z_]+) = (\d+)  # (.+)$", re.MULTILINE)


def _errors_module() -> Module:
    return next(module for module in modules() if module.name == "errors.py")


def test_no_number_stands_for_two_errors() -> None:
    # An enum makes the second name of a number an alias of the first, without a word.
    assert list(Code.__members__) == [code.name for code in Code]


def test_every_error_has_a_sentence_beside_it() -> None:
    described = {name for name, _number, _meaning in _DEFINITION.findall(_errors_module().text)}
    assert_none(code.name for code in Code if code.name not in described)


def test_numbers_lie_in_the_ranges_that_tell_clients_what_to_do() -> None:
    assert_none(f"{code.name} = {code.value}" for code in Code if not 1000 <= code < 9000)


def test_every_error_is_documented() -> None:
    rows = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert_none(
        f"{code.value} {code.name}"
        for code in Code
        if not any(str(code.value) in row and code.name in row for row in rows)
    )


def test_the_documentation_names_no_error_that_does_not_exist() -> None:
    named = re.findall(r"^\|\s*`?(\d{4})`?\s*\|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert_none(number for number in named if int(number) not in set(Code))
