"""Reads the fields of a rule document: right name, right type, within bounds, or an error with its line."""

import re
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

import msgspec

from arauto.config.problems import Place
from arauto.config.source import Located
from arauto.correlation.coercion import ExpressionError
from arauto.correlation.expression import Expr
from arauto.correlation.parsing import parse
from arauto.correlation.scope import Scope, suggest
from arauto.errors import ArautoError, Code

__all__ = [
    "DURATION_MAX_MS",
    "Fields",
    "Findings",
    "bad_rule",
    "duration_ms",
    "expression_of",
    "items_of",
    "text_of",
]

T = TypeVar("T")

DURATION_MAX_MS = 7 * 86_400_000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)\Z")


def bad_rule(place: Place, path: str, message: str) -> ArautoError:
    """The one kind of error a document can cause."""
    where = f"line {place.line}, column {place.column}: " if place.line else ""
    what = f"{path}: " if path else ""
    return ArautoError(Code.BAD_RULE, f"{where}{what}{message}", field=path)


class Findings:
    """What is wrong with the parts of a document that can be read one without the other."""

    def __init__(self) -> None:
        self.errors: list[ArautoError] = []

    def of(self, read: Callable[[], T]) -> T | None:
        """What is read, or None if it cannot be, with the reason kept."""
        try:
            return read()
        except ArautoError as error:
            self.errors.append(error)
            return None


class Fields(msgspec.Struct):
    """A mapping of the document whose names have been checked."""

    place: Place
    path: str
    values: dict[str, Located]

    @classmethod
    def read(cls, located: Located, path: str, allowed: Iterable[str], shape: str) -> "Fields":
        """Check that this is a mapping and that it has known names only."""
        if not isinstance(located.value, dict):
            raise bad_rule(located.place, path, f"expected {shape}")
        names = list(allowed)
        for name, value in located.value.items():
            if name not in names:
                place = value.key_place or value.place
                below = f"{path}.{name}" if path else name
                raise bad_rule(place, below, f"unknown field{suggest(name, names)}")
        given = {name: value for name, value in located.value.items() if value.value is not None}
        return cls(located.key_place or located.place, path, given)

    def below(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, message: str) -> NoReturn:
        """Blame a field; if it is not there, the mapping it should be in."""
        given = self.values.get(name)
        raise bad_rule(given.place if given else self.place, self.below(name), message)

    def need(self, name: str, why: str) -> Located:
        """A field that must be there."""
        if name not in self.values:
            self.fail(name, f"missing; {why}")
        return self.values[name]

    def text(self, name: str, why: str) -> str:
        """A text that must be there."""
        return text_of(self.need(name, why), self.below(name))

    def flag(self, name: str) -> bool:
        """true or false; false if absent."""
        given = self.values.get(name)
        if given is None:
            return False
        if not isinstance(given.value, bool):
            self.fail(name, "expected true or false")
        return given.value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        given = self.values.get(name)
        if given is None:
            return default
        value = given.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fail(name, f"expected a whole number from {least} to {most}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first if absent."""
        given = self.values.get(name)
        if given is None:
            return choices[0]
        if not isinstance(given.value, str) or given.value not in choices:
            self.fail(name, f"expected {' or '.join(choices)}")
        return given.value

    def duration(self, name: str, least_ms: int, why: str) -> int:
        """A duration that must be there."""
        return duration_ms(self.need(name, why), self.below(name), least_ms)

    def duration_or(self, name: str, default_ms: int, least_ms: int) -> int:
        """A duration, or the default."""
        given = self.values.get(name)
        return duration_ms(given, self.below(name), least_ms) if given else default_ms

    def expression(self, name: str, scope: Scope, why: str) -> Expr:
        """An expression that must be there."""
        return expression_of(self.need(name, why), self.below(name), scope)

    def names(self) -> list[str]:
        """The fields that are there."""
        return list(self.values)


def text_of(located: Located, path: str) -> str:
    """A text; numbers and booleans written without quotes are refused rather than guessed."""
    if not isinstance(located.value, str) or not located.value:
        raise bad_rule(located.place, path, "expected text")
    return _joined(located, path)


def _joined(located: Located, path: str) -> str:
    # JSON writes characters beyond the first plane as two escapes; YAML reads them as two characters.
    text = str(located.value)
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise bad_rule(located.place, path, "half a character (a lone surrogate)") from None


def items_of(located: Located, path: str, most: int, shape: str) -> list[Located]:
    """The items of a list that is neither empty nor too long."""
    if not isinstance(located.value, list) or not located.value:
        raise bad_rule(located.place, path, f"expected a list of {shape}")
    if len(located.value) > most:
        raise bad_rule(located.place, path, f"more than {most} {shape}")
    return located.value


def duration_ms(located: Located, path: str, least_ms: int) -> int:
    """A duration such as 500ms, 5s, 10m, 1h or 7d, in milliseconds."""
    found = _DURATION.match(located.value) if isinstance(located.value, str) else None
    if found is None:
        raise bad_rule(located.place, path, "expected a duration such as 500ms, 5s, 10m, 1h or 7d")
    value_ms = int(found[1]) * _UNITS_MS[found[2]]
    if not least_ms <= value_ms <= DURATION_MAX_MS:
        raise bad_rule(located.place, path, f"a duration here lies between {least_ms}ms and 7d")
    return value_ms


def expression_of(located: Located, path: str, scope: Scope) -> Expr:
    """A checked expression; `true`, `5` and the like need no quotes."""
    value = located.value
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int | float):
        text = repr(value)
    elif isinstance(value, str):
        text = _joined(located, path)
    else:
        raise bad_rule(located.place, path, "expected an expression")
    try:
        return parse(text, scope)
    except ExpressionError as error:
        message = f"{error.message} (character {error.column})" if error.column else error.message
        raise bad_rule(located.place, path, message) from None
