"""Sessions: look at them, end them, and shut a user out."""

from collections.abc import Iterable

from arauto.admin.operations.changes import Changes
from arauto.admin.operations.states import States
from arauto.admin.paging import first_after, page_of
from arauto.admin.records import Revoked, SessionGrant, SessionInfo, SessionPage, SessionSummary
from arauto.admin.revoked import RevokedUsers
from arauto.errors import ArautoError, Code
from arauto.hub.hub import Hub
from arauto.hub.subscriber import Subscriber
from arauto.names import check_hub
from arauto.session.auth.identity import check_user
from arauto.session.restore import Restorer
from arauto.session.session import Session
from arauto.tasks import Pace

__all__ = ["Sessions"]


class Sessions:
    """The verbs on sessions and users of this node."""

    def __init__(
        self, states: States, changes: Changes, revoked: RevokedUsers, restorer: Restorer
    ) -> None:
        self._states = states
        self._changes = changes
        self._revoked = revoked
        self._restorer = restorer

    async def list(self, hub: str, *, user: str = "", after: str = "", limit: int) -> SessionPage:
        """The sessions of a hub, or of one of its users, in order of id.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_FIELD.
        """
        if user:
            check_user(user)
        running = await self._running(hub)
        if running is None:
            return SessionPage(items=[], next="")
        of_user = {subscriber.id: subscriber for subscriber in running.sessions_of(user)}
        there = of_user if user else running.sessions
        page, cursor = page_of(await first_after(there, after, limit + 1), limit)
        found = _sessions(there[id] for id in page if id in there)
        return SessionPage(items=[_summary(session) for session in found], next=cursor)

    async def get(self, hub: str, id: str) -> SessionInfo:
        """One session with its subscriptions and grants.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, NOT_FOUND.
        """
        return _info(await self._find(hub, id))

    async def disconnect(self, hub: str, id: str, *, by: str) -> None:
        """End a session, also one whose connection is lost and that may be restored. Its restore key is
        dead; its user may connect again with valid credentials.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, NOT_FOUND; StorageError if it may still be restored.
        """
        running = await self._running(hub)
        was_lost = False
        if running is None or id not in running.sessions:
            was_lost = await self._restorer.end(hub, id)
            # Meanwhile its client may have come back.
            running = await self._running(hub)
        subscriber = running.sessions.get(id) if running is not None else None
        if subscriber is None and not was_lost:
            raise _not_found("no session with that id is connected to this node or may be restored")
        with self._changes.recorded(hub, "session.disconnect", id, by=by):
            for session in _sessions([subscriber] if subscriber is not None else []):
                _end(session, "an administrator ended the session")
                # Its key is worth nothing now; nor is it to be after a restart.
                await self._restorer.end(hub, id)

    async def revoke(self, hub: str, user: str, *, by: str) -> Revoked:
        """End a user's sessions, and refuse every token and restore key given to them up to now.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_FIELD; StorageError if a restart would forget it.
        """
        check_user(user)
        running = await self._running(hub)
        with self._changes.recorded(hub, "user.revoke", user, by=by):
            # First the tokens: else a client could be back with one before its connection is closed.
            at_ms = self._revoked.revoke(hub, user)
            found = _sessions(running.sessions_of(user)) if running is not None else []
            pace = Pace()
            for session in found:
                steps = 10 + len(session.subscriptions)
                _end(session, "an administrator withdrew the user's access")
                await pace.after(steps)
            await self._revoked.keep(hub, user, at_ms)
        return Revoked(user=user, at_ms=at_ms, sessions_ended=len(found))

    async def _running(self, hub: str) -> Hub | None:
        return await self._states.running(check_hub(hub))

    async def _find(self, hub: str, id: str) -> Session:
        running = await self._running(hub)
        subscriber = running.sessions.get(id) if running is not None else None
        if subscriber is None:
            raise _not_found("no session with that id is connected to this node")
        return _sessions([subscriber])[0]


def _not_found(message: str) -> ArautoError:
    return ArautoError(Code.NOT_FOUND, message, field="id")


def _sessions(subscribers: Iterable[Subscriber]) -> list[Session]:
    found = [subscriber.session for subscriber in subscribers]
    return [session for session in found if isinstance(session, Session)]


def _end(session: Session, reason: str) -> None:
    session.disconnect(Code.FORCED_LOGOUT, reason)
    # A client that does not read would keep its connection, and so its subscriptions, for a while.
    session.closed(Code.FORCED_LOGOUT)


def _summary(session: Session) -> SessionSummary:
    return SessionSummary(
        id=session.id,
        user=session.user,
        address=session.connection.address,
        transport=session.connection.transport,
        since_ms=session.opened_ms,
        subscriptions=len(session.subscriptions),
    )


def _info(session: Session) -> SessionInfo:
    identity = session.identity
    grants = identity.grants if identity is not None else None
    return SessionInfo(
        id=session.id,
        user=session.user,
        address=session.connection.address,
        transport=session.connection.transport,
        flavour=session.outbox.format.name,
        since_ms=session.opened_ms,
        authenticated=identity is not None,
        auth_expires_ms=identity.expires_ms if identity is not None else 0,
        subscriptions=list(session.subscriptions),
        grants=[
            SessionGrant(channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe)
            for grant in (grants.channels if grants is not None else ())
        ],
        rpc_grants=list(grants.rpcs) if grants is not None else [],
        extra=identity.extra if identity is not None else {},
        backlog_bytes=session.outbox.backlog_bytes,
    )
