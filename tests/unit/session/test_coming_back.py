"""What the answer to who comes back counts, and what it stands for, as the protocol's page says."""

from arauto.codec.events import SubscribeItem, SubscribeReply, SubscribeRequest, SubscribeResult
from arauto.hub.environment import HubLimits
from arauto.model import Serial
from arauto.settings import Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, publish

EPHEMERAL = Rules(client_publish=True, public=True, live_history_len=10, idempotency_s=0)


async def come_back(client: Client, *items: SubscribeItem) -> tuple[SubscribeResult, ...]:
    return (await client.ask(SubscribeRequest(id=1, items=items), SubscribeReply)).results


async def test_a_channel_that_closed_is_told_of_once_and_then_its_kept_place_is_passed_over(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=EPHEMERAL, hub_limits=HubLimits(channel_close_s=2))
    publisher, client = await desk.connect(), await desk.connect()
    await publisher.do(publish("room:1", b"1"))
    [began] = (await client.subscribe("room:*")).results
    assert began.positions is not None
    await client.drop()
    await publisher.do(publish("room:1", b"2"))
    await desk.advance(5)
    places = dict(began.positions)
    client = await desk.connect()
    [told] = await come_back(client, SubscribeItem(channel="room:*", positions=places))
    assert (told.recovered, told.unrecovered) == (False, ("room:1",))
    assert told.positions is not None
    assert list(told.positions) == ["*"]
    await client.drop()
    await desk.advance(1)
    client = await desk.connect()
    kept = SubscribeItem(channel="room:*", positions=places | told.positions)
    [later] = await come_back(client, kept)
    assert later.recovered


async def test_messages_that_expired_or_are_kept_from_the_reader_count_towards_what_is_missed(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=EPHEMERAL, hub_limits=HubLimits(recovery_len_max=3))
    publisher, client = await desk.connect(), await desk.connect()
    [began] = (await client.subscribe("room:1")).results
    assert began.serial is not None
    await client.drop()
    since = SubscribeItem(channel="room:1", since=began.serial)
    for missed_len, recovers in ((3, True), (4, False)):
        await publisher.do(publish("room:1", *[b"x"] * (missed_len - 3 or 3), ttl_ms=500))
        await desk.advance(1)
        client = await desk.connect()
        [result] = await come_back(client, since)
        assert (result.recovered, client.payloads()) == (recovers, [])
        await client.drop()


async def test_each_item_counts_what_was_missed_though_it_is_sent_once(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=EPHEMERAL)
    publisher, client = await desk.connect(), await desk.connect()
    await publisher.do(publish("room:1", b"1", b"2", b"3"))
    hub = await desk.directory.get("shop")
    place = Serial(hub.channels["room:1"].epoch, 1)
    named, wide = await come_back(
        client,
        SubscribeItem(channel="room:1", since=place),
        SubscribeItem(channel="room:*", positions={"room:1": place, "*": hub.place()}),
    )
    assert (named.recovered_count, wide.recovered_count) == (2, 2)
    assert client.payloads() == [b"2", b"3"]
