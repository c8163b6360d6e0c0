"""Routes of hubs."""

from litestar import delete, get, put
from litestar.params import JSONBody

from arauto.admin.records import HubInfo, HubPage
from arauto.admin.routes.common import (
    ANY_VERSION,
    PAGE_LEN,
    After,
    By,
    Force,
    HubName,
    IfVersion,
    Limit,
    Ops,
    errors,
)
from arauto.settings import HubSettings

__all__ = ["ROUTES"]


@get(
    "/v1/hubs",
    operation_id="listHubs",
    summary="List hubs",
    description="Hubs that have settings or are open on this node, in order of name.",
    tags=["hubs"],
    responses=errors(),
)
async def list_hubs(ops: Ops, after: After = "", limit: Limit = PAGE_LEN) -> HubPage:
    return await ops.hubs.list(after=after, limit=limit)


@get(
    "/v1/hubs/{hub:str}",
    operation_id="getHub",
    summary="Get a hub's settings",
    description="Secrets show as `***`. A hub made on use shows the configured defaults.",
    tags=["hubs"],
    responses=errors(404),
)
async def get_hub(ops: Ops, hub: HubName) -> HubInfo:
    return await ops.hubs.get(hub)


@put(
    "/v1/hubs/{hub:str}",
    operation_id="setHub",
    summary="Set a hub's settings",
    description="Replaces all of them, making the hub if need be. Fields left out get their default; "
    "a secret given as `***` keeps its value. Running channels and sessions take the change at once.",
    tags=["hubs"],
    responses=errors(409, 413),
)
async def set_hub(
    ops: Ops, by: By, hub: HubName, data: JSONBody[HubSettings], if_version: IfVersion = ANY_VERSION
) -> HubInfo:
    return await ops.hubs.set(hub, data, by=by, if_version=if_version)


@delete(
    "/v1/hubs/{hub:str}",
    operation_id="deleteHub",
    summary="Delete a hub",
    description="Deletes its settings, rules, namespaces, channel settings and correlation rules, and closes "
    "it. What its channels stored stays; its sessions cannot be restored.",
    tags=["hubs"],
    responses=errors(404, 409),
)
async def delete_hub(
    ops: Ops, by: By, hub: HubName, force: Force = False, if_version: IfVersion = ANY_VERSION
) -> None:
    await ops.hubs.delete(hub, by=by, force=force, if_version=if_version)


ROUTES = (list_hubs, get_hub, set_hub, delete_hub)
