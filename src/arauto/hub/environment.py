"""What every hub and channel of a node shares: the injected world and the node's limits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arauto.clock import Clock
from arauto.entropy import Entropy
from arauto.hub.encodings import Encodings
from arauto.hub.fanout import Turn
from arauto.hub.holdings import Pools
from arauto.hub.hooks import FeatureSpec
from arauto.hub.ownership import Local, Ownership
from arauto.storage.base import Storage
from arauto.tasks import Allowance, TaskSet
from arauto.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.hub import Hub

__all__ = ["MATCHING_PER_TOKEN", "Environment", "HubLimits"]


#: Patterns and grants are tried for so long in a turn, in tokens: some three milliseconds.
_TRYING_PER_TURN = 60
#: One token for so many steps of a matcher (`Matcher.effort`): some 50 microseconds.
MATCHING_PER_TOKEN = 200


@dataclass(frozen=True, slots=True)
class HubLimits:
    """Node-wide limits and timings of hubs and channels."""

    hub_close_s: float = 60.0
    channel_close_s: float = 60.0
    settings_refresh_s: float = 60.0
    history_page_len: int = 100
    recovery_len_max: int = 1_000
    replay_bytes_max: int = 4_194_304
    """Payload bytes sent at once to a returning subscriber, or in one page of history."""
    live_history_len_max: int = 10_000
    presence_page_len: int = 1_000
    pattern_positions_len_max: int = 1_000
    pending_per_channel_max: int = 1_000
    stored_inflight_max: int = 50_000
    snapshot_interval_s: float = 30.0
    retain_s_max: float = 0.0
    """The longest any retained message is kept; 0 = as long as the rules say."""
    document_bytes_max: int = 4_194_304


@dataclass(frozen=True, slots=True)
class Environment:
    """Built once by the composition root."""

    node: str
    clock: Clock
    entropy: Entropy
    turn: Turn
    storage: Storage
    metrics: Metrics
    tasks: TaskSet
    features: tuple[FeatureSpec, ...] = ()
    channel_types: "dict[str, Callable[[Hub, str], Channel]]" = field(default_factory=dict)
    """Channel classes by namespace; a channel of any other namespace is a plain `Channel`."""
    limits: HubLimits = HubLimits()
    pools: Pools = field(default_factory=Pools)
    encodings: Encodings = field(default_factory=Encodings)
    leaving: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a pattern over very many channels is left: one after the other, however many end at once."""
    trying: Allowance = field(default_factory=lambda: Allowance(_TRYING_PER_TURN))
    """What openings and decisions may take in a turn: names are tried against patterns and grants, of which
    there may be very many. In tokens of 50 microseconds."""
    ownership: Ownership = field(default_factory=Local)
    journal_subscriptions: bool = True
    """Whether the journal says who subscribed to what."""
    began_ms: int = 0
    """The time of the newest row in the journal when the node started: no message is given an earlier one,
    even if the clock was set back meanwhile."""
