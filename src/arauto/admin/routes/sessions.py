"""Routes of sessions and users."""

from typing import Annotated

from litestar import delete, get, post
from litestar.params import PathParameter, QueryParameter

from arauto.admin.records import Revoked, SessionInfo, SessionPage
from arauto.admin.routes.common import PAGE_LEN, After, By, HubName, Limit, Ops, errors

__all__ = ["ROUTES"]

_SessionId = Annotated[str, PathParameter(description="The session's id.")]
_User = Annotated[
    str,
    PathParameter(
        description="The user's id, percent-encoded.",
        schema_extra={"minLength": 1, "maxLength": 128, "pattern": "^[^\\s*#]+$"},
    ),
]
_OfUser = Annotated[str, QueryParameter(description="Only sessions of this user.")]


@get(
    "/v1/hubs/{hub:str}/sessions",
    operation_id="listSessions",
    summary="List sessions",
    description="Sessions connected to this node, in order of id.",
    tags=["sessions"],
    responses=errors(404),
)
async def list_sessions(
    ops: Ops,
    hub: HubName,
    user: _OfUser = "",
    after: After = "",
    limit: Limit = PAGE_LEN,
) -> SessionPage:
    return await ops.sessions.list(hub, user=user, after=after, limit=limit)


@get(
    "/v1/hubs/{hub:str}/sessions/{id:str}",
    operation_id="getSession",
    summary="Look at a session",
    description="With its subscriptions and grants.",
    tags=["sessions"],
    responses=errors(404),
)
async def get_session(ops: Ops, hub: HubName, id: _SessionId) -> SessionInfo:
    return await ops.sessions.get(hub, id)


@delete(
    "/v1/hubs/{hub:str}/sessions/{id:str}",
    operation_id="disconnectSession",
    summary="End a session",
    description="Closes the connection with FORCED_LOGOUT and forgets its restore key, also of a lost "
    "session that may be restored. The user may connect again; to prevent that, revoke the user.",
    tags=["sessions"],
    responses=errors(404),
)
async def disconnect_session(ops: Ops, by: By, hub: HubName, id: _SessionId) -> None:
    await ops.sessions.disconnect(hub, id, by=by)


@post(
    "/v1/hubs/{hub:str}/users/{user:str}/revoke",
    operation_id="revokeUser",
    summary="Shut a user out",
    description="Ends the user's sessions and refuses every token and restore key given to them up to now. "
    "Tokens issued later work.",
    tags=["sessions"],
    status_code=200,
    responses=errors(404),
)
async def revoke_user(ops: Ops, by: By, hub: HubName, user: _User) -> Revoked:
    return await ops.sessions.revoke(hub, user, by=by)


ROUTES = (list_sessions, get_session, disconnect_session, revoke_user)
