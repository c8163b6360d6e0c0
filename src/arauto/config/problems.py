"""What can be wrong with a configuration, and where. Text here never contains a secret's value."""

import difflib
from collections.abc import Iterable, Sequence

import msgspec

from arauto.errors import ArautoError, Code

__all__ = ["ConfigError", "Place", "Problem", "nearest"]


class Place(msgspec.Struct, frozen=True):
    """Where a value was written: a spot in a file, or an environment variable, or nowhere."""

    file: str = ""
    line: int = 0
    """From 1; 0 = the file as a whole."""
    column: int = 0
    """From 1."""
    variable: str = ""

    def __str__(self) -> str:
        if self.variable:
            return self.variable
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is wrong."""

    place: Place
    path: str
    """The field, as `connection.port`; "" = the file as a whole."""
    message: str
    secret: bool = False
    """Whether the line it stands on must not be shown."""
    absent: bool = False
    """Whether the field is written nowhere; `place` is then where it could be."""

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.path, self.said) if part)

    @property
    def said(self) -> str:
        """The message, and that the file says nothing of the field, if so."""
        if not self.absent or not self.place.file:
            return self.message
        where = "the group here lacks it" if self.place.line else "the file does not have it"
        return f"{self.message} ({where})"


class ConfigError(ArautoError):
    """A configuration that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(
            Code.BAD_CONFIG,
            "\n".join(str(problem) for problem in problems),
            field=problems[0].path,
        )
        self.problems = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        return f"the configuration has {count} problem{'s'[: count > 1]}:\n{self.message}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that someone who wrote `name` most likely meant, or ""."""
    by_fold = {candidate.lower().replace("_", ""): candidate for candidate in known}
    found = difflib.get_close_matches(name[:100].lower().replace("_", ""), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else ""
