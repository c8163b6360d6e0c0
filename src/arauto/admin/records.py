"""What the admin API answers with. Immutable records, the same for every transport; camelCase outside.

Settings are those of `arauto.settings`; messages and members look as in the protocol's JSON flavour. The
string under a field is its documentation in the API's description.
"""

import msgspec

from arauto.codec import json_event_shapes as shapes
from arauto.codec.json_values import SerialShape
from arauto.model import When
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules
from arauto.telemetry.metrics import NodeGauges, Totals

__all__ = [
    "ChannelPage",
    "ChannelSettingsInfo",
    "ChannelSettingsPage",
    "CorrelationBody",
    "CorrelationDetail",
    "CorrelationInfo",
    "CorrelationPage",
    "Health",
    "History",
    "HubGauges",
    "HubInfo",
    "HubInterval",
    "HubPage",
    "HubStats",
    "HubSummary",
    "Interval",
    "JournalExported",
    "ListenerInfo",
    "LiveChannel",
    "NamespaceInfo",
    "NamespacePage",
    "NodeInfo",
    "NodeStats",
    "OccupancyInfo",
    "PresenceInfo",
    "Problem",
    "Revoked",
    "RulesInfo",
    "RulesPage",
    "SessionGrant",
    "SessionInfo",
    "SessionPage",
    "SessionSummary",
    "StoredInfo",
]


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Problem(_Record, frozen=True, kw_only=True):
    """Why a request was refused."""

    code: int
    """The public error number; see docs/protocol/errors.md."""
    message: str
    """A sentence for a person."""
    field: str
    """The part of the request at fault, or ""."""


# --- settings --------------------------------------------------------------------------------------


class HubSummary(_Record, frozen=True, kw_only=True):
    """A hub in a list."""

    name: str
    stored: bool
    """It has settings of its own; otherwise it was made on use and has the configured defaults."""
    open: bool
    """It is open on this node now."""
    sessions: int
    """Sessions connected to this node now."""
    channels: int
    """Channels open on this node now."""


class HubPage(_Record, frozen=True, kw_only=True):
    """Hubs in order of name."""

    items: list[HubSummary]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class HubInfo(_Record, frozen=True, kw_only=True):
    """A hub and its settings. Secrets show as `***`."""

    name: str
    stored: bool
    """It has settings of its own; otherwise these are the configured defaults."""
    open: bool
    """It is open on this node now."""
    settings: HubSettings
    version: str
    """Changes with the settings (not with secrets alone). "" if they are the defaults."""


class RulesInfo(_Record, frozen=True, kw_only=True):
    """Rules and their id."""

    id: str
    settings: Rules
    version: str
    """Changes with the settings."""


class RulesPage(_Record, frozen=True, kw_only=True):
    """Rules in order of id."""

    items: list[RulesInfo]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class NamespaceInfo(_Record, frozen=True, kw_only=True):
    """A namespace and what it is bound to."""

    id: str
    """What stands before the first `:` of a channel's name."""
    settings: NamespaceSettings
    version: str
    """Changes with the settings."""


class NamespacePage(_Record, frozen=True, kw_only=True):
    """Namespaces in order of name."""

    items: list[NamespaceInfo]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class ChannelSettingsInfo(_Record, frozen=True, kw_only=True):
    """One channel's own settings and metadata."""

    id: str
    """The channel's name."""
    settings: ChannelSettings
    version: str
    """Changes with the settings."""


class ChannelSettingsPage(_Record, frozen=True, kw_only=True):
    """Channels with settings of their own, in order of name."""

    items: list[ChannelSettingsInfo]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class CorrelationBody(_Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A correlation rule to register."""

    text: str
    """The rule, in YAML or JSON; see docs/topics/correlation.md."""
    enabled: bool = True
    """Whether the pipeline runs it."""


class CorrelationInfo(_Record, frozen=True, kw_only=True):
    """A correlation rule."""

    hub: str
    id: str
    """The rule's name."""
    text: str
    """As it was registered."""
    enabled: bool
    """Whether the pipeline runs it."""
    owner: str
    """The user who registered it; "" if an administrator did."""
    rule_version: int
    """What the text says."""
    version: str
    """Changes with anything above."""


class CorrelationDetail(CorrelationInfo, frozen=True, kw_only=True):
    """A correlation rule, and what keeps messages from it."""

    warnings: list[str]
    """Which messages it waits for in vain under the present rules of channels."""


class CorrelationPage(_Record, frozen=True, kw_only=True):
    """Correlation rules in order of hub and id."""

    items: list[CorrelationInfo]
    next: str
    """Give this as `after` for the next page; "" on the last."""


# --- what is live ----------------------------------------------------------------------------------


class LiveChannel(_Record, frozen=True, kw_only=True):
    """A channel that is open on this node."""

    name: str
    serial: SerialShape
    """The place of its last message."""
    members: int
    """Sessions that receive from it, by name or through a pattern."""
    rules: Rules
    """The rules that apply to it now."""


class ChannelPage(_Record, frozen=True, kw_only=True):
    """Open channels in order of name."""

    items: list[LiveChannel]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class StoredInfo(_Record, frozen=True, kw_only=True):
    """What the rules of a hub store of the channels that a name, pattern or topic can cover."""

    match: str
    store: list[When]
    """What goes for at least one channel there can be; one item = for all of them."""


class PresenceInfo(_Record, frozen=True, kw_only=True):
    """Who is in a channel, in order of arrival."""

    channel: str
    members: list[shapes.Member]
    """The first of them; no more than `channel.presencePageSize` of the configuration."""
    total: int
    """How many there are in all."""


class OccupancyInfo(_Record, frozen=True, kw_only=True):
    """How many sessions receive from a channel."""

    channel: str
    count: int


class History(_Record, frozen=True, kw_only=True):
    """A page of a channel's past."""

    channel: str
    messages: list[shapes.MessagePart]
    more: bool
    """There are further messages in this direction."""
    next: SerialShape | None
    """The place of the last message: give it as `since` (forward) or `until` (backward) to go on."""
    complete: bool
    """Nothing is missing from the range: the node can prove that it holds every message of it."""
    serial: SerialShape
    """The place of the channel's last message now."""


# --- sessions --------------------------------------------------------------------------------------


class SessionSummary(_Record, frozen=True, kw_only=True):
    """A session in a list."""

    id: str
    user: str
    """"" while it is anonymous."""
    address: str
    transport: str
    """`websocket` or `sse`."""
    since_ms: int
    subscriptions: int


class SessionPage(_Record, frozen=True, kw_only=True):
    """Sessions in order of id."""

    items: list[SessionSummary]
    next: str
    """Give this as `after` for the next page; "" on the last."""


class SessionGrant(_Record, frozen=True, kw_only=True):
    """Leave to publish to or subscribe to the channels a pattern covers."""

    channel: str
    publish: bool
    subscribe: bool


class SessionInfo(_Record, frozen=True, kw_only=True):
    """Everything about one session."""

    id: str
    user: str
    """"" while it is anonymous."""
    address: str
    transport: str
    """`websocket` or `sse`."""
    flavour: str
    """How its messages are written: `arauto.v1.proto`, `arauto.v1.json` or `sse`."""
    since_ms: int
    authenticated: bool
    auth_expires_ms: int
    """When its authentication ends; 0 = it does not."""
    subscriptions: list[str]
    """Channels, patterns and topics, in the order they were subscribed to."""
    grants: list[SessionGrant]
    rpc_grants: list[str]
    extra: dict[str, str]
    """What the auth provider or the token said beside the grants."""
    backlog_bytes: int
    """What waits because the client does not read fast enough."""


class Revoked(_Record, frozen=True, kw_only=True):
    """A user's sessions and credentials have ended."""

    user: str
    at_ms: int
    """Tokens and restore keys of before this moment no longer work."""
    sessions_ended: int
    """Connections of this node that were closed."""


# --- the node --------------------------------------------------------------------------------------


class ListenerInfo(_Record, frozen=True, kw_only=True):
    """A port that is open."""

    name: str
    """`client` or `admin`."""
    host: str
    port: int
    tls: bool


class NodeInfo(_Record, frozen=True, kw_only=True):
    """This node."""

    name: str
    version: str
    mode: str
    """`development` or `production`."""
    started_ms: int
    uptime_s: float
    listeners: list[ListenerInfo]
    storage: str
    """Where it stores: `sqlite`, `postgres` or `memory`."""
    dynamic_hubs: bool
    """Hubs are made on first use."""


class Interval(_Record, frozen=True, kw_only=True):
    """What happened on the node between two moments."""

    start_ms: int
    end_ms: int
    total: Totals
    gauges: NodeGauges
    """At the end of the interval."""
    sessions_peak: int


class NodeStats(_Record, frozen=True, kw_only=True):
    """What the node has done since it started, what it holds now, and its last intervals."""

    total: Totals
    gauges: NodeGauges
    intervals: list[Interval]
    """Oldest first."""


class HubGauges(_Record, frozen=True, kw_only=True):
    """What a hub holds on this node."""

    channels: int
    sessions: int
    subscriptions: int


class HubInterval(_Record, frozen=True, kw_only=True):
    """What happened in a hub between two moments."""

    start_ms: int
    end_ms: int
    total: Totals
    gauges: HubGauges
    """At the end of the interval."""
    sessions_peak: int


class HubStats(_Record, frozen=True, kw_only=True):
    """What a hub has done since it was opened here, what it holds now, and its last intervals."""

    total: Totals
    sessions: int
    channels: int
    subscriptions: int
    intervals: list[HubInterval]
    """Oldest first. Only those in which the hub was among the busiest are kept, and none in which it was
    idle and empty."""


class JournalExported(_Record, frozen=True, kw_only=True):
    """How far the journal is exported."""

    sealed_seq: int
    """Rows of this node's journal up to this one lie in segments."""


class Health(_Record, frozen=True, kw_only=True):
    """Whether the node serves."""

    status: str
    """`ok`, or `starting` or `stopping` (with status 503)."""
