"""Occupancy: subscribers see how many are there, at a fraction of presence's cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arauto.clock import Timer
from arauto.codec.events import Occupancy
from arauto.hub.hooks import Feature, FeatureSpec
from arauto.hub.outbox import Outbox

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.subscriber import Subscriber

__all__ = ["SPEC", "OccupancyFeature"]

#: Changes within this time are announced together: a thousand arrivals are one event, not a thousand.
_QUIET_S = 0.25


class OccupancyFeature(Feature):
    """Counts the subscribers and announces the number when it has changed."""

    __slots__ = ("_announced", "_timer")

    name = "occupancy"

    def __init__(self, channel: "Channel") -> None:
        super().__init__(channel)
        self._announced = -1
        self._timer: Timer | None = None

    def on_join(self, subscriber: "Subscriber") -> None:
        self._announce_later()

    def on_arrivals(self, subscribers: "Sequence[Subscriber]") -> None:
        # One announcement for all, instead of one for each; to those who are new even if the number is not.
        self._announced = -1
        self._announce()

    def on_leave(self, subscriber: "Subscriber") -> None:
        self._announce_later()

    def on_welcome(self, subscriber: "Subscriber", *, recovered: bool) -> None:
        subscriber.outbox.owe(self)

    def owed_to(self, outbox: Outbox) -> bytes:
        """See `Debtor`."""
        return outbox.format.encode(self.snapshot()) if self.is_due_to(outbox) else b""

    def on_close(self) -> None:
        self._forget_timer()

    def snapshot(self, id: int = 0) -> Occupancy:
        return Occupancy(id=id, channel=self.channel.name, count=self.channel.member_count)

    def _announce_later(self) -> None:
        if self._timer is None:
            self._timer = self.channel.env.clock.call_later(_QUIET_S, self._announce)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _announce(self) -> None:
        self._forget_timer()
        count = self.channel.member_count
        if count != self._announced:
            self._announced = count
            self.channel.broadcast(Occupancy(channel=self.channel.name, count=count))


SPEC = FeatureSpec(OccupancyFeature.name, lambda rules: rules.occupancy, OccupancyFeature)
