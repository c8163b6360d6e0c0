"""Keeps books: what was sent, what was acknowledged, and what is found afterwards.

The classes of a Jepsen queue test: *ok* (acknowledged and there), *lost* (acknowledged and not there),
*duplicated* (there twice), *indefinite* (no answer came: may or may not be there, and is neither ok nor
lost), *refused* (answered with an error: must not be there).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from arauto.model import Serial

__all__ = ["DocumentBook", "MessageBook"]


class MessageBook:
    """The books of one stored channel. A message is known by its key, which is also its payload."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.acked: dict[str, Serial] = {}
        self.refused: dict[str, int] = {}
        """Key → error code."""
        self.unanswered = 0
        """Times a connection ended without the answer."""
        self.stored: list[tuple[Serial, str]] = []
        """What history returned, in its order."""
        self._found: dict[str, Serial] = {}
        self._last_of: dict[str, int] = {}
        self._unchecked: dict[str, Serial] = {}
        self._places: dict[Serial, str] = {}

    @property
    def last(self) -> Serial | None:
        return self.stored[-1][0] if self.stored else None

    def note_ack(self, key: str, serial: Serial) -> None:
        """A message was acknowledged.

        Raises:
            AssertionError: its place belongs to another message.
        """
        holder = self._places.setdefault(serial, key)
        assert holder == key, f"{self.channel}: {serial} was given to {holder} and to {key}"
        self.acked[key] = serial
        self._unchecked[key] = serial

    def note_stored(self, serial: Serial, key: str) -> None:
        """History holds this next. Keys are `publisher-number`, numbers growing.

        Raises:
            AssertionError: it is not in order, or is there twice.
        """
        name = self.channel
        assert self.last is None or serial > self.last, f"{name}: {serial} after {self.last}"
        assert key not in self._found, f"{name}: {key} is duplicated: {self._found[key]}, {serial}"
        publisher, _, number = key.partition("-")
        before = self._last_of.get(publisher, 0)
        assert int(number) > before, f"{name}: {key} comes after {publisher}-{before}"
        self._last_of[publisher] = int(number)
        self._found[key] = serial
        self.stored.append((serial, key))

    def forget_stored(self) -> None:
        """Begin reading anew."""
        self.stored.clear()
        self._found.clear()
        self._last_of.clear()
        self._unchecked = dict(self.acked)

    def take_acked(self) -> dict[str, Serial]:
        """What was acknowledged since it was last taken: to be found by who reads from now on."""
        taken, self._unchecked = self._unchecked, {}
        return taken

    def check(self, acked: Mapping[str, Serial]) -> "Findings":
        """Compare what was found with what had been acknowledged before it was read.

        Raises:
            AssertionError: a promise was broken; the message says which and for what.
        """
        name, found = self.channel, self._found
        lost = sorted(key for key in acked if key not in found)
        assert not lost, f"{name}: {len(lost)} acknowledged messages are gone: {lost[:5]}"
        moved = {key: (s, found[key]) for key, s in acked.items() if found[key] != s}
        assert not moved, f"{name}: acknowledged at one place, found at another: {moved}"
        wrongly = [key for key in self.refused if key in found]
        assert not wrongly, f"{name}: refused, yet stored: {wrongly[:5]}"
        return Findings(ok=len(acked), unasked=len(found) - len(acked))


@dataclass
class DocumentBook:
    """The books of one document: a list that every change appends one id to."""

    channel: str
    acked: dict[int, str] = field(default_factory=dict)
    """Version → the id whose change was acknowledged with it."""
    refused: list[str] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    unanswered: int = 0

    def check(self, acked: Mapping[int, str], version: int, entries: list[str]) -> "Findings":
        """Compare the document with what was promised.

        Args:
            acked: what had been acknowledged before the document was fetched.
            version: of the document.
            entries: in the document.

        Raises:
            AssertionError: a promise was broken.
        """
        name = self.channel
        assert version == len(entries), f"{name}: version {version}, but {len(entries)} changes"
        assert len(set(entries)) == len(entries), f"{name}: a change was made twice"
        assert set(entries) <= self.sent, f"{name}: changes that nobody sent"
        # The change acknowledged with version n made the n-th entry.
        wrong = {v: i for v, i in acked.items() if v > version or entries[v - 1] != i}
        assert not wrong, f"{name}: {len(wrong)} acknowledged changes are gone: {wrong}"
        wrongly = set(self.refused) & set(entries)
        assert not wrongly, f"{name}: refused, yet made: {wrongly}"
        return Findings(ok=len(acked), unasked=len(entries) - len(acked))


@dataclass
class Findings:
    """Counts for the summary line."""

    ok: int = 0
    unasked: int = 0
    """There, though the answer that says so never came."""

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.ok + other.ok, self.unasked + other.unasked)
