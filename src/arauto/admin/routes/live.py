"""Routes of live channels, messages and their past."""

from typing import Annotated, Any, Literal

from litestar import Request, get, post
from litestar.params import JSONBody, QueryParameter

from arauto.admin.records import ChannelPage, History, OccupancyInfo, PresenceInfo, StoredInfo
from arauto.admin.routes.common import (
    PAGE_LEN,
    After,
    By,
    ChannelName,
    HubName,
    Limit,
    Ops,
    errors,
)
from arauto.codec.checks import bad_field
from arauto.codec.events import HistoryRequest
from arauto.codec.json_values import SerialShape, serial_from_json
from arauto.limits import HISTORY_PAGE_LEN_MAX, UINT53_MAX
from arauto.model import Direction, Serial
from arauto.session.oneshot import PublishBody, Published, items_of

__all__ = ["ROUTES"]

_Match = Annotated[
    str, QueryParameter(description="Only channels that this pattern or topic covers.")
]
_Covering = Annotated[str, QueryParameter(description="A channel, pattern or topic.")]
_Place = Annotated[
    str,
    QueryParameter(
        description="A place in the channel, exclusive: epoch and offset with a dash between them.",
        schema_extra={"pattern": "^([0-7][0-9a-f]{15}-[0-9]{1,15})?$"},
    ),
]
_FromMs = Annotated[
    int, QueryParameter(name="fromMs", description="Not before.", ge=0, le=UINT53_MAX)
]
_ToMs = Annotated[
    int, QueryParameter(name="toMs", description="Not after; 0 = now.", ge=0, le=UINT53_MAX)
]
_PageLen = Annotated[
    int,
    QueryParameter(
        description="Messages in the page; 0 = as many as the node gives at once.",
        ge=0,
        le=HISTORY_PAGE_LEN_MAX,
    ),
]
_Direction = Annotated[
    Literal["forward", "backward"], QueryParameter(description="Which way the page runs.")
]


@post(
    "/v1/hubs/{hub:str}/publish",
    operation_id="publish",
    summary="Publish messages",
    description="In order, to any channel. Each message has its own outcome: a refused one does not hold up "
    "the others, and the status is 200 all the same.",
    tags=["messages"],
    status_code=200,
    responses=errors(404, 413),
)
async def publish(
    ops: Ops, by: By, hub: HubName, data: JSONBody[PublishBody], request: Request[Any, Any, Any]
) -> Published:
    # The data pipeline publishes here, and marks what it publishes.
    items = items_of(data, reserved=frozenset())
    return await ops.live.publish(hub, items, by=by, size_bytes=len(await request.body()))


@get(
    "/v1/hubs/{hub:str}/channels",
    operation_id="listChannels",
    summary="List live channels",
    description="Channels that are open on this node, in order of name.",
    tags=["channels"],
    responses=errors(404),
)
async def list_channels(
    ops: Ops,
    hub: HubName,
    match: _Match = "",
    after: After = "",
    limit: Limit = PAGE_LEN,
) -> ChannelPage:
    return await ops.live.channels(hub, match=match, after=after, limit=limit)


@get(
    "/v1/hubs/{hub:str}/presence",
    operation_id="getPresence",
    summary="Who is in a channel",
    description="Refused (409) where the channel's rules do not enable presence.",
    tags=["channels"],
    responses=errors(404, 409),
)
async def get_presence(ops: Ops, hub: HubName, channel: ChannelName) -> PresenceInfo:
    return await ops.live.presence(hub, channel)


@get(
    "/v1/hubs/{hub:str}/occupancy",
    operation_id="getOccupancy",
    summary="How many are in a channel",
    description="Whatever the channel's rules say about occupancy.",
    tags=["channels"],
    responses=errors(404),
)
async def get_occupancy(ops: Ops, hub: HubName, channel: ChannelName) -> OccupancyInfo:
    return await ops.live.occupancy(hub, channel)


@get(
    "/v1/hubs/{hub:str}/stored",
    operation_id="getStored",
    summary="What is stored of channels",
    description="The `store` of all rules that channels under a pattern or topic can go by, open or not.",
    tags=["channels"],
    responses=errors(404),
)
async def get_stored(ops: Ops, hub: HubName, match: _Covering) -> StoredInfo:
    return await ops.live.stored(hub, match)


@get(
    "/v1/hubs/{hub:str}/history",
    operation_id="getHistory",
    summary="Read a channel's past",
    description="From the store where the channel stores, else from its live history. `next` continues it.",
    tags=["messages"],
    responses=errors(404, 429),
)
async def get_history(
    ops: Ops,
    hub: HubName,
    channel: ChannelName,
    since: _Place = "",
    until: _Place = "",
    from_ms: _FromMs = 0,
    to_ms: _ToMs = 0,
    limit: _PageLen = 0,
    direction: _Direction = "forward",
) -> History:
    request = HistoryRequest(
        channel=channel,
        since=_serial(since, "since"),
        until=_serial(until, "until"),
        from_ms=from_ms,
        to_ms=to_ms,
        limit=limit,
        direction=Direction.BACKWARD if direction == "backward" else Direction.FORWARD,
    )
    return await ops.live.history(hub, request)


def _serial(text: str, field: str) -> Serial | None:
    if not text:
        return None
    epoch, _, offset = text.partition("-")
    if not offset.isascii() or not offset.isdigit() or len(offset) > 16:
        raise bad_field(field, "must be an epoch and an offset with a dash between them")
    return serial_from_json(SerialShape(epoch, int(offset)), field)


ROUTES = (publish, list_channels, get_presence, get_occupancy, get_stored, get_history)
