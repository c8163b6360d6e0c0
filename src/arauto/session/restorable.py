"""One session's restorable state: the key its client holds, and what the store has under it."""

from typing import TYPE_CHECKING

from arauto.clock import Timer
from arauto.codec.events import RestoreKey
from arauto.errors import Code
from arauto.session.restore import SessionState

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Restorable"]

#: Whoever ends like this does not come back as the same session.
_FINAL = (
    Code.CLOSED_BY_CLIENT,
    Code.FORCED_LOGOUT,
    Code.SESSION_REPLACED,
    Code.HUB_CLOSED,  # one made later under the same name is another hub
)


class Restorable:
    """Writes the state a moment after each change, and when the connection is lost."""

    __slots__ = ("_due", "_key", "_session", "_taken", "was_lost")

    def __init__(self, session: "Session") -> None:
        self._session: Session | None = session
        self._key = ""
        self._taken: SessionState | None = None
        """What was found under the key, until the session has all of it."""
        self._due: Timer | None = None
        self.was_lost = False
        """Whether the session has ended in a way that leaves its client a way back."""

    def give_key(self) -> None:
        """Hand the client a fresh single-use key, unless restoring is off."""
        session = self._session
        if session is None or not session.env.restorer.ttl_s:
            return
        restorer = session.env.restorer
        self._forget(session)
        self._key = session.env.hub.entropy.token(24)
        self._taken = None
        session.send(RestoreKey(key=self._key, ttl_ms=int(restorer.ttl_s * 1000)))
        self.changed()

    def changed(self) -> None:
        """Identity or subscriptions changed: keep the state up to date, soon."""
        if self._taken is not None:
            return  # its key is used; the next is about to be given
        if self._key and self._due is None and self._session is not None:
            env = self._session.env
            self._due = env.hub.clock.call_later(env.limits.restore_save_delay_s, self._save_now)

    def take_up(self, key: str, state: SessionState) -> None:
        """The session is about to become the one that left this state under a key. If the connection is
        lost on the way, the client never heard of it: then the key works again."""
        if self._session is not None:
            self._forget(self._session)
            self._key, self._taken = key, state

    def closed(self, code: Code) -> None:
        """The connection is gone; the session still knows what it had."""
        session = self._session
        if session is None:
            return
        self.was_lost = code not in _FINAL
        if self.was_lost:
            self._save(session)
        else:
            self._forget(session)

    def leave(self) -> None:
        """The session has ended: what waits to be restored is in the store, and nothing of it here."""
        self._session = None
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _save_now(self) -> None:
        self._due = None
        if self._session is not None and self._taken is None:  # else the key is used by now
            self._save(self._session)

    def _save(self, session: "Session") -> None:
        state = self._taken
        if state is None and session.identity is not None:
            state = SessionState(session.id, session.identity, session.held())
        if state is not None and self._key:
            restorer = session.env.restorer
            session.env.hub.tasks.spawn(restorer.save(session.hub.name, self._key, state))

    def _forget(self, session: "Session") -> None:
        if self._key and self._taken is None:
            forget = session.env.restorer.forget(session.hub.name, self._key)
            session.env.hub.tasks.spawn(forget)
