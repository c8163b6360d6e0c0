"""Authenticating, re-authenticating and taking up an earlier session, all without reconnecting."""

from collections.abc import Generator
from typing import TYPE_CHECKING

import msgspec

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Restored,
    RestoreRequest,
    SubscribeItem,
)
from arauto.errors import ArautoError, Code
from arauto.flow.authorise import subscribe_refusal
from arauto.grants import GrantSet
from arauto.hub.hub import Hub
from arauto.hub.matcher import Matcher
from arauto.hub.quota import TokenBucket
from arauto.model import Identity, Serial
from arauto.names import ALL_CHANNELS, is_wide
from arauto.session.access import Deciding, granted_to, withdrawn
from arauto.session.callers import caller_key
from arauto.session.cost import (
    admit_deciding,
    covered_cost,
    deciding_cost,
    grants_cost,
    items_cost,
)
from arauto.session.environment import SessionEnvironment
from arauto.session.greeting import auth_reply, expires_in_ms
from arauto.session.oneshot import Caller
from arauto.session.restore import SessionState
from arauto.session.subscribe import Plan, prepare, subscribe_now
from arauto.tasks import in_turns

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["admit_caller", "enter", "find_caller", "handle_auth", "handle_restore"]

#: Of the places that a returning client brings, so many are looked at in a turn, or so many patterns tried.
_SLICE_LEN = 256
#: Of its patterns, so many are compiled in a turn.
_PATTERNS_LEN = 16
#: A place counts once for each pattern that covers it. With more than so many, patterns begin anew.
_FOUND_LEN_MAX = 100_000


async def handle_auth(session: "Session", request: AuthRequest) -> None:
    admit_deciding(session)  # it came behind others, perhaps, whose price was not known yet
    try:
        identity = await _prove(
            session.env,
            session.hub.name,
            session.id,
            request.credentials,
            session.connection.address,
        )
        if session.has_ended() or session.outbox.closed:
            return  # the key that its client has brings back who it was
        granted = await _decide(session, identity)
        if session.has_ended() or session.outbox.closed:
            return
        deciding = Deciding(session)
        # All that it holds is looked at anew.
        cost = items_cost(len(session.subscriptions)) + grants_cost(identity.grants)
        session.bucket.owe(cost)
        session.bucket.owe(covered_cost(await in_turns(session.become(identity, granted))))
        if session.has_ended() or session.outbox.closed:
            return
        if session.identity is not identity:
            raise ArautoError(Code.TOKEN_EXPIRED, "the authentication expired meanwhile")
    except ArautoError as error:
        session.send(AuthReply(id=request.id, success=False, error=ErrorEvent.of(error)))
        session.note_refusal(error, "auth")
        return
    deciding.charge()
    session.errors = 0
    session.send(auth_reply(session, request.id))
    session.restorable.give_key()


async def _decide(session: "Session", identity: Identity) -> GrantSet | None:
    """The grants of who a session is about to become, with the answers for what it holds: where they have to
    be tried, some in a turn.

    Raises:
        ArautoError: as `granted_to`; AUTH_FAILED if the identity was withdrawn meanwhile.
    """
    granted = granted_to(session, identity)
    if granted is None or granted is session.granted or not granted.must_try:
        return granted
    hub, trying = session.hub, session.env.hub.trying
    caller = Caller(identity, granted=granted)
    for name in list(session.subscriptions):
        if trying.is_spent:
            await trying.turn()
        before = granted.effort
        subscribe_refusal(caller, name, hub.state.resolve_rules(name), hub.state.settings)
        trying.spend(deciding_cost(granted.effort - before))
    if session.env.authenticator.is_revoked(hub.name, identity):
        raise withdrawn()
    return granted


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
    restorer, hub = session.env.restorer, session.hub
    state = await restorer.take(hub.name, request.key)
    if session.has_ended():
        if session.restorable.was_lost:  # its client never heard of it, and has the key
            session.env.hub.tasks.spawn(restorer.save(hub.name, request.key, state))
        return
    if session.env.authenticator.is_revoked(session.hub.name, state.identity):
        raise withdrawn()
    id = session.id
    state = _replace_earlier(session, state)
    session.restorable.take_up(request.key, state)
    session.is_restoring = True
    try:
        plans = await _become(session, state, request.positions)
    finally:
        session.is_restoring = False
    if session.has_ended() or session.outbox.closed:
        return  # its connection is gone, and its end gives the key back
    if session.env.authenticator.is_revoked(hub.name, state.identity):
        session.disconnect(Code.FORCED_LOGOUT, "the user's access was withdrawn")
        return
    await _check_still(session, state.identity, id)
    results, welcomes = subscribe_now(session, plans)
    session.hub.counters.sessions_restored += 1
    session.errors = 0
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
    deciding = Deciding(session)
    session.recheck()
    deciding.charge()
    session.restorable.give_key()


async def _become(
    session: "Session", state: SessionState, positions: dict[str, Serial]
) -> list[Plan]:
    """Let it be who left the state, and prepare what that one held. None of it, if it is gone or revoked."""
    for name in list(session.subscriptions):
        session.drop_subscription(name)
    await in_turns(session.hub.leave(session.subscriber))
    is_revoked = session.env.authenticator.is_revoked(session.hub.name, state.identity)
    if session.has_ended() or session.outbox.closed or is_revoked:
        return []
    # Nothing waits from this question to `resume_as`: either the session knows of a revocation, or the
    # revocation finds the session.
    session.resume_as(state.session, state.identity)
    session.bucket.owe(items_cost(len(state.subscriptions)) + grants_cost(state.identity.grants))
    plans = await in_turns(_plans(state.subscriptions, positions))
    await prepare(session, plans)
    return plans


async def _check_still(session: "Session", identity: Identity, id: str) -> None:
    """Whether it is still who it has become. Else it is nobody now, under its own id, and holds nothing.

    Raises:
        ArautoError: TOKEN_EXPIRED.
    """
    is_over = 0 < identity.expires_ms <= session.env.hub.clock.wall_ms()
    if session.identity is identity and not is_over:
        return
    error = ArautoError(Code.TOKEN_EXPIRED, "the session's authentication expired meanwhile")
    for name in list(session.subscriptions):
        session.drop_subscription(name)
    await in_turns(session.hub.leave(session.subscriber))
    if session.has_ended():
        raise error
    session.hub.rename_session(session.subscriber, id)
    if session.identity is not None:
        session.send(ErrorEvent.of(error, 0))
    session.become(None)
    raise error


def _replace_earlier(session: "Session", state: SessionState) -> SessionState:
    """End the session's earlier connection, if it is still there; return what the session held."""
    earlier = session.hub.sessions.get(state.session)
    if earlier is None or earlier is session.subscriber:
        return state
    # The lost connection has not noticed yet, or another one has taken its place; now this one does.
    state = msgspec.structs.replace(state, subscriptions=earlier.session.held())
    earlier.session.disconnect(Code.SESSION_REPLACED, "the session continues on another connection")
    earlier.session.closed(Code.SESSION_REPLACED)
    return state


def _plans(
    subscriptions: dict[str, Serial | None], positions: dict[str, Serial]
) -> Generator[None, None, list[Plan]]:
    """What is to be subscribed to again, from where; a slice of the places at a time."""
    wide: Matcher[dict[str, Serial]] = Matcher()
    for index, name in enumerate(filter(is_wide, subscriptions), start=1):
        if index % _PATTERNS_LEN == 0:
            yield
        wide.add(name, {})
    found_len = 0
    slice_len = max(1, _SLICE_LEN // (1 + wide.tried_len + wide.forms_len))
    for index, (channel, serial) in enumerate(positions.items(), start=1):
        if index % slice_len == 0:
            yield
        found = wide.match(channel) if channel != ALL_CHANNELS else []
        found_len += len(found)
        if found_len > _FOUND_LEN_MAX:
            break
        for _, covered in found:
            covered[channel] = serial
    plans = []
    for name, began in subscriptions.items():
        covered_by = wide.get(name)
        if covered_by is None:
            item = SubscribeItem(channel=name, since=positions.get(name))
        elif found_len > _FOUND_LEN_MAX:
            item = SubscribeItem(channel=name)
        else:
            if began is not None:
                covered_by[ALL_CHANNELS] = began
            item = SubscribeItem(channel=name, positions=covered_by)
        plans.append(Plan(item))
    return plans
