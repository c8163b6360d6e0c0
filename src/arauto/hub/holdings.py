"""What one hub holds in memory, in bytes: a share of each of the node's pools, within the hub's quotas."""

from dataclasses import dataclass, field

from arauto.hub.live_memory import LiveMemory
from arauto.hub.share import Pool
from arauto.settings import Quotas
from arauto.telemetry.counters import Counters

__all__ = ["Holdings", "Pools"]


@dataclass(frozen=True, slots=True)
class Pools:
    """The node's bounds in bytes, one for each kind of thing that hubs hold in memory."""

    live_history: Pool = field(default_factory=Pool)


class Holdings:
    """One per hub, from its opening to its end."""

    __slots__ = ("live_history",)

    def __init__(self, pools: Pools, quotas: Quotas, counters: Counters) -> None:
        self.live_history = LiveMemory(pools.live_history, quotas.live_history_bytes_max, counters)

    def set_limits(self, quotas: Quotas) -> None:
        """The hub's quotas have changed. What is held above a lower one goes by and by."""
        self.live_history.set_limit(quotas.live_history_bytes_max)

    def close(self) -> None:
        """The hub is gone, or was never opened."""
        self.live_history.close()
