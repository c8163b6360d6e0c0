"""May this session do that? Pure decisions from rules, grants and names.

Each access feature (anonymous, public, client publish, user channel, grants) is one small check that
allows, refuses or has no say; the first that speaks decides, and if none does the answer is no.
They are asked before a channel exists, so that nothing is made for someone who may not use it.
"""

from collections.abc import Callable
from typing import Protocol

from arauto.errors import ArautoError, Code
from arauto.settings import HubSettings, Rules

__all__ = ["Granted", "Who", "may_read", "publish_refusal", "subscribe_refusal"]


class Granted(Protocol):
    """The grants of an authenticated session."""

    def may_subscribe(self, name: str) -> bool: ...

    def may_publish(self, channel: str) -> bool: ...


class Who(Protocol):
    """The session that asks. `granted` is None while it is anonymous."""

    @property
    def user(self) -> str: ...

    @property
    def granted(self) -> Granted | None: ...


class _Ask:
    """One question."""

    __slots__ = ("name", "publish", "rules", "settings", "who")

    def __init__(
        self, who: Who, name: str, rules: Rules, settings: HubSettings, *, publish: bool
    ) -> None:
        self.who = who
        self.name = name
        self.rules = rules
        self.settings = settings
        self.publish = publish


_Check = Callable[[_Ask], bool | ArautoError | None]


def _anonymous(ask: _Ask) -> ArautoError | None:
    if ask.who.granted is not None:
        return None
    if ask.settings.allow_anonymous and ask.rules.allow_anonymous:
        return None
    return ArautoError(
        Code.ANONYMOUS_DENIED, "anonymous sessions may not use this channel", field="channel"
    )


def _user_channel(ask: _Ask) -> bool | None:
    settings = ask.settings
    if not settings.user_channel or not ask.who.user:
        return None
    return True if ask.name == f"{settings.user_channel_namespace}:{ask.who.user}" else None


def _granted(ask: _Ask) -> bool | None:
    granted = ask.who.granted
    if granted is None:
        return None
    allowed = granted.may_publish(ask.name) if ask.publish else granted.may_subscribe(ask.name)
    return True if allowed else None


def _public(ask: _Ask) -> bool | None:
    return True if ask.rules.public and not ask.publish else None


def _client_publish(ask: _Ask) -> bool | None:
    if not ask.publish or not ask.rules.client_publish:
        return None
    if ask.rules.public:
        return True
    granted = ask.who.granted
    return True if granted is not None and granted.may_subscribe(ask.name) else None


_CHECKS: tuple[_Check, ...] = (_anonymous, _user_channel, _granted, _public, _client_publish)


def _decide(ask: _Ask) -> ArautoError | None:
    for check in _CHECKS:
        answer = check(ask)
        if answer is True:
            return None
        if isinstance(answer, ArautoError):
            return answer
    verb = "publish to" if ask.publish else "subscribe to"
    code = Code.PUBLISH_DENIED if ask.publish else Code.SUBSCRIBE_DENIED
    return ArautoError(code, f"no grant or rule lets this session {verb} it", field="channel")


def subscribe_refusal(
    who: Who, name: str, rules: Rules, settings: HubSettings
) -> ArautoError | None:
    """Why the session may not subscribe to a channel, pattern or topic; None if it may.

    A pattern or topic without a covering grant is allowed where its namespace's rules are public; what it
    then delivers is decided channel by channel with `may_read`.
    """
    return _decide(_Ask(who, name, rules, settings, publish=False))


def publish_refusal(who: Who, name: str, rules: Rules, settings: HubSettings) -> ArautoError | None:
    """Why the session may not publish to a channel; None if it may."""
    return _decide(_Ask(who, name, rules, settings, publish=True))


def may_read(who: Who, channel: str, rules: Rules, settings: HubSettings) -> bool:
    """Whether a channel that a pattern of the session covers may be delivered to it.

    A covering pattern grants nothing: the channel's own rules and the session's grants decide.
    """
    return _decide(_Ask(who, channel, rules, settings, publish=False)) is None
