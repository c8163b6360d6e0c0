"""What one hub holds in memory, in bytes: a share of each of the node's pools, within the hub's quotas."""

from dataclasses import dataclass, field

from arauto.clock import Clock
from arauto.hub.live_memory import KeyMemory, LiveMemory
from arauto.hub.share import Pool, Share
from arauto.settings import Quotas
from arauto.telemetry.counters import Counters

__all__ = ["Holdings", "Pools"]


def _fair_pool() -> Pool:
    return Pool(leaves_room=True)


@dataclass(frozen=True, slots=True)
class Pools:
    """The node's bounds in bytes, one for each kind of thing that hubs hold in memory."""

    live_history: Pool = field(default_factory=Pool)
    """Here and for keys the largest hub gives, so nobody has to leave room."""
    idempotency: Pool = field(default_factory=Pool)
    retained: Pool = field(default_factory=_fair_pool)
    backlogs: Pool = field(default_factory=_fair_pool)
    documents: Pool = field(default_factory=_fair_pool)


class Holdings:
    """One per hub, from its opening to its end."""

    __slots__ = ("backlogs", "documents", "idempotency", "live_history", "retained")

    def __init__(self, pools: Pools, quotas: Quotas, counters: Counters, clock: Clock) -> None:
        self.live_history = LiveMemory(pools.live_history, quotas.live_history_bytes_max, counters)
        self.idempotency = KeyMemory(
            pools.idempotency, quotas.idempotency_bytes_max, counters, clock
        )
        self.retained = Share(pools.retained, quotas.retained_bytes_max)
        self.backlogs = Share(pools.backlogs, quotas.backlogs_bytes_max)
        """What waits for connections that do not keep up."""
        self.documents = Share(pools.documents, quotas.documents_bytes_max)

    def set_limits(self, quotas: Quotas) -> None:
        """The hub's quotas have changed. What is held above a lower one goes by and by."""
        self.live_history.set_limit(quotas.live_history_bytes_max)
        self.idempotency.set_limit(quotas.idempotency_bytes_max)
        self.retained.set_limit(quotas.retained_bytes_max)
        self.backlogs.set_limit(quotas.backlogs_bytes_max)
        self.documents.set_limit(quotas.documents_bytes_max)

    def close(self) -> None:
        """The hub is gone, or was never opened."""
        remembered = (self.live_history, self.idempotency)
        for share in (*remembered, self.retained, self.backlogs, self.documents):
            share.close()
