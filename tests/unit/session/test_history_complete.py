"""`complete: true` is a proof: whatever it is said of, nothing of it is missing."""

import pytest

from arauto.codec.events import HistoryReply, HistoryRequest
from arauto.hub.environment import HubLimits
from arauto.model import Direction, Serial, When
from arauto.settings import ChannelSettings, Rules
from tests.unit.session.desk import Client, Desk, publish

LIMITS = HubLimits(history_page_len=3)


async def a_desk(store: When, **rules: float) -> tuple[Desk, Client]:
    desk = Desk(
        rules=Rules(client_publish=True, store=store, **rules),  # type: ignore[arg-type]
        hub_limits=LIMITS,
    )
    return desk, await desk.connect()


async def say(client: Client, *payloads: bytes) -> None:
    await client.do(publish("log", *payloads))


async def page(client: Client, **fields: object) -> HistoryReply:
    request = HistoryRequest(id=7, channel="log", **fields)  # type: ignore[arg-type]
    return await client.ask(request, HistoryReply)


@pytest.mark.parametrize("store", [When.ALL, When.NEVER])
async def test_a_range_that_begins_at_a_place_of_this_epoch_is_complete(store: When) -> None:
    desk, client = await a_desk(store)
    await say(client, b"1", b"2", b"3", b"4", b"5")
    top = (await page(client)).serial
    assert top is not None
    first = await page(client, since=Serial(top.epoch, 0))
    assert ([m.payload for m in first.messages], first.complete) == ([b"1", b"2", b"3"], True)
    rest = await page(client, since=first.next)
    assert ([m.payload for m in rest.messages], rest.complete) == ([b"4", b"5"], True)
    back = await page(client, direction=Direction.BACKWARD)
    assert ([m.payload for m in back.messages], back.complete) == ([b"5", b"4", b"3"], True)
    last = await page(client, direction=Direction.BACKWARD, until=back.next)
    assert (len(last.messages), last.complete) == (2, False), "before the first there may be more"
    await desk.close()


@pytest.mark.parametrize("store", [When.ALL, When.NEVER])
async def test_a_range_without_a_beginning_is_never_complete(store: When) -> None:
    desk, client = await a_desk(store)
    await say(client, b"1")
    assert not (await page(client)).complete
    await desk.close()


@pytest.mark.parametrize("store", [When.ALL, When.NEVER])
async def test_a_place_from_a_future_that_was_lost_is_not_complete(store: When) -> None:
    desk, client = await a_desk(store)
    await say(client, b"1")
    top = (await page(client)).serial
    assert top is not None
    assert not (await page(client, since=Serial(top.epoch, 9))).complete
    assert not (await page(client, since=Serial(top.epoch + 2, 0))).complete
    await desk.close()


async def test_what_lies_between_two_epochs_is_not_complete_and_each_of_them_is() -> None:
    desk, client = await a_desk(When.ALL)
    await say(client, b"1", b"2")
    old = (await page(client)).serial
    assert old is not None
    desk.clock.advance(1)
    await desk.set("rules", "shop", "r", Rules(public=True, client_publish=True, store=When.NEVER))
    await desk.set("channel", "shop", "log", ChannelSettings(rules="r"))
    await say(client, b"gone")
    desk.clock.advance(1)
    await desk.set("rules", "shop", "r", Rules(public=True, client_publish=True, store=When.ALL))
    await say(client, b"3")
    before = Serial(old.epoch, 0)
    over_both = await page(client, since=before)
    assert ([m.payload for m in over_both.messages], over_both.complete) == (
        [b"1", b"2", b"3"],
        False,
    )
    assert (await page(client, since=before, until=Serial(old.epoch, 3))).complete
    now = over_both.serial
    assert now is not None
    assert (await page(client, since=Serial(now.epoch, 0))).complete
    await desk.close()


async def test_a_range_of_time_is_complete_once_the_epoch_had_begun() -> None:
    desk, client = await a_desk(When.ALL)
    await say(client, b"1")
    desk.clock.advance(2)
    between_ms = desk.clock.wall_ms()
    desk.clock.advance(2)
    await say(client, b"2")
    later = await page(client, from_ms=between_ms)
    assert ([m.payload for m in later.messages], later.complete) == ([b"2"], True)
    assert not (await page(client, from_ms=1)).complete
    await desk.close()


async def test_what_is_kept_for_a_time_only_is_not_complete() -> None:
    desk, client = await a_desk(When.ALL, store_s=60)
    await say(client, b"1")
    top = (await page(client)).serial
    assert top is not None
    assert not (await page(client, since=Serial(top.epoch, 0))).complete
    await desk.close()


async def test_live_history_is_complete_as_far_as_it_reaches() -> None:
    desk, client = await a_desk(When.NEVER, live_history_len=2)
    await say(client, b"1", b"2", b"3")
    top = (await page(client)).serial
    assert top is not None
    assert not (await page(client, since=Serial(top.epoch, 0))).complete
    assert (await page(client, since=Serial(top.epoch, 1))).complete
    await desk.close()
