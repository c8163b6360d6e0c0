"""What a channel knows of a session that receives from it."""

from typing import Final, Protocol

from arauto.errors import Code
from arauto.hub.outbox import Outbox
from arauto.model import Member, Message, Serial
from arauto.settings import Rules

__all__ = ["HubSession", "Subscriber"]


class HubSession(Protocol):
    """The session above a subscriber, as far as the hub needs it. Implemented by the session layer."""

    def may_read(self, channel: str, rules: Rules) -> bool:
        """Whether the session may receive from a channel that one of its patterns covers."""

    def recheck(self) -> int:
        """Settings changed: end the subscriptions that are no longer allowed. How many it looked at."""

    def held(self) -> dict[str, Serial | None]:
        """Its subscriptions by name, and where those that cover many channels began."""

    def disconnect(self, code: Code, reason: str) -> None:
        """Tell the client why and end the connection."""

    def closed(self, code: Code) -> None:
        """Let go of everything now, without waiting for the connection to notice."""


class _Nobody:
    """Stands where a session was that has ended. Implements `HubSession`."""

    __slots__ = ()

    def may_read(self, channel: str, rules: Rules) -> bool:
        return False

    def recheck(self) -> int:
        return 0  # it holds nothing

    def held(self) -> dict[str, Serial | None]:
        return {}

    def disconnect(self, code: Code, reason: str) -> None:
        """It is gone."""

    def closed(self, code: Code) -> None:
        """It is gone."""


_NOBODY: Final = _Nobody()


class Subscriber:
    """A session's receiving end. One per session, shared by all its subscriptions."""

    __slots__ = ("extra", "id", "leaving_len", "outbox", "session", "user")

    def __init__(self, id: str, outbox: Outbox, session: HubSession) -> None:
        self.id = id
        self.user = ""
        self.extra: dict[str, str] = {}
        self.outbox = outbox
        self.session = session
        self.leaving_len = 0
        """Patterns it gave up some of whose channels it has not left yet."""

    def leave(self) -> None:
        """The session has ended: do not hold it, for it holds this."""
        self.session = _NOBODY

    def is_excluded(self, message: Message) -> bool:
        """Whether the publisher kept this message from this session."""
        exclude = message.exclude
        if not exclude:
            return False
        return exclude == "s:" + self.id or (bool(self.user) and exclude == "u:" + self.user)

    def as_member(self, joined_ms: int) -> Member:
        return Member(session=self.id, user=self.user, joined_ms=joined_ms, extra=self.extra)
