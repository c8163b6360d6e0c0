"""Rules that retain nothing end what was retained: nobody is greeted with it, then or later."""

import pytest

from arauto.errors import Code
from arauto.hub.environment import HubLimits
from arauto.model import When
from arauto.settings import NamespaceSettings, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, publish

QUICK = HubLimits(channel_close_s=2)
NAMES = ("room:1", "room:*", "*")


async def retain(desk: Desk, when: When) -> None:
    rules = Rules(public=True, client_publish=True, retain=when)
    await desk.set("rules", "shop", "r", rules)


async def retaining(make_desk: MakeDesk) -> Desk:
    desk = make_desk(hub_limits=QUICK)
    await retain(desk, When.ALL)
    await desk.set("namespace", "shop", "room", NamespaceSettings(rules="r"))
    return desk


async def greeted(desk: Desk, name: str) -> list[bytes]:
    client = await desk.connect()
    await client.subscribe(name)
    await desk.advance(1)
    found = client.payloads()
    client.session.closed(Code.CONNECTION_LOST)
    await desk.settle()
    return found


async def post(desk: Desk, payload: bytes) -> None:
    client = await desk.connect()
    await client.do(publish("room:1", payload))
    client.session.closed(Code.CONNECTION_LOST)
    await desk.settle()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
async def test_nobody_is_greeted_where_the_rules_no_longer_retain(
    make_desk: MakeDesk, name: str, closed: bool
) -> None:
    desk = await retaining(make_desk)
    await post(desk, b"old")
    assert await greeted(desk, name) == [b"old"]
    if closed:
        await desk.advance(5)
    hub = desk.directory.hubs["shop"]
    assert ("room:1" in hub.channels) != closed
    await retain(desk, When.NEVER)
    assert await greeted(desk, name) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("reopened", [False, True], ids=["same hub", "opened again"])
async def test_nobody_is_greeted_later_with_what_came_before_a_message_that_was_not_retained(
    make_desk: MakeDesk, name: str, closed: bool, reopened: bool
) -> None:
    desk = await retaining(make_desk)
    await post(desk, b"old")
    if closed:
        await desk.advance(5)
    await retain(desk, When.NEVER)
    await post(desk, b"not retained")
    if reopened:
        await desk.directory.close_hub("shop")
    await retain(desk, When.ALL)
    assert await greeted(desk, name) == []
    await post(desk, b"new")
    assert await greeted(desk, name) == [b"new"]


async def test_what_goes_is_gone_from_the_store_and_from_the_hubs_memory(
    make_desk: MakeDesk,
) -> None:
    desk = await retaining(make_desk)
    await post(desk, b"old")
    await desk.advance(5)
    hub = desk.directory.hubs["shop"]
    await retain(desk, When.NEVER)
    assert len(hub.retained) == 1, "nothing looks for channels that are not open"
    await post(desk, b"opens it")
    await desk.advance(2)
    assert (len(hub.retained), hub.holdings.retained.used_bytes) == (0, 0)
    assert [page async for page in desk.storage.kv.scan("shop", "retained:", 10)] in ([], [[]])


async def test_the_last_message_is_still_the_last_where_nothing_came_meanwhile(
    make_desk: MakeDesk,
) -> None:
    desk = await retaining(make_desk)
    await post(desk, b"old")
    await desk.advance(5)
    await retain(desk, When.NEVER)
    await retain(desk, When.ALL)
    assert await greeted(desk, "room:*") == [b"old"]
