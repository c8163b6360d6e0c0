"""May this client have that correlation rule? Pure decisions from grants, rules and names.

A rule reads for its owner and publishes in its owner's name, without a session that would be checked message
by message. So its owner must be allowed to do both by itself, for everything that the rule can touch.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from arauto.errors import ArautoError, Code
from arauto.flow.authorise import Granted, Who, publish_refusal, subscribe_refusal
from arauto.names import is_pattern, is_topic
from arauto.settings import HubSettings, Rules

__all__ = ["METHOD", "Asked", "Author", "correlation_refusal", "use_refusal"]

#: What a client must be granted to call.
METHOD = "arauto.correlation"


class _Callable(Granted, Protocol):
    def may_call(self, method: str) -> bool: ...


class Author(Who, Protocol):
    """Who registers rules."""

    @property
    def granted(self) -> _Callable | None: ...


class Asked(Protocol):
    """What matters of a rule."""

    @property
    def reads(self) -> Iterable[str]:
        """Channels, patterns and topics it listens to."""

    @property
    def reads_messages_only(self) -> bool:
        """Whether it looks at nothing in the journal but messages."""

    @property
    def emits(self) -> str:
        """The channel it publishes to."""


def use_refusal(who: Author) -> ArautoError | None:
    """Why this caller may not have rules at all; None if it may."""
    granted = who.granted
    if granted is None or not who.user:
        return ArautoError(Code.UNAUTHENTICATED, "correlation rules belong to a user; give a token")
    if not granted.may_call(METHOD):
        return ArautoError(Code.CALL_DENIED, f"no grant lets this user call {METHOD}")
    return None


def correlation_refusal(
    who: Author, asked: Asked, rules_of: Callable[[str], Rules], settings: HubSettings
) -> ArautoError | None:
    """Why this caller may not have this rule; None if it may.

    A pattern needs a grant that covers it whole. Where subscribers get by with public rules, each message
    is checked again before it is delivered; a rule's are not.
    """
    refusal = use_refusal(who)
    if refusal is not None:
        return refusal
    if not asked.reads_messages_only:
        return ArautoError(
            Code.SUBSCRIBE_DENIED, "a client's rule looks at messages only", field="from.kinds"
        )
    granted = who.granted
    assert granted is not None
    for name in asked.reads:
        wide = is_pattern(name) or is_topic(name)
        denied = (
            not granted.may_subscribe(name)
            if wide
            else subscribe_refusal(who, name, rules_of(name), settings) is not None
        )
        if denied:
            return ArautoError(
                Code.SUBSCRIBE_DENIED,
                "this user may not subscribe to all that the rule listens to",
                field="from.channels",
            )
    emits = asked.emits
    if publish_refusal(who, emits, rules_of(emits), settings) is not None:
        return ArautoError(
            Code.PUBLISH_DENIED,
            "this user may not publish where the rule publishes",
            field="emit.channel",
        )
    return None
