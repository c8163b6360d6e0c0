"""Counters, and what the node says about itself."""

from collections.abc import Callable

from arauto.admin.operations.states import States
from arauto.admin.records import HubGauges, HubInterval, HubStats, Interval, NodeInfo, NodeStats
from arauto.names import check_hub
from arauto.tasks import in_turns
from arauto.telemetry import intervals as telemetry
from arauto.telemetry.intervals import Intervals
from arauto.telemetry.metrics import Metrics, Totals

__all__ = ["Stats", "hub_interval", "node_interval"]


def node_interval(interval: telemetry.Interval) -> Interval:
    """The node's own part of an interval; the journal keeps the same."""
    return Interval(
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
        total=interval.total,
        gauges=interval.gauges,
        sessions_peak=interval.sessions_peak,
    )


def hub_interval(interval: telemetry.Interval, hub: str) -> HubInterval:
    """One hub's part of an interval that knows it."""
    levels = interval.levels[hub]
    return HubInterval(
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
        total=interval.hubs.get(hub) or Totals(),
        gauges=HubGauges(
            channels=levels.channels,
            sessions=levels.sessions,
            subscriptions=levels.subscriptions,
        ),
        sessions_peak=levels.sessions_peak,
    )


class Stats:
    """The verbs that only look."""

    def __init__(
        self,
        states: States,
        metrics: Metrics,
        intervals: Intervals,
        describe_node: Callable[[], NodeInfo],
    ) -> None:
        self._states = states
        self._metrics = metrics
        self._intervals = intervals
        self._describe_node = describe_node

    async def node_info(self) -> NodeInfo:
        """Name, version, age, and what is open."""
        return self._describe_node()

    async def of_node(self, *, intervals: int) -> NodeStats:
        """Totals since the start, gauges now, and the last intervals."""
        sums = await in_turns(self._metrics.adding_up())
        gauges = await in_turns(self._metrics.adding_up_gauges())
        kept = self._intervals.kept
        return NodeStats(
            total=sums.total,
            gauges=gauges,
            intervals=[node_interval(each) for each in kept[max(0, len(kept) - intervals) :]],
        )

    async def of_hub(self, hub: str, *, intervals: int) -> HubStats:
        """The same for one hub, as far as it is open on this node.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB.
        """
        running = await self._states.running(check_hub(hub))
        kept = [hub_interval(each, hub) for each in self._intervals.kept if hub in each.levels]
        return HubStats(
            total=Totals.of(running.counters) if running is not None else Totals(),
            sessions=len(running.sessions) if running is not None else 0,
            channels=len(running.channels) if running is not None else 0,
            subscriptions=running.subscription_count if running is not None else 0,
            intervals=kept[max(0, len(kept) - intervals) :],
        )
