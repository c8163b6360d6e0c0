"""Which publications are timed, and how finely."""

import asyncio

from arauto.clock import SystemClock
from arauto.codec.events import PublishItem
from arauto.telemetry.counters import SAMPLE_MASK
from tests.unit.hub.world import NOBODY, World

_PERIOD = SAMPLE_MASK + 1


async def test_publications_are_timed_over_all_channels_of_a_node_together() -> None:
    world = World()
    hubs = [world.hub("shop"), world.hub("mall")]
    for index in range(3 * _PERIOD):
        channel = await hubs[index % 2].open_channel(f"c{index}")
        channel.publish(PublishItem(channel=channel.name, payload=b"x"), NOBODY, None)
    assert world.env.metrics.total().publish_time.count == 3


async def test_what_takes_less_than_a_millisecond_has_a_length() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    readings = {clock.fine_ns() for _ in range(1_000)}
    assert len(readings) > 1
    assert max(readings) - min(readings) < 1_000_000_000
