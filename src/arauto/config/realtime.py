"""Configuration of what is inside the node: engine, hubs, sessions, channels and their limits."""

from typing import Annotated, Literal

import msgspec

from arauto.config.base import (
    RESERVED,
    Count,
    Interval,
    MemoryBytes,
    Name,
    PositiveCount,
    Seconds,
    Section,
)
from arauto.limits import HISTORY_PAGE_LEN_MAX, POSITIONS_LEN_MAX
from arauto.settings import HubSettings, Rules

__all__ = [
    "ChannelConfig",
    "EngineConfig",
    "HubConfig",
    "LimitsConfig",
    "NodeConfig",
    "SessionConfig",
    "StrangersConfig",
]


class NodeConfig(Section, frozen=True):
    """This process."""

    name: Name = "node-1"
    """Names the node in logs and metrics, and its part of the journal. Keep it the same across restarts
    of one data directory, and different between nodes that share a database."""
    mode: Literal["development", "production"] = "development"
    """`production` refuses to start with missing, short or well-known secrets. `development` makes up
    random ones at each start, so tokens do not survive a restart."""
    shutdown_grace_s: Seconds = 10
    """How long a stopping node waits for clients to leave and writes to finish. Longer spreads the
    reconnects of many clients over more time; shorter makes deployments quicker."""


class EngineConfig(Section, frozen=True):
    """What concerns every hub of the node."""

    allow_dynamic_hubs: bool = True
    """Create a hub the first time someone connects or publishes to it. Off, a hub must be set up by an
    administrator first, which stops strangers from making tenants; only `pipeline.systemHub` need not."""
    max_live_history_size: Count = 10_000
    """The most messages any channel keeps in memory, whatever its rules say. Memory per channel is up to
    this times the size of a message."""
    stats_collect_interval_s: Interval = 300
    """How often counters are summed up per hub and written to the journal. Shorter gives finer charts
    and more journal rows."""
    stats_keep_intervals: PositiveCount = 288
    """How many past intervals stay in memory for the admin API; 288 of 300 s are a day."""
    session_metrics_interval_s: Interval = 15
    """How often the number of sessions is sampled to find each interval's peak."""
    workers: Annotated[PositiveCount, RESERVED] = 1
    """Reserved for the cluster; ignored today. Node processes that share the port."""


class StrangersConfig(Section, frozen=True):
    """Hubs that a client which has not authenticated makes by connecting or publishing. They become like
    any other as soon as somebody who has authenticated, or an administrator, uses them."""

    hubs_max: Count = 1_000
    """Such hubs open at once on the node; 0 = as many as `limits.hubsMax` allows. More are refused."""
    hubs_per_address_max: Count = 100
    """Such hubs open at once from one address (of IPv6, from one /64); 0 = no limit. Behind a proxy all
    come from one address: set it to 0 there, or set the hubs up."""
    close_timeout_s: Seconds = 10
    """How long such a hub stays open while it has neither sessions nor channels."""
    sessions_max: Count = 1_000
    """Sessions connected to such a hub at once, if its quotas allow no fewer; 0 = as the quotas say."""
    channels_max: Count = 1_000
    """Channels open in such a hub at once, if its quotas allow no fewer; 0 = as the quotas say."""
    live_history_bytes_max: MemoryBytes = 262_144
    """Memory that live history takes in such a hub, if its quotas allow no less; 0 = as the quotas say.
    With this and the next three, as many such hubs as there may be leave three quarters of what the node
    may hold (`limits.…`) to the others."""
    retained_bytes_max: MemoryBytes = 262_144
    """Memory that retained messages take there, likewise."""
    backlogs_bytes_max: MemoryBytes = 262_144
    """Memory that what waits for slow readers takes there, likewise."""
    documents_bytes_max: MemoryBytes = 262_144
    """Memory that open documents take there, likewise."""
    idempotency_bytes_max: MemoryBytes = 4_194_304
    """Memory that idempotency keys take there, if its quotas allow no less: some 6,500 of them. It is more
    than of the others, since a retry whose key is forgotten is delivered again."""


class HubConfig(Section, frozen=True):
    """How hubs live, and what a hub starts from."""

    close_timeout_s: Seconds = 60
    """How long a hub stays open after its last session left. Longer keeps live history and presence
    warm for returning clients; shorter frees memory."""
    authenticate_request_timeout_s: Interval = 5
    """The longest an auth provider may take, whatever the hub's own setting says."""
    settings_refresh_s: Interval = 60
    """How often a running hub reads its settings again, in case an announcement of a change was lost."""
    defaults: HubSettings = HubSettings()
    """The settings of a hub that was created on first use."""
    default_rules: Rules = Rules()
    """The rules of channels for which a hub has no others."""
    strangers: StrangersConfig = StrangersConfig()


class SessionConfig(Section, frozen=True):
    """One client's connection context."""

    auth_deadline_s: Interval = 5
    """How long a session may stay anonymous in a hub that refuses anonymous sessions."""
    restore_ttl_s: Seconds = 120
    """How long a lost session's identity and subscriptions wait for its client to return; 0 = sessions
    cannot be restored. Longer helps mobile clients and keeps more state."""
    ping_interval_s: Interval = 25
    """How long a client may be silent before it is asked for a sign of life. Keep it below the idle
    timeout of any proxy in front."""
    pong_timeout_s: Interval = 10
    """How long the client has to answer. Shorter finds dead connections sooner and drops slow ones."""
    errors_max: Count = 100
    """Requests in a row that are refused before their session is disconnected; 0 = no limit. Any other
    that succeeds begins a new row, but heartbeats do not. One that succeeds in part is none of them, and a
    batch counts once."""
    history_requests_max: PositiveCount = 8
    """History requests of one session that may run at once; they are the costly ones."""
    restore_save_delay_s: Seconds = 0.5
    """How long changes of a session are gathered before its restore state is written. Longer writes
    less; what changed in that time is not restored if the node crashes."""


class ChannelConfig(Section, frozen=True):
    """How channels live, remember and recover."""

    close_timeout_s: Seconds = 60
    """How long a channel stays open after its last subscriber left. Live history ends with it."""
    history_page_size: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_PAGE_LEN_MAX)] = 100
    """Messages in one page of history, and the most a client may ask for at once."""
    presence_page_size: PositiveCount = 1_000
    """Members in one presence snapshot; in larger channels the rest is paged."""
    recovery_max: PositiveCount = 1_000
    """The most missed messages sent to a returning subscriber. If more were missed, the client is told
    so and can page through the history instead."""
    enable_live_history: bool = True
    """Keep recent messages in memory where the rules ask for it. Off saves memory on the whole node;
    clients then recover from stored messages only."""
    retain_msg_duration_s: Seconds = 0
    """The longest any retained message is kept, whatever the rules say; 0 = as long as the rules say."""
    document_snapshot_interval_s: Interval = 30
    """How often a changed document is written whole. Between snapshots its operations are kept one by
    one, so nothing is lost either way; longer writes less and takes longer to open after a crash."""


class LimitsConfig(Section, frozen=True):
    """Bounds on what can pile up in the node. What one hub may use is set per hub, in its quotas."""

    hubs_max: Count = 10_000
    """Hubs open at once that were created on first use; 0 = no limit. Hubs that an administrator has set
    up do not count and always have a place."""
    pattern_matches_max: Annotated[int, msgspec.Meta(ge=1, le=POSITIONS_LEN_MAX)] = 1_000
    """Channels whose place in their history is reported to a wildcard subscription."""
    pending_per_channel_max: PositiveCount = 1_000
    """Changes and reads of one document that may wait behind each other; more are refused."""
    stored_in_flight_max: PositiveCount = 50_000
    """Publications of one channel that may wait to become durable; more are refused until the storage
    catches up. What the storage itself takes on is bounded too."""
    replay_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=1 << 28)] = 4_194_304
    """Payload bytes of missed messages sent in answer to one request, or in one page of history. Channels
    that do not fit are told that they are not recovered, and can be paged through."""
    document_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=1 << 26)] = 4_194_304
    """Size of one document."""
    live_history_bytes_max: MemoryBytes = 1_073_741_824
    """Memory that live history takes over all hubs; 0 = no limit. Then the oldest messages of the hub
    that holds the most go."""
    idempotency_bytes_max: MemoryBytes = 1_073_741_824
    """Memory that idempotency keys take over all hubs; 0 = no limit. Then keys of the hub that holds the most
    go early."""
    retained_bytes_max: MemoryBytes = 1_073_741_824
    """Memory that retained messages take over all hubs; 0 = no limit. No hub gets more of it than it
    leaves to the others, so at most half."""
    backlogs_bytes_max: MemoryBytes = 1_073_741_824
    """Memory that what waits for slow readers takes over all hubs; 0 = no limit. No hub gets more of it
    than it leaves to the others, so at most half."""
    documents_bytes_max: MemoryBytes = 1_073_741_824
    """Memory that open documents take over all hubs; 0 = no limit. No hub gets more of it than it leaves
    to the others, so at most half."""
