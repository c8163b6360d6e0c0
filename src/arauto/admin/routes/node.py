"""Routes of the node itself: what it is, what it counts, whether it is well."""

from typing import Annotated

from litestar import get, post
from litestar.params import QueryParameter

from arauto.admin.records import HubStats, JournalExported, NodeInfo, NodeStats
from arauto.admin.routes.common import By, HubName, Ops, errors

__all__ = ["ROUTES"]

_INTERVALS = 12
_Intervals = Annotated[
    int, QueryParameter(description="How many of the last intervals.", ge=0, le=100_000)
]


@get(
    "/v1/node",
    operation_id="getNode",
    summary="Look at the node",
    description="Its name, version, age and open ports.",
    tags=["node"],
    responses=errors(),
)
async def get_node(ops: Ops) -> NodeInfo:
    return await ops.stats.node_info()


@get(
    "/v1/stats",
    operation_id="getStats",
    summary="Count what the node did",
    description="Since it started, in the last intervals, and what it holds now.",
    tags=["node"],
    responses=errors(),
)
async def get_stats(ops: Ops, intervals: _Intervals = _INTERVALS) -> NodeStats:
    return await ops.stats.of_node(intervals=intervals)


@get(
    "/v1/hubs/{hub:str}/stats",
    operation_id="getHubStats",
    summary="Count what a hub did",
    description="Since it was opened here, in the last intervals, and what it holds now.",
    tags=["node"],
    responses=errors(404),
)
async def get_hub_stats(ops: Ops, hub: HubName, intervals: _Intervals = _INTERVALS) -> HubStats:
    return await ops.stats.of_hub(hub, intervals=intervals)


@post(
    "/v1/journal/export",
    operation_id="exportJournal",
    summary="Export the journal now",
    description="Seals all rows that are durable by now into segments, and answers when that is done; else "
    "the node does so every `journal.export.intervalS`. Those who ask at the same time share the work.",
    tags=["node"],
    status_code=200,
    responses=errors(409),
)
async def export_journal(ops: Ops, by: By) -> JournalExported:
    return await ops.journal.export(by=by)


ROUTES = (get_node, get_stats, get_hub_stats, export_journal)
