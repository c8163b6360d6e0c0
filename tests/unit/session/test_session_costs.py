"""What one more session, reader or subscription costs beside many; more of `tests/unit/hub/test_costs.py`.

Operations are counted, not time. Each case does the same thing in a small world and in a large one.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from arauto.codec.events import SubscribeRequest
from arauto.hub.environment import HubLimits
from arauto.hub.hub import Hub
from arauto.hub.reconsider import reconsider
from arauto.model import SlowPolicy
from arauto.session.wheel import TimerWheel
from arauto.settings import HubSettings, Quotas, Rules
from arauto.tasks import at_once
from arauto.testing.clock import FakeClock
from tests.unit.hub.test_costs import (
    FACTOR,
    LARGE,
    SMALL,
    a_stalled_reader,
    count_steps,
    cover,
    say,
)
from tests.unit.hub.world import Reader, World
from tests.unit.session.desk import Desk, subscribe

Act = Callable[[], object]


def run(work: Coroutine[Any, Any, Any]) -> None:
    """A coroutine that waits for nothing but its turn, to its end."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        pass


def a_crowd(hub: Hub, count: int, name: str) -> list[Reader]:
    readers = [Reader(hub, f"other{n}") for n in range(count)]
    for reader in readers:
        hub.add_session(reader.subscriber)
        reader.subscriber.user = f"user of {reader.subscriber.id}"
        hub.know_user(reader.subscriber)
        hub.channel(name).subscribe(reader.subscriber)  # type: ignore[union-attr]
    return readers


async def come_and_go_by_name(count: int) -> Act:
    """On a channel that many others read and that counts them. (Presence tells each of them: a delivery.)"""
    world = World(rules=Rules(public=True, client_publish=True, occupancy=True))
    hub = world.hub()
    a_crowd(hub, count, "hall")
    reader = Reader(hub)
    channel = hub.channel("hall")
    assert channel is not None

    def act() -> None:
        channel.subscribe(reader.subscriber)
        channel.unsubscribe(reader.subscriber)

    return act


async def come_and_go_by_topic(count: int) -> Act:
    """A topic beside many others, each with its reader."""
    hub = World().hub()
    other = Reader(hub, "other")
    for n in range(count):
        cover(hub, f"/shop/{n}", other)
        hub.channel(f"/shop/{n}/orders")
    hub.channel("/hall/1")
    reader = Reader(hub)

    def act() -> None:
        cover(hub, "/hall", reader)
        say(hub, "/hall/1")
        hub.drop_pattern("/hall", reader.subscriber)

    return act


async def many_hold_the_same_pattern(count: int) -> Act:
    hub = World().hub()
    for n in range(count):
        cover(hub, "room:*", Reader(hub, f"other{n}"))
    reader = Reader(hub)

    def act() -> None:
        cover(hub, "room:*", reader)
        hub.drop_pattern("room:*", reader.subscriber)

    return act


async def a_session_comes_and_goes(count: int) -> Act:
    hub = World().hub()
    a_crowd(hub, count, "hall")
    reader = Reader(hub)

    def act() -> None:
        hub.add_session(reader.subscriber)
        reader.subscriber.user = "ann"
        hub.know_user(reader.subscriber)
        hub.rename_session(reader.subscriber, "r2")
        hub.remove_session(reader.subscriber)

    return act


async def an_identity_changes(count: int) -> Act:
    """What it holds is rechecked; what others hold is not."""
    hub = World().hub()
    other = Reader(hub, "other")
    for n in range(count):
        cover(hub, f"room{n}:*", other)
        hub.channel(f"room{n}:1")
    reader = Reader(hub)
    hub.channel("hall:1")
    cover(hub, "hall:*", reader)

    def act() -> None:
        at_once(reconsider(hub, reader.subscriber, ["hall:*"], renamed=True))

    return act


async def the_rules_of_one_channel_change(count: int) -> Act:
    hub = World().hub()
    other = Reader(hub, "other")
    for n in range(count):
        cover(hub, f"room{n}:*", other)
        hub.channel(f"room{n}:1")
    channel = hub.channel("hall:1")
    assert channel is not None
    rules = msgspec.structs.replace(channel.rules, live_history_len=7)

    def act() -> None:
        channel.apply_rules(rules)

    return act


async def a_channel_opens_and_closes(count: int) -> Act:
    """Beside others that are open, in use and idle; the sweep looks at none that is not due."""
    world = World()
    hub = world.hub()
    reader = Reader(hub)
    for n in range(count):
        channel = hub.channel(f"room:{n}")
        assert channel is not None
        if n % 2:
            channel.subscribe(reader.subscriber)
    hub.channel("hall")
    hub._idle.move_to_end(hub.channels["hall"], last=False)
    hub._idle[hub.channels["hall"]] = -world.env.limits.channel_close_s - 1

    def act() -> None:
        run(hub.close_idle_channels())
        assert "hall" not in hub.channels
        hub.channel("hall")

    return act


async def a_look_at_one_session(count: int) -> Act:
    """By the wheel that has an appointment with all."""

    class Item:
        def on_timer(self, now_s: float) -> float:
            return 60

    clock = FakeClock()
    wheel = TimerWheel(clock)
    for n in range(count):
        wheel.schedule(Item(), 100 + n % 100)
    wheel.start()
    one, other = Item(), Item()

    def act() -> None:
        wheel.schedule(one, 1)
        wheel.schedule(other, 5)
        wheel.forget(other)
        clock.advance(3)

    return act


async def a_backlog_that_disconnects(count: int) -> Act:
    return a_stalled_reader(count, SlowPolicy.DISCONNECT, keys=1)


@pytest.mark.parametrize(
    "case",
    [
        come_and_go_by_name,
        come_and_go_by_topic,
        many_hold_the_same_pattern,
        a_session_comes_and_goes,
        an_identity_changes,
        the_rules_of_one_channel_change,
        a_channel_opens_and_closes,
        a_look_at_one_session,
        a_backlog_that_disconnects,
    ],
)
async def test_what_one_does_costs_the_same_beside_a_few_and_beside_very_many(
    case: Callable[[int], Awaitable[Act]],
) -> None:
    few = count_steps(await case(SMALL))
    many = count_steps(await case(LARGE))
    assert many <= few * FACTOR, f"{few} steps with {SMALL}, {many} with {LARGE}"


async def test_each_of_many_subscriptions_costs_what_each_of_a_few_does() -> None:
    """Also of those that are taken up again, with their places."""
    quotas = Quotas(subscriptions_per_session_max=0, session_messages_per_s=0)
    steps: dict[int, float] = {}
    for count in (SMALL, 1_000):
        desk = Desk(
            settings=HubSettings(default_public=True, quotas=quotas), hub_limits=HubLimits()
        )
        client = await desk.connect()
        hub = await desk.directory.get("shop")
        names = [f"room:{n}" for n in range(count)]
        places = {name: hub.channel(name).serial for name in names}  # type: ignore[union-attr]
        asked = subscribe(*names)
        items = tuple(msgspec.structs.replace(i, since=places[i.channel]) for i in asked.items)
        request = SubscribeRequest(id=1, items=items)
        steps[count] = count_steps(lambda: client.send(request)) / count  # noqa: B023
        assert len(client.session.subscriptions) == count
        await desk.close()
    assert steps[1_000] <= steps[SMALL] * FACTOR, steps
