"""Routes of rules, namespaces and channel settings."""

from typing import Annotated

from litestar import delete, get, put
from litestar.params import JSONBody, QueryParameter

from arauto.admin.operations.parts import Part
from arauto.admin.records import (
    ChannelSettingsInfo,
    ChannelSettingsPage,
    NamespaceInfo,
    NamespacePage,
    RulesInfo,
    RulesPage,
)
from arauto.admin.routes.common import (
    ANY_VERSION,
    PAGE_LEN,
    After,
    By,
    ChannelName,
    Force,
    HubName,
    IfVersion,
    Limit,
    Ops,
    PartId,
    errors,
)
from arauto.settings import ChannelSettings, NamespaceSettings, Rules

__all__ = ["ROUTES"]

# --- rules -----------------------------------------------------------------------------------------


def _rules(part: Part[Rules]) -> RulesInfo:
    return RulesInfo(id=part.id, settings=part.settings, version=part.version)


@get(
    "/v1/hubs/{hub:str}/rules",
    operation_id="listRules",
    summary="List a hub's rules",
    description="In order of id.",
    tags=["rules"],
    responses=errors(404),
)
async def list_rules(
    ops: Ops, hub: HubName, after: After = "", limit: Limit = PAGE_LEN
) -> RulesPage:
    page, cursor = await ops.rules.list(hub, after=after, limit=limit)
    return RulesPage(items=[_rules(part) for part in page], next=cursor)


@get(
    "/v1/hubs/{hub:str}/rules/{id:str}",
    operation_id="getRules",
    summary="Get rules",
    description="What these rules say.",
    tags=["rules"],
    responses=errors(404),
)
async def get_rules(ops: Ops, hub: HubName, id: PartId) -> RulesInfo:
    return _rules(await ops.rules.get(hub, id))


@put(
    "/v1/hubs/{hub:str}/rules/{id:str}",
    operation_id="setRules",
    summary="Set rules",
    description="Replaces them whole, making them if need be. The change reaches running channels at once, "
    "and ends the subscriptions it no longer allows.",
    tags=["rules"],
    responses=errors(404, 409, 413),
)
async def set_rules(
    ops: Ops,
    by: By,
    hub: HubName,
    id: PartId,
    data: JSONBody[Rules],
    if_version: IfVersion = ANY_VERSION,
) -> RulesInfo:
    return _rules(await ops.rules.set(hub, id, data, by=by, if_version=if_version))


@delete(
    "/v1/hubs/{hub:str}/rules/{id:str}",
    operation_id="deleteRules",
    summary="Delete rules",
    description="Refused while something names them, unless forced; that then falls back to the next level.",
    tags=["rules"],
    responses=errors(404, 409),
)
async def delete_rules(
    ops: Ops,
    by: By,
    hub: HubName,
    id: PartId,
    force: Force = False,
    if_version: IfVersion = ANY_VERSION,
) -> None:
    await ops.rules.delete(hub, id, by=by, force=force, if_version=if_version)


# --- namespaces ------------------------------------------------------------------------------------


def _namespace(part: Part[NamespaceSettings]) -> NamespaceInfo:
    return NamespaceInfo(id=part.id, settings=part.settings, version=part.version)


@get(
    "/v1/hubs/{hub:str}/namespaces",
    operation_id="listNamespaces",
    summary="List a hub's namespaces",
    description="Those bound to rules, in order of name.",
    tags=["namespaces"],
    responses=errors(404),
)
async def list_namespaces(
    ops: Ops, hub: HubName, after: After = "", limit: Limit = PAGE_LEN
) -> NamespacePage:
    page, cursor = await ops.namespaces.list(hub, after=after, limit=limit)
    return NamespacePage(items=[_namespace(part) for part in page], next=cursor)


@get(
    "/v1/hubs/{hub:str}/namespaces/{id:str}",
    operation_id="getNamespace",
    summary="Get a namespace",
    description="Which rules its channels have.",
    tags=["namespaces"],
    responses=errors(404),
)
async def get_namespace(ops: Ops, hub: HubName, id: PartId) -> NamespaceInfo:
    return _namespace(await ops.namespaces.get(hub, id))


@put(
    "/v1/hubs/{hub:str}/namespaces/{id:str}",
    operation_id="setNamespace",
    summary="Bind a namespace to rules",
    description="The rules must exist. The change reaches running channels at once.",
    tags=["namespaces"],
    responses=errors(404, 409, 413),
)
async def set_namespace(
    ops: Ops,
    by: By,
    hub: HubName,
    id: PartId,
    data: JSONBody[NamespaceSettings],
    if_version: IfVersion = ANY_VERSION,
) -> NamespaceInfo:
    return _namespace(await ops.namespaces.set(hub, id, data, by=by, if_version=if_version))


@delete(
    "/v1/hubs/{hub:str}/namespaces/{id:str}",
    operation_id="deleteNamespace",
    summary="Unbind a namespace",
    description="Its channels fall back to the hub's rules.",
    tags=["namespaces"],
    responses=errors(404, 409),
)
async def delete_namespace(
    ops: Ops, by: By, hub: HubName, id: PartId, if_version: IfVersion = ANY_VERSION
) -> None:
    await ops.namespaces.delete(hub, id, by=by, if_version=if_version)


# --- channel settings ------------------------------------------------------------------------------


_OneChannel = Annotated[str, QueryParameter(description="Only this channel's; 404 if it has none.")]


def _channel(part: Part[ChannelSettings]) -> ChannelSettingsInfo:
    return ChannelSettingsInfo(id=part.id, settings=part.settings, version=part.version)


@get(
    "/v1/hubs/{hub:str}/channel-settings",
    operation_id="listChannelSettings",
    summary="List or get channel settings",
    description="Channels with settings of their own, in order of name; or, with `channel`, that one alone.",
    tags=["channel settings"],
    responses=errors(404),
)
async def list_channel_settings(
    ops: Ops,
    hub: HubName,
    channel: _OneChannel = "",
    after: After = "",
    limit: Limit = PAGE_LEN,
) -> ChannelSettingsPage:
    if channel:
        found = await ops.channel_settings.get(hub, channel)
        return ChannelSettingsPage(items=[_channel(found)], next="")
    page, cursor = await ops.channel_settings.list(hub, after=after, limit=limit)
    return ChannelSettingsPage(items=[_channel(part) for part in page], next=cursor)


@put(
    "/v1/hubs/{hub:str}/channel-settings",
    operation_id="setChannelSettings",
    summary="Set a channel's settings and metadata",
    description="Replaces them whole. Rules they name must exist. The change reaches the channel at once.",
    tags=["channel settings"],
    responses=errors(404, 409, 413),
)
async def set_channel_settings(
    ops: Ops,
    by: By,
    hub: HubName,
    channel: ChannelName,
    data: JSONBody[ChannelSettings],
    if_version: IfVersion = ANY_VERSION,
) -> ChannelSettingsInfo:
    found = await ops.channel_settings.set(hub, channel, data, by=by, if_version=if_version)
    return _channel(found)


@delete(
    "/v1/hubs/{hub:str}/channel-settings",
    operation_id="deleteChannelSettings",
    summary="Delete a channel's settings and metadata",
    description="The channel falls back to its namespace's rules, or the hub's.",
    tags=["channel settings"],
    responses=errors(404, 409),
)
async def delete_channel_settings(
    ops: Ops, by: By, hub: HubName, channel: ChannelName, if_version: IfVersion = ANY_VERSION
) -> None:
    await ops.channel_settings.delete(hub, channel, by=by, if_version=if_version)


ROUTES = (
    list_rules,
    get_rules,
    set_rules,
    delete_rules,
    list_namespaces,
    get_namespace,
    set_namespace,
    delete_namespace,
    list_channel_settings,
    set_channel_settings,
    delete_channel_settings,
)
