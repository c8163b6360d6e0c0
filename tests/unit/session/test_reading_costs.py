"""What is read of a channel's past, and of who is there, costs what is shown. Operations are counted."""

import asyncio

import msgspec
import pytest

from arauto.codec.events import (
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Presence,
    PresenceRequest,
)
from arauto.errors import Code
from arauto.features.history import LiveHistory
from arauto.hub.environment import HubLimits
from arauto.hub.history import HistoryPage, read_history
from arauto.model import Direction, Serial
from arauto.settings import ChannelSettings, HubSettings, Quotas, Rules
from tests.unit.hub.test_costs import FACTOR, LARGE, SMALL, count_steps
from tests.unit.hub.test_newcomers import Encoded
from tests.unit.hub.world import OTHER_FORMAT, Reader, World, join
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, publish
from tests.unit.session.test_costs_of_requests import RATE, left
from tests.unit.session.test_session_costs import run

LONG = Rules(public=True, client_publish=True, live_history_len=LARGE, live_history_s=0)


def pages(last: int, epoch: int, ms: int) -> list[HistoryPage]:
    """Some with nothing in them, some with the first or last few of very many."""
    return [
        HistoryPage(from_ms=1, to_ms=2),
        HistoryPage(from_ms=ms + 1_000_000),
        HistoryPage(limit=2),
        HistoryPage(limit=2, direction=Direction.BACKWARD),
        HistoryPage(limit=2, since=Serial(epoch, last - 2)),
        HistoryPage(limit=2, until=Serial(epoch, last - 2), direction=Direction.BACKWARD),
        HistoryPage(since=Serial(epoch + 1, 0)),
        HistoryPage(limit=2, from_ms=ms, to_ms=ms + 3),
    ]


async def test_a_page_of_live_history_costs_what_is_on_it_and_not_what_there_is() -> None:
    steps: dict[int, list[int]] = {}
    for count in (SMALL, LARGE):
        world = World(rules=LONG, limits=HubLimits(live_history_len_max=LARGE))
        channel = await world.channel()
        for _ in range(count):
            world.clock.advance(0.01)
            world.publish(channel, b"x")
        ms = channel.ts_ms - 30
        asked = pages(channel.offset, channel.epoch, ms)
        steps[count] = [
            count_steps(lambda p=page: run(read_history(channel, p, lambda m: True)))  # type: ignore[misc]  # noqa: B023
            for page in asked
        ]
    for few, many in zip(steps[SMALL], steps[LARGE], strict=True):
        assert many <= few * FACTOR, steps


async def test_pages_of_live_history_hold_what_a_look_at_every_message_finds() -> None:
    world = World(rules=LONG)
    channel = await world.channel()
    for n in range(40):
        world.clock.advance(0.001 * (n % 3))
        world.publish(channel, b"%d" % n)
    epoch, begin_ms = channel.epoch, channel.ts_ms - 39
    everything = list(channel.recent_after(0))
    places = [None, Serial(epoch - 1, 7), *(Serial(epoch, n) for n in (0, 1, 9, 39, 40, 50))]
    for since in places:
        for until in places:
            for from_ms, to_ms in ((0, 0), (begin_ms, 0), (0, begin_ms + 9), (begin_ms + 5,) * 2):
                wanted = [
                    m
                    for m in everything
                    if (since is None or m.serial > since)
                    and (until is None or m.serial < until)
                    and (not from_ms or m.ts_ms >= from_ms)
                    and (not to_ms or m.ts_ms <= to_ms)
                ]
                for direction in Direction:
                    page = HistoryPage(
                        since=since,
                        until=until,
                        from_ms=from_ms,
                        to_ms=to_ms,
                        limit=7,
                        direction=direction,
                    )
                    found = await read_history(channel, page, lambda m: True)
                    ordered = wanted[::-1] if direction is Direction.BACKWARD else wanted
                    assert found.messages == ordered[:7]
                    assert found.more == (len(ordered) > 7)


async def test_the_place_at_a_time_is_found_without_a_look_at_every_message() -> None:
    steps: dict[int, int] = {}
    for count in (SMALL, LARGE):
        world = World(rules=LONG, limits=HubLimits(live_history_len_max=LARGE))
        channel = await world.channel()
        before_ms = world.clock.wall_ms()
        for _ in range(count):
            world.clock.advance(0.01)
            world.publish(channel, b"x")
        history = channel.feature(LiveHistory.name)
        assert isinstance(history, LiveHistory)
        assert history.offset_at(before_ms) == 0
        assert history.offset_at(before_ms + 35) == 3
        steps[count] = count_steps(lambda: history.offset_at(before_ms + 35))  # noqa: B023
    assert steps[LARGE] <= steps[SMALL] * FACTOR, steps


@pytest.mark.parametrize("ttl_ms", [0, 10])
async def test_a_page_costs_by_its_messages_and_those_that_were_passed_over(
    make_desk: MakeDesk, ttl_ms: int
) -> None:
    settings = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=RATE))
    desk = make_desk(settings=settings, rules=LONG)
    client = await desk.connect()
    await client.do(publish("log", *[b"x"] * 90, ttl_ms=ttl_ms))
    desk.clock.advance(2)
    reply = await client.ask(HistoryRequest(id=1, channel="log"), HistoryReply)
    assert len(reply.messages) == (0 if ttl_ms else 90)
    assert RATE - left(client) == 9


CROWDED = Rules(public=True, client_publish=True, presence=True)
#: What one turn gives one connection, about, and what one picture adds: see `hub/owed.py`.
SLICE_BYTES = 2 * 65_536


class Asker:
    """A session that asks who is on a channel with many members, and what was made for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked = 0
        self._wire = Encoded()
        client.session.outbox.format = self._wire.format

    @property
    def made_bytes(self) -> int:
        return self._wire.size_bytes

    def ask(self, count: int) -> None:
        for _ in range(count):
            self.asked += 1
            self.client.send(PresenceRequest(id=self.asked, channel="room:1"))


async def an_asker(make_desk: MakeDesk, *, rate: int, members: int) -> Asker:
    quotas = Quotas(session_messages_per_s=rate)
    desk = make_desk(settings=HubSettings(default_public=True, quotas=quotas), rules=CROWDED)
    client = await desk.connect()
    hub = await desk.directory.get("shop")
    channel = hub.channel("room:1")
    assert channel is not None
    join(channel, *(Reader(hub, f"{n}", format=OTHER_FORMAT) for n in range(members)))
    for subscriber in channel.subscribers:
        subscriber.extra = {"x": "y" * 1_000}
        channel.reintroduce(subscriber)
    return Asker(client)


async def turns(client: Client) -> None:
    """Some turns of the loop, for what is due in them; a request may still wait."""
    for _ in range(10):
        client.desk.clock.run_soon()
        await asyncio.sleep(0)


async def test_who_asks_who_is_there_is_answered_slice_by_slice_and_in_order(
    make_desk: MakeDesk,
) -> None:
    """Seen: 600 such requests, 31 KB together, made gigabytes at once."""
    asker = await an_asker(make_desk, rate=0, members=40)
    asker.ask(600)
    assert asker.made_bytes < SLICE_BYTES
    assert not asker.client.is_read()
    await asker.client.desk.settle()
    pictures = asker.client.take_all(Presence)
    assert [picture.id for picture in pictures] == list(range(1, 601))
    assert all(len(picture.members) == 40 for picture in pictures)
    assert asker.client.is_read()


async def test_for_who_asks_and_does_not_read_nothing_is_made(make_desk: MakeDesk) -> None:
    asker = await an_asker(make_desk, rate=0, members=40)
    client = asker.client
    client.session.outbox.pause()
    asker.ask(600)
    await turns(client)
    assert asker.made_bytes == 0
    client.session.outbox.resume()
    await client.desk.settle()
    assert len(client.take_all(Presence)) == 600


async def test_a_picture_of_who_is_there_costs_its_members_and_bytes(make_desk: MakeDesk) -> None:
    asker = await an_asker(make_desk, rate=RATE, members=40)
    asker.ask(1)
    assert RATE - left(asker.client) == 1 + 3 + asker.made_bytes // 4_096
    asker.ask(100)
    await asker.client.desk.settle()
    assert len(asker.client.take_all(Presence)) < 10
    assert {event.code for event in asker.client.take_all(ErrorEvent)} == {Code.RATE_LIMITED}


async def test_who_may_no_longer_see_who_is_there_when_it_is_its_turn_is_told(
    make_desk: MakeDesk,
) -> None:
    asker = await an_asker(make_desk, rate=0, members=1)
    client = asker.client
    client.session.outbox.pause()
    asker.ask(1)
    desk, settings = client.desk, client.desk.storage.settings
    await settings.put("rules", "shop", "r", msgspec.json.encode(Rules(public=False)))
    await settings.put("channel", "shop", "room:1", msgspec.json.encode(ChannelSettings(rules="r")))
    await desk.directory.refresh("shop")
    client.session.outbox.resume()
    await client.desk.settle()
    assert client.take_all(Presence) == []
    assert client.take(ErrorEvent).id == 1


async def test_who_leaves_while_a_picture_waits_leaves_no_work_behind(make_desk: MakeDesk) -> None:
    asker = await an_asker(make_desk, rate=0, members=1)
    client = asker.client
    client.session.outbox.pause()
    asker.ask(3)
    await turns(client)
    assert len(client.desk.world.tasks)
    await client.drop()
    assert not len(client.desk.world.tasks)
