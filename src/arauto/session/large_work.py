"""Where large work of all sessions takes turns: so much of it is done in one turn of the loop.

Rates bound what one session asks for, not what many ask for in the same moment. So a large request is worked
on at once while there is room in this turn; else it stands in line, and the line goes on in the next turn.
Between two turns everybody else is heard. Neighbours: `held.py`, what waits behind a session's large request;
`pages.py`, pages of history.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from arauto.hub.share import Pool, Share

if TYPE_CHECKING:
    from arauto.hub.hub import Hub
    from arauto.session.session import Session

__all__ = ["LargeWork"]

#: So many bytes of requests are worked on in one turn, or one request. The worst ones take half a microsecond
#: for each byte.
_TURN_BYTES = 32_768
#: So many bytes of requests may wait in the node. No hub gets more of them than it leaves to the others.
_KEPT_BYTES_MAX = 64 << 20

_log = structlog.get_logger("arauto.session")


class LargeWork:
    """One per node."""

    __slots__ = ("_done_bytes", "_is_due", "_kept", "_pool", "_shares", "_soon", "_waiting")

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        """`soon` calls back after this turn's writes, as `Turn.soon` does."""
        self._soon = soon
        self._waiting: OrderedDict[object, tuple[int, Callable[[], None]]] = OrderedDict()
        self._done_bytes = 0
        """In this turn."""
        self._is_due = False
        self._pool = Pool(_KEPT_BYTES_MAX, leaves_room=True)
        self._shares: dict[Hub, Share] = {}
        self._kept: dict[Session, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, owner: object) -> bool:
        return owner in self._waiting

    # --- the line ----------------------------------------------------------------------------------

    def admits(self, size_bytes: int) -> bool:
        """Whether it may be worked on now, and is. Nobody goes before those who stand in line."""
        if self._waiting or not self._has_room(size_bytes):
            return False
        self._done_bytes += size_bytes
        self._look_again()
        return True

    def add(self, owner: object, size_bytes: int, act: Callable[[], None]) -> None:
        """Do it when it is this owner's turn, who is in the line once."""
        self._waiting[owner] = (size_bytes, act)
        self._look_again()

    def do(self, size_bytes: int, act: Callable[[], None]) -> None:
        """Do it now, or when it is its turn. It is not forgotten with any session."""
        if self.admits(size_bytes):
            act()
        else:
            self.add(object(), size_bytes, act)

    def forget(self, session: "Session") -> None:
        """It is gone, and what it sent as well."""
        self._waiting.pop(session, None)
        self.give(session, self._kept.get(session, 0))

    def sessions(self) -> "list[Session]":
        """Those of which anything waits."""
        return list(self._kept)

    def _has_room(self, size_bytes: int) -> bool:
        done_bytes = self._done_bytes
        return not done_bytes or done_bytes + size_bytes <= _TURN_BYTES

    def _look_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._soon(self._let_in)

    def _let_in(self) -> None:
        # What everybody else asked meanwhile is read in this turn of the loop,
        self._soon(self._let_out)

    def _let_out(self) -> None:
        # and what they were answered goes out at the end of this one.
        self._soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        self._done_bytes = 0
        while self._waiting:
            owner, (size_bytes, act) = next(iter(self._waiting.items()))
            if not self._has_room(size_bytes):
                break
            del self._waiting[owner]
            self._done_bytes += size_bytes
            try:
                act()
            except Exception:
                # Ours to mend; the others must not wait for it.
                _log.exception("large work for a session failed")
        if self._done_bytes:
            # Only now, so that what was answered is written before.
            self._look_again()

    # --- what is kept of those who wait ------------------------------------------------------------

    def keep(self, session: "Session", size_bytes: int) -> bool:
        """Let a session have so much wait, if its hub may."""
        hub = session.hub
        share = self._shares.get(hub) or Share(self._pool)
        if not share.take(size_bytes):
            return False
        self._shares[hub] = share
        self._kept[session] = self._kept.get(session, 0) + size_bytes
        return True

    def give(self, session: "Session", size_bytes: int) -> None:
        """So much of it waits no more."""
        kept_bytes = self._kept.get(session, 0)
        if not kept_bytes:
            return
        share = self._shares[session.hub]
        share.give(size_bytes)
        if kept_bytes > size_bytes:
            self._kept[session] = kept_bytes - size_bytes
        else:
            del self._kept[session]
        if not share.used_bytes:
            share.close()
            del self._shares[session.hub]
