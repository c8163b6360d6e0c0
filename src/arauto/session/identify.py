"""Authenticating, re-authenticating and taking up an earlier session, all without reconnecting."""

from typing import TYPE_CHECKING

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Restored,
    RestoreRequest,
    SubscribeItem,
)
from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.names import is_pattern, is_topic, matches
from arauto.session.greeting import auth_reply
from arauto.session.subscribe import Plan, prepare, subscribe_now

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["authenticate", "handle_auth", "handle_restore"]


async def handle_auth(session: "Session", request: AuthRequest) -> None:
    try:
        identity = await authenticate(session, request.credentials)
        if session.has_ended():
            return
        session.become(identity)
    except ArautoError as error:
        session.send(AuthReply(id=request.id, success=False, error=ErrorEvent.of(error)))
        session.note_refusal(error, "auth")
        return
    session.send(auth_reply(session, request.id))
    session.give_restore_key()


async def authenticate(session: "Session", credentials: bytes) -> Identity:
    """Find out who holds these credentials. Nothing changes until the session takes the identity on, so
    a failed re-authentication leaves it as it was.

    Raises:
        ArautoError: as `Authenticating.authenticate`.
    """
    settings = session.hub.state.settings
    identity = await session.env.authenticator.authenticate(
        session.hub.name, settings, session.id, credentials, session.connection.address
    )
    now = session.hub.state.settings
    if (now.jwt, now.auth_provider) != (settings.jwt, settings.auth_provider):
        # Whoever was asked may no longer be the one to decide.
        raise ArautoError(
            Code.AUTH_UNAVAILABLE, "the hub's authentication changed meanwhile; retry"
        )
    return identity


async def handle_restore(session: "Session", request: RestoreRequest) -> None:
    hub = session.hub
    state = await session.env.restorer.take(hub.name, request.key)
    if session.has_ended():
        return
    if session.env.authenticator.is_revoked(hub.name, state.identity):
        raise ArautoError(Code.AUTH_FAILED, "the session's authentication was withdrawn")
    earlier = hub.sessions.get(state.session)
    subscriptions = state.subscriptions
    if earlier is None:
        # The lost connection may have been noticed after the key was taken, and saved it again.
        await session.env.restorer.forget(hub.name, request.key)
        if session.has_ended():
            return
    elif earlier is not session.subscriber:
        # The lost connection has not noticed yet; its place is taken now.
        subscriptions = earlier.session.held()
        earlier.session.disconnect(
            Code.SESSION_REPLACED, "the session continues on another connection"
        )
        earlier.session.closed(Code.SESSION_REPLACED)
    for name in list(session.subscriptions):
        session.drop_subscription(name)
    session.resume_as(state.session, state.identity)
    positions = request.positions
    plans = []
    for name in subscriptions:
        if is_pattern(name) or is_topic(name):
            covered = {c: s for c, s in positions.items() if matches(name, c)}
            plans.append(Plan(SubscribeItem(channel=name, positions=covered)))
        else:
            plans.append(Plan(SubscribeItem(channel=name, since=positions.get(name))))
    await prepare(session, plans)
    if session.has_ended():
        return
    results, welcomes = subscribe_now(session, plans)
    session.hub.counters.sessions_restored += 1
    session.send(
        Restored(
            id=request.id,
            session=session.id,
            user=state.identity.user,
            grants=state.identity.grants,
            extra=state.identity.extra,
            results=results,
        )
    )
    for welcome in welcomes:
        welcome.send(session)
    session.recheck()
    session.give_restore_key()
