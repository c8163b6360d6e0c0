"""Who comes back to a channel that never rests catches up with it."""

from arauto.hub.channel import Channel
from arauto.model import Message, When
from arauto.session.catchup import _prefetch
from arauto.settings import Rules
from arauto.storage.base import HistoryQuery
from arauto.storage.memory import MemoryJournal
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import World


class BusyJournal(MemoryJournal):
    """While it is asked, more is published than live history holds, some times."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.world: World
        self.channel: Channel
        self.busy_len = 0

    async def history(self, query: HistoryQuery) -> list[Message]:
        page = await super().history(query)
        if self.busy_len:
            self.busy_len -= 1
            self.world.publish(self.channel, *[b"x"] * 15)
            await self.world.settle()
        return page


async def test_a_channel_that_is_published_to_all_the_time_is_caught_up_with() -> None:
    """Seen: three pages were read, and then a hole was told of that was none."""
    clock = FakeClock()
    journal = BusyJournal(clock)
    rules = Rules(store=When.ALL, live_history_len=10)
    world = World(rules=rules, clock=clock, journal=journal)
    channel = await world.channel()
    journal.world, journal.channel = world, channel
    since = channel.serial
    world.publish(channel, *[b"x"] * 50)
    await world.settle()
    journal.busy_len = 8
    found = await _prefetch(channel, since)
    assert found is not None
    assert [message.offset for message in found] == list(range(1, found[-1].offset + 1))
    assert found[-1].offset >= channel.recent_floor
