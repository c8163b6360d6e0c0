"""Finding a channel for a session that may use it. Shared by everything a session asks of one channel.

Opening a channel may have to wait for the store. Meanwhile rules change, an authentication ends, and an
administrator shuts the user out; so whoever waited is asked again, and only the last answer counts.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from arauto.errors import ArautoError, Code
from arauto.flow import authorise
from arauto.flow.authorise import Who, publish_refusal, subscribe_refusal
from arauto.grants import GrantSet
from arauto.hub.channel import Channel
from arauto.model import Identity
from arauto.names import check_channel
from arauto.session.cost import admit_deciding, deciding_cost, matching_cost, pay
from arauto.settings import HubSettings, Rules

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = [
    "Deciding",
    "check_readable",
    "closed_again",
    "decide",
    "granted_to",
    "may_read",
    "must_try",
    "open_channel",
    "open_now",
    "open_readable",
    "open_writable",
    "readable",
    "withdrawn",
    "writable",
]


class Deciding:
    """What deciding by the session's grants takes from now on, where it is not asked for name by name."""

    __slots__ = ("_effort", "_granted", "_session")

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._granted = session.granted
        self._effort = session.granted.effort if session.granted is not None else 0

    @property
    def cost(self) -> float:
        """In tokens. The session's identity may be another now, with grants of its own."""
        granted = self._session.granted
        if granted is None or not granted.must_try:
            return 0
        return deciding_cost(granted.effort - (self._effort if granted is self._granted else 0))

    def charge(self) -> None:
        """Take it from the session's rate."""
        self._session.bucket.owe(self.cost)


def granted_to(session: "Session", identity: Identity | None) -> GrantSet | None:
    """The grants of who a session is about to become. Where they are those that it has, what was decided by
    them need not be decided again.

    Raises:
        ArautoError: as `GrantSet`.
    """
    if identity is None:
        return None
    has = session.identity
    if session.granted is not None and has is not None and has.grants == identity.grants:
        return session.granted
    return GrantSet(identity.grants)


def readable(session: "Session", name: str) -> Channel | None:
    """The channel, if the session may subscribe to it; None if it must be opened first."""
    check_channel(name)
    check_readable(session, name)
    return open_now(session, name)


def check_readable(session: "Session", name: str, *, is_admitted: bool = False) -> None:
    """Whether the session may read a channel, or what a pattern stands for. Ask again after a wait, if it was
    to pay meanwhile as one that `is_admitted`.

    Raises:
        ArautoError: if not; or RATE_LIMITED, if the session's grants have taken too much deciding.
    """
    _check(session, name, subscribe_refusal, is_admitted=is_admitted)


def may_read(session: "Session", name: str, rules: Rules) -> bool:
    """Whether the session may receive from a channel. Nobody is charged: see `Deciding`."""
    state, granted = session.hub.state, session.granted
    before = granted.effort if granted is not None else 0
    allowed = authorise.may_read(session, name, rules, state.settings)
    if granted is not None:
        session.env.hub.trying.spend(deciding_cost(granted.effort - before))
    return allowed


def must_try(session: "Session") -> bool:
    """Whether deciding what the session may read takes long."""
    return session.granted is not None and session.granted.must_try


async def decide(session: "Session", names: Iterable[str]) -> None:
    """Decide which of them the session may read, some in a turn, so that the answers are at hand."""
    trying = session.env.hub.trying
    deciding = Deciding(session)
    for name in names:
        if trying.is_spent:
            await trying.turn()
        session.may_read(name, session.hub.state.resolve_rules(name))
    deciding.charge()


def writable(session: "Session", name: str) -> Channel | None:
    """The channel, if the session may publish to it; None if it must be opened first."""
    check_channel(name)
    _check(session, name, publish_refusal)
    return open_now(session, name)


def open_now(session: "Session", name: str) -> Channel | None:
    """The channel, made now if that can be; the session pays for finding the patterns that lead there. None
    if it must be opened first: it needs storage, or enough was tried in this turn.

    Raises:
        ArautoError: as `Hub.channel`.
    """
    hub = session.hub
    channel = hub.channels.get(name)
    if channel is not None:
        return channel
    if hub.env.trying.is_spent:
        return None
    channel = hub.channel(name)
    if channel is not None:
        pay(session, matching_cost(channel.matching_effort))
    return channel


async def open_channel(session: "Session", name: str) -> Channel:
    """The same for a channel that must be opened first.

    Raises:
        ArautoError: as `Hub.open_channel`.
    """
    hub = session.hub
    await hub.env.trying.turn()
    is_open = name in hub.channels
    channel = await hub.open_channel(name)
    if not is_open:
        pay(session, matching_cost(channel.matching_effort))
    return channel


def _check(
    session: "Session",
    name: str,
    refusal_of: Callable[[Who, str, Rules, HubSettings], ArautoError | None],
    *,
    is_admitted: bool = False,
) -> None:
    state, granted = session.hub.state, session.granted
    rules = state.resolve_rules(name)
    if granted is None or not granted.must_try:
        refusal = refusal_of(session, name, rules, state.settings)
    else:
        # One request may name very many channels, each of which is tried against very many grants.
        if not is_admitted:
            admit_deciding(session)
        before = granted.effort
        refusal = refusal_of(session, name, rules, state.settings)
        pay(session, deciding_cost(granted.effort - before))
    if refusal is not None:
        raise refusal


async def open_readable(session: "Session", name: str) -> Channel:
    """As `readable`, for a channel that must be opened first."""
    return await _open(session, name, readable)


async def open_writable(session: "Session", name: str) -> Channel:
    """As `writable`, for a channel that must be opened first."""
    return await _open(session, name, writable)


async def _open(
    session: "Session", name: str, allowed: Callable[["Session", str], Channel | None]
) -> Channel:
    await open_channel(session, name)
    if session.is_revoked():
        raise withdrawn()
    session.check_expiry()
    channel = allowed(session, name)
    if channel is None:
        raise closed_again()
    return channel


def closed_again() -> ArautoError:
    """What somebody hears who waited for a channel that is gone by now."""
    return ArautoError(Code.STORAGE_UNAVAILABLE, "the channel closed again; retry", field="channel")


def withdrawn() -> ArautoError:
    """What somebody hears who was revoked while a request of theirs was waiting."""
    return ArautoError(Code.AUTH_FAILED, "the session's authentication was withdrawn")
