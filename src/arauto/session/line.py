"""Where sessions stand in line for work on all they hold: some of it is done in a turn.

When a proxy restarts, thousands of connections end in one turn of the loop; sessions that signed in together
expire together; and each has up to thousands of subscriptions. Until its turn has come a session is like one
of which nobody has noticed yet: a lost one is seen by others, and a client that comes back takes its place.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Line"]

#: So many subscriptions are worked on in one turn, and each session counts for some.
_TURN_LEN = 2_000
_SESSION_LEN = 10
#: What a pattern counts for: the first slice of its channels is worked on at once.
_PATTERN_LEN = 500

_log = structlog.get_logger("arauto.session")


class Line:
    """One per node. Holds what there is to do for sessions, each of which comes seldom and for little. What
    is asked for again while it waits is in it once: an expired session is looked at each second."""

    __slots__ = ("_is_due", "_room_len", "_waiting")

    def __init__(self) -> None:
        # Not a dict: its first costs the more, the more were taken before.
        self._waiting: OrderedDict[tuple[Session, Callable[[], None]], None] = OrderedDict()
        self._room_len = 0
        """In this turn."""
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, session: "Session", act: Callable[[], None]) -> None:
        """Do it for a session: now, if not too much was done in this turn."""
        self._waiting[session, act] = None
        if not self._is_due:
            self._begin_turn(session)
        self._do_some()

    def finish(self) -> None:
        """Do all of it now."""
        while self._waiting:
            self._do_one()

    def _begin_turn(self, session: "Session") -> None:
        self._is_due = True
        self._room_len = _TURN_LEN
        session.env.hub.turn.soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        if self._waiting:
            self._begin_turn(next(iter(self._waiting))[0])
            self._do_some()

    def _do_some(self) -> None:
        while self._waiting and self._room_len > 0:
            self._do_one()

    def _do_one(self) -> None:
        (session, act), _ = self._waiting.popitem(last=False)
        wide_len = sum(channel is None for channel in session.subscriptions.values())
        self._room_len -= _SESSION_LEN + len(session.subscriptions) + _PATTERN_LEN * wide_len
        try:
            act()
        except Exception:
            # Ours to mend; the others must not wait for it.
            _log.exception("work for a session failed", hub=session.hub.name)
