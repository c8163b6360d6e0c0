"""Who listened to what, and from when to when: rows of the journal, so many a second.

Together with the rows of messages they tell to whom a message went. So they are written only where someone
can ask that: for channels whose rules store messages, and for patterns and topics. Best effort, as all rows
about sessions: nobody waits for them.
"""

import msgspec

from arauto.clock import Clock
from arauto.hub.quota import TokenBucket
from arauto.hub.subscriber import Subscriber
from arauto.model import JSON, When
from arauto.settings import Rules
from arauto.storage.base import Journal, JournalEntry, Kind

__all__ = ["Attendance"]

#: Rows a second, per hub. When everybody comes back at once, the journal must not be full of it.
_ROWS_PER_S = 500.0

_PLAIN = b"{}"
_PATTERN = b'{"pattern":true}'


class Attendance:
    """One per hub."""

    __slots__ = ("_bucket", "_clock", "_enabled", "_hub", "_journal", "_left_out")

    def __init__(self, hub: str, clock: Clock, journal: Journal, *, enabled: bool) -> None:
        self._hub = hub
        self._clock = clock
        self._journal = journal
        self._enabled = enabled
        self._bucket = TokenBucket(_ROWS_PER_S, clock.monotonic_s())
        self._left_out = 0

    def began(self, subscriber: Subscriber, name: str, rules: Rules | None) -> None:
        """A session subscribed. `rules` are the channel's; None if the name is a pattern or topic."""
        if self._enabled and (rules is None or rules.store is not When.NEVER):
            self._note(Kind.SUBSCRIBE, subscriber, name, wide=rules is None)

    def ended(self, subscriber: Subscriber, name: str, rules: Rules | None) -> None:
        """A session that goes on gave up a subscription, or had to."""
        if self._enabled and (rules is None or rules.store is not When.NEVER):
            self._note(Kind.UNSUBSCRIBE, subscriber, name, wide=rules is None)

    def _note(self, kind: Kind, subscriber: Subscriber, name: str, *, wide: bool) -> None:
        if not self._bucket.take(self._clock.monotonic_s()):
            self._left_out += 1
            return
        payload = _PATTERN if wide else _PLAIN
        if self._left_out:
            # The next row tells how many are missing before it.
            details: dict[str, object] = {"pattern": True} if wide else {}
            details["leftOut"], self._left_out = self._left_out, 0
            payload = msgspec.json.encode(details)
        entry = JournalEntry(
            kind=kind,
            ts_ms=self._clock.wall_ms(),
            hub=self._hub,
            channel=name,
            session=subscriber.id,
            user=subscriber.user,
            content_type=JSON,
            payload=payload,
        )
        self._journal.append(entry, _ignore)


def _ignore(error: object) -> None:
    """The store counts and reports its own failures."""
