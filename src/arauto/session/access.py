"""Finding a channel for a session that may use it. Shared by everything a session asks of one channel.

Opening a channel may have to wait for the store. Meanwhile rules change, an authentication ends, and an
administrator shuts the user out; so whoever waited is asked again, and only the last answer counts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from arauto.errors import ArautoError, Code
from arauto.flow.authorise import publish_refusal, subscribe_refusal
from arauto.hub.channel import Channel
from arauto.names import check_channel

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["check_readable", "open_readable", "open_writable", "readable", "withdrawn", "writable"]


def readable(session: "Session", name: str) -> Channel | None:
    """The channel, if the session may subscribe to it; None if it must be opened first."""
    check_channel(name)
    check_readable(session, name)
    return session.hub.channel(name)


def check_readable(session: "Session", name: str) -> None:
    """Ask again after a wait whether the session may read a channel.

    Raises:
        ArautoError: if not.
    """
    state = session.hub.state
    refusal = subscribe_refusal(session, name, state.resolve_rules(name), state.settings)
    if refusal is not None:
        raise refusal


def writable(session: "Session", name: str) -> Channel | None:
    """The channel, if the session may publish to it; None if it must be opened first."""
    check_channel(name)
    state = session.hub.state
    refusal = publish_refusal(session, name, state.resolve_rules(name), state.settings)
    if refusal is not None:
        raise refusal
    return session.hub.channel(name)


async def open_readable(session: "Session", name: str) -> Channel:
    """As `readable`, for a channel that must be opened first."""
    return await _open(session, name, readable)


async def open_writable(session: "Session", name: str) -> Channel:
    """As `writable`, for a channel that must be opened first."""
    return await _open(session, name, writable)


async def _open(
    session: "Session", name: str, allowed: Callable[["Session", str], Channel | None]
) -> Channel:
    await session.hub.open_channel(name)
    if session.is_revoked():
        raise withdrawn()
    channel = allowed(session, name)
    if channel is None:
        raise ArautoError(
            Code.STORAGE_UNAVAILABLE, "the channel closed again; retry", field="channel"
        )
    return channel


def withdrawn() -> ArautoError:
    """What somebody hears who was revoked while a request of theirs was waiting."""
    return ArautoError(Code.AUTH_FAILED, "the session's authentication was withdrawn")
