"""Routes of roll-ups."""

from typing import Annotated

from litestar import get, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from arauto.admin.rollups import PAGE_LEN_MAX, PeriodName, RollupBody, RollupPage, RollupsStored
from arauto.admin.routes.common import HubName, Ops, errors
from arauto.limits import UINT53_MAX

__all__ = ["ROUTES"]

_Period = Annotated[PeriodName, PathParameter(description="How long each row is.")]
_FromMs = Annotated[
    int,
    QueryParameter(
        name="fromMs",
        description="Rows that start no earlier; 0 = 24 hours, 30 days or a year before `toMs`.",
        ge=0,
        le=UINT53_MAX,
    ),
]
_ToMs = Annotated[
    int,
    QueryParameter(
        name="toMs", description="Rows that start earlier; 0 = now.", ge=0, le=UINT53_MAX
    ),
]
_Limit = Annotated[int, QueryParameter(description="Periods in the page.", ge=1, le=PAGE_LEN_MAX)]


@post(
    "/v1/analytics/rollups",
    operation_id="storeRollups",
    summary="Store roll-ups",
    description="For the data pipeline: keeps sums over periods. A row replaces the one of the same period, "
    "hub and start, so sending rows again changes nothing. Five-minute rows are kept for 90 days, hourly "
    "rows for three years, daily rows for ever; older ones are skipped.",
    tags=["analytics"],
    status_code=200,
    responses=errors(413),
)
async def store_rollups(ops: Ops, data: JSONBody[RollupBody]) -> RollupsStored:
    return await ops.analytics.store(data.rows)


@get(
    "/v1/analytics/{period:str}",
    operation_id="getAnalytics",
    summary="Look at traffic over time",
    description="All hubs together, as the data pipeline summed them up; oldest first.",
    tags=["analytics"],
    responses=errors(404),
)
async def get_analytics(
    ops: Ops, period: _Period, from_ms: _FromMs = 0, to_ms: _ToMs = 0, limit: _Limit = PAGE_LEN_MAX
) -> RollupPage:
    return await ops.analytics.page(period, from_ms=from_ms, to_ms=to_ms, limit=limit)


@get(
    "/v1/hubs/{hub:str}/analytics/{period:str}",
    operation_id="getHubAnalytics",
    summary="Look at a hub's traffic over time",
    description="As the data pipeline summed it up; oldest first. Also of hubs that are gone.",
    tags=["analytics"],
    responses=errors(404),
)
async def get_hub_analytics(
    ops: Ops,
    hub: HubName,
    period: _Period,
    from_ms: _FromMs = 0,
    to_ms: _ToMs = 0,
    limit: _Limit = PAGE_LEN_MAX,
) -> RollupPage:
    return await ops.analytics.page(period, hub, from_ms=from_ms, to_ms=to_ms, limit=limit)


ROUTES = (store_rollups, get_analytics, get_hub_analytics)
