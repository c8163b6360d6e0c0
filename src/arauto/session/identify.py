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
from arauto.hub.hub import Hub
from arauto.hub.quota import TokenBucket
from arauto.model import Identity, Serial
from arauto.names import ALL_CHANNELS, is_wide, matches
from arauto.session.access import withdrawn
from arauto.session.callers import caller_key
from arauto.session.environment import SessionEnvironment
from arauto.session.greeting import auth_reply, expires_in_ms
from arauto.session.oneshot import Caller
from arauto.session.restore import SessionState
from arauto.session.subscribe import Plan, prepare, subscribe_now

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["admit_caller", "enter", "find_caller", "handle_auth", "handle_restore"]


async def handle_auth(session: "Session", request: AuthRequest) -> None:
    try:
        identity = await _prove(
            session.env,
            session.hub.name,
            session.id,
            request.credentials,
            session.connection.address,
        )
        if session.has_ended():
            return
        session.become(identity)
    except ArautoError as error:
        session.send(AuthReply(id=request.id, success=False, error=ErrorEvent.of(error)))
        session.note_refusal(error, "auth")
        return
    session.send(auth_reply(session, request.id))
    session.restorable.give_key()


async def _prove(
    env: SessionEnvironment, hub: str, session: str, credentials: bytes, address: str
) -> Identity:
    """Find out who holds these credentials. Opens no hub, and changes nothing until somebody takes the
    identity on: a failed re-authentication leaves a session as it was.

    Raises:
        ArautoError: as `Authenticating.authenticate` and `Directory.look`.
    """
    settings = (await env.directory.look(hub)).settings
    identity = await env.authenticator.authenticate(hub, settings, session, credentials, address)
    now = (await env.directory.look(hub)).settings
    if (now.jwt, now.auth_provider) != (settings.jwt, settings.auth_provider):
        # Whoever was asked may no longer be the one to decide.
        raise ArautoError(
            Code.AUTH_UNAVAILABLE, "the hub's authentication changed meanwhile; retry"
        )
    if env.authenticator.is_revoked(hub, identity):
        raise withdrawn()
    return identity


async def find_caller(env: SessionEnvironment, hub: str, token: str, address: str) -> Caller:
    """Who asks something of a hub with one request; without a token nobody in particular.

    Raises:
        ArautoError: as `_prove`.
    """
    if not token:
        return Caller(None)
    identity = await _prove(env, hub, "", token.encode(), address)
    return Caller(identity, lambda: env.authenticator.is_revoked(hub, identity))


async def admit_caller(
    env: SessionEnvironment, hub: str, token: str, address: str, cost: int = 1
) -> tuple[Caller, TokenBucket]:
    """As `find_caller`, within the caller's rate. Who proves nothing counts as a stranger.

    Raises:
        ArautoError: as `find_caller`; and TooFastError.
    """
    state = await env.directory.look(hub)
    quotas, is_set_up = state.settings.quotas, state.is_set_up
    now_s = env.hub.clock.monotonic_s
    stranger = caller_key(hub, "", address, is_set_up=is_set_up)
    try:
        caller = await find_caller(env, hub, token, address)
    except ArautoError:
        env.callers.admit(stranger, quotas, now_s(), cost)
        raise
    key = caller_key(hub, caller.user, address, is_set_up=is_set_up)
    return caller, env.callers.admit(key, quotas, now_s(), cost)


async def enter(
    env: SessionEnvironment, hub: str, session: str, token: str, address: str
) -> tuple[Hub, Identity | None]:
    """The hub that a session is about to join, and what the token of its request proves. The token comes
    first: who is refused opens no hub. Nothing may wait from here to the session's start, so that a
    revocation is either seen here or finds the session.

    Raises:
        ArautoError: as `_prove` and `Directory.get`.
    """
    if not token:
        return await env.directory.get(hub, stranger=address), None
    identity = await _prove(env, hub, session, token.encode(), address)
    found = await env.directory.get(hub)
    if env.authenticator.is_revoked(hub, identity):
        raise withdrawn()
    return found, identity


async def handle_restore(session: "Session", request: RestoreRequest) -> None:
    state = await _take(session, request.key)
    if session.has_ended():
        return
    if session.env.authenticator.is_revoked(session.hub.name, state.identity):
        raise withdrawn()
    # Nothing waits from this question to `resume_as`: either the session knows of a revocation, or the
    # revocation finds the session.
    subscriptions = _replace_earlier(session, state)
    for name in list(session.subscriptions):
        session.drop_subscription(name)
    session.resume_as(state.session, state.identity)
    plans = _plans(subscriptions, request.positions)
    await prepare(session, plans)
    if session.has_ended():
        return
    if session.is_revoked():
        session.disconnect(Code.FORCED_LOGOUT, "the user's access was withdrawn")
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
            expires_in_ms=expires_in_ms(session),
        )
    )
    for welcome in welcomes:
        welcome.send(session)
    session.recheck()
    session.restorable.give_key()


async def _take(session: "Session", key: str) -> SessionState:
    """Take the state out of the store, and make sure that it stays out."""
    restorer, hub = session.env.restorer, session.hub
    state = await restorer.take(hub.name, key)
    if state.session not in hub.sessions:
        # The lost connection may have been noticed after the key was taken, and saved it again.
        await restorer.forget(hub.name, key)
    return state


def _replace_earlier(session: "Session", state: SessionState) -> dict[str, Serial | None]:
    """End the session's earlier connection, if it is still there; return what the session held."""
    earlier = session.hub.sessions.get(state.session)
    if earlier is None or earlier is session.subscriber:
        return state.subscriptions
    # The lost connection has not noticed yet, or another one has taken its place; now this one does.
    subscriptions = earlier.session.held()
    earlier.session.disconnect(Code.SESSION_REPLACED, "the session continues on another connection")
    earlier.session.closed(Code.SESSION_REPLACED)
    return subscriptions


def _plans(subscriptions: dict[str, Serial | None], positions: dict[str, Serial]) -> list[Plan]:
    plans = []
    for name, began in subscriptions.items():
        if is_wide(name):
            covered = {c: s for c, s in positions.items() if c != ALL_CHANNELS and matches(name, c)}
            if began is not None:
                covered[ALL_CHANNELS] = began
            plans.append(Plan(SubscribeItem(channel=name, positions=covered)))
        else:
            plans.append(Plan(SubscribeItem(channel=name, since=positions.get(name))))
    return plans
