"""Routes of correlation rules."""

from litestar import delete, get, put
from litestar.params import JSONBody

from arauto.admin.records import CorrelationBody, CorrelationDetail, CorrelationPage
from arauto.admin.routes.common import (
    ANY_VERSION,
    PAGE_LEN,
    After,
    By,
    HubName,
    IfVersion,
    Limit,
    Ops,
    PartId,
    errors,
)

__all__ = ["ROUTES"]


@get(
    "/v1/correlations",
    operation_id="listAllCorrelations",
    summary="List the correlation rules of all hubs",
    description="In order of hub and id. The data pipeline reads its rules here.",
    tags=["correlations"],
    responses=errors(),
)
async def list_all_correlations(
    ops: Ops, after: After = "", limit: Limit = PAGE_LEN
) -> CorrelationPage:
    return await ops.correlations.list_all(after=after, limit=limit)


@get(
    "/v1/hubs/{hub:str}/correlations",
    operation_id="listCorrelations",
    summary="List a hub's correlation rules",
    description="In order of id.",
    tags=["correlations"],
    responses=errors(404),
)
async def list_correlations(
    ops: Ops, hub: HubName, after: After = "", limit: Limit = PAGE_LEN
) -> CorrelationPage:
    return await ops.correlations.list(hub, after=after, limit=limit)


@get(
    "/v1/hubs/{hub:str}/correlations/{id:str}",
    operation_id="getCorrelation",
    summary="Get a correlation rule",
    description="Its text, whose it is, and which messages it will not see (`warnings`).",
    tags=["correlations"],
    responses=errors(404),
)
async def get_correlation(ops: Ops, hub: HubName, id: PartId) -> CorrelationDetail:
    return await ops.correlations.get(hub, id)


@put(
    "/v1/hubs/{hub:str}/correlations/{id:str}",
    operation_id="setCorrelation",
    summary="Set a correlation rule",
    description="Replaces it whole, making it if need be; a client's rule becomes the administrator's. The "
    "id is the rule's name. A changed text needs a higher version of the rule. Running pipelines take it up "
    "by themselves. `warnings` tell of messages that it will not see, since their channels do not store "
    "them.",
    tags=["correlations"],
    responses=errors(404, 409, 413),
)
async def set_correlation(
    ops: Ops,
    by: By,
    hub: HubName,
    id: PartId,
    data: JSONBody[CorrelationBody],
    if_version: IfVersion = ANY_VERSION,
) -> CorrelationDetail:
    return await ops.correlations.set(
        hub, id, data.text, enabled=data.enabled, by=by, if_version=if_version
    )


@delete(
    "/v1/hubs/{hub:str}/correlations/{id:str}",
    operation_id="deleteCorrelation",
    summary="Delete a correlation rule",
    description="What it was waiting for is forgotten.",
    tags=["correlations"],
    responses=errors(404, 409),
)
async def delete_correlation(
    ops: Ops, by: By, hub: HubName, id: PartId, if_version: IfVersion = ANY_VERSION
) -> None:
    await ops.correlations.delete(hub, id, by=by, if_version=if_version)


ROUTES = (
    list_all_correlations,
    list_correlations,
    get_correlation,
    set_correlation,
    delete_correlation,
)
