"""What a newer client may say that this version does not know: what is ignored, and what is not. Pure.

ADR 0009 has the rule. Decoders are strict; a second pass with an `Unknown` reads the request without the
fields this version does not know. Three things stay refused: fields whose sender says that they must be
understood, names that look like a typing error, and more of it than a newer version could want.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from arauto.codec.checks import bad_field
from arauto.errors import ArautoError, Code
from arauto.limits import UNKNOWN_BYTES_MAX

__all__ = [
    "ESSENTIAL_NUMBER_MIN",
    "ESSENTIAL_PREFIX",
    "Names",
    "Unknown",
    "UnknownFieldError",
    "check_unknown_bytes",
    "essential",
]

#: A field that a server must refuse if it does not know it has a name like this and a number from here on.
ESSENTIAL_PREFIX: Final = "must_"
ESSENTIAL_NUMBER_MIN: Final = 1_000

#: Shorter names have too many neighbours for one letter to mean anything.
_TYPO_LEN_MIN: Final = 4


class UnknownFieldError(ArautoError):
    """The first thing wrong with a request is a field that this version does not know."""

    def __init__(self, field: str, rule: str = "must have no unknown fields") -> None:
        super().__init__(Code.BAD_FIELD, rule, field=field)


class Unknown:
    """Collects what one request has that this version does not know. Holds nothing of what was sent."""

    __slots__ = ("count", "place", "seen_bytes")

    def __init__(self) -> None:
        self.count = 0
        """Fields ignored."""
        self.place = ""
        """Where the first of them is, in the words of the schema."""
        self.seen_bytes = 0

    def note(self, count: int, place: str) -> None:
        if not self.count:
            self.place = place
        self.count += count


def essential(field: str) -> ArautoError:
    """The refusal of a field that the server must know to carry out the request."""
    return bad_field(field, "must have no essential field that this node does not know")


def check_unknown_bytes(size_bytes: int, field: str) -> None:
    """Refuse more unknown fields than any newer version would send.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if size_bytes > UNKNOWN_BYTES_MAX:
        rule = f"must have at most {UNKNOWN_BYTES_MAX} bytes of unknown fields"
        raise bad_field(field, rule)


class Names:
    """The names of one message's fields, and what is so near to one of them that it was meant to be it."""

    __slots__ = ("_exact", "_near", "known")

    def __init__(self, names: Iterable[str]) -> None:
        self.known = frozenset(names)
        self._exact = {_plain(name): name for name in self.known}
        self._near: dict[str, str] = {}
        for plain, name in sorted(self._exact.items()):
            if len(plain) >= _TYPO_LEN_MIN:
                for form in _forms(plain):
                    self._near.setdefault(form, name)

    def meant_by(self, name: str) -> str:
        """Return the known name that differs from this one only by case, `_` or `-`, or a letter; or ""."""
        if len(name) > UNKNOWN_NAME_LEN_MAX:
            return ""
        plain = _plain(name)
        found = self._exact.get(plain, "")
        if not found and len(plain) >= _TYPO_LEN_MIN:
            found = next((self._near[form] for form in _forms(plain) if form in self._near), "")
        return found

    def check(self, name: str, place: str) -> None:
        """Refuse a name that is not known, unless it may be ignored.

        Raises:
            ArautoError: BAD_FIELD.
        """
        if name.startswith(ESSENTIAL_PREFIX):
            raise essential(place)
        meant = self.meant_by(name)
        if meant:
            raise bad_field(place, f"must have no unknown fields; did you mean {meant}?")


#: Longer than any name of the protocol, with the marks that `_plain` takes away.
UNKNOWN_NAME_LEN_MAX: Final = 40


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _forms(name: str) -> Iterator[str]:
    """The name, and what is left of it without one letter: two names one letter apart share a form."""
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]
