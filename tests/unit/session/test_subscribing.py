"""Subscribing: what a session holds, what it is sent first, and what it no longer gets."""

import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    DocumentChangeRequest,
    Echo,
    ErrorEvent,
    Operation,
    Publication,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import Code
from arauto.model import Identity, Serial, When
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import SlowDisk
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe

STORED = Rules(public=True, client_publish=True, store=When.ALL)


def a_stored_desk(make_desk: MakeDesk, **options: object) -> tuple[Desk, SlowDisk]:
    clock = FakeClock()
    disk = SlowDisk(clock)
    return make_desk(rules=STORED, clock=clock, journal=disk, **options), disk


def errors_of(reply: SubscribeReply) -> list[int]:
    return [result.error.code if result.error else 0 for result in reply.results]


async def test_a_session_that_left_while_its_channel_opened_leaves_nothing_behind(
    make_desk: MakeDesk,
) -> None:
    desk, _ = a_stored_desk(make_desk)
    client = await desk.connect()
    client.send(subscribe("room:1", "room:*"))
    client.session.closed(Code.CONNECTION_LOST)
    await desk.settle()
    hub = await desk.directory.get("shop")
    assert hub.subscription_count == 0
    assert len(hub.patterns) == 0
    assert [c.name for c in hub.channels.values() if c.member_count] == []
    assert hub.sessions == {}


async def test_a_place_given_while_messages_are_being_stored_lies_before_them(
    make_desk: MakeDesk,
) -> None:
    """Else a client that leaves before they arrive would never hear of them."""
    desk, disk = a_stored_desk(make_desk)
    publisher, reader = await desk.connect(), await desk.connect()
    disk.commit(100)
    await publisher.do(publish("room:1", b"1"))
    disk.commit(100)
    await publisher.do(publish("room:1", b"2", b"3"))
    reply = await reader.subscribe("room:1")
    place = reply.results[0].serial
    assert place is not None
    assert place.offset == 1
    await reader.drop()
    disk.commit(100)
    back = await desk.connect()
    again = await back.subscribe("room:1", since=place)
    assert again.results[0].recovered
    assert back.payloads() == [b"2", b"3"]


async def test_the_count_of_recovered_messages_is_the_number_that_follows(desk: Desk) -> None:
    publisher, reader = await desk.connect(), await desk.connect()
    place = (await reader.subscribe("room:1")).results[0].serial
    await reader.do(publish("room:1", b"own", echo=Echo.NOT_SESSION))
    await publisher.do(publish("room:1", b"gone", ttl_ms=10))
    await publisher.do(publish("room:1", b"there"))
    reader.take_all(Publication)
    await reader.do(UnsubscribeRequest(channels=("room:1",)))
    await desk.advance(1)
    [result] = (await reader.subscribe("room:1", since=place)).results
    assert result.recovered
    assert reader.payloads() == [b"there"]
    assert result.recovered_count == 1


async def test_each_new_subscription_is_greeted_but_live_messages_come_once(desk: Desk) -> None:
    publisher = await desk.connect()
    await publisher.do(publish("w:pt:wind", b"kept", retain=True))
    await desk.advance(90)  # the channel has closed; the retained message is still there
    publisher, reader = await desk.connect(), await desk.connect()
    for name in ("w:*", "w:#:wind", "w:pt:wind"):
        await reader.subscribe(name)
        assert reader.payloads() == [b"kept"]
    await publisher.do(publish("w:pt:wind", b"live"))
    assert reader.payloads() == [b"live"]


async def test_unsubscribing_one_of_several_overlapping_subscriptions_keeps_the_rest(
    desk: Desk,
) -> None:
    publisher, reader = await desk.connect(), await desk.connect()
    await reader.subscribe("w:*", "w:pt", "w:#")
    for name in ("w:pt", "w:*"):
        await reader.ask(UnsubscribeRequest(id=1, channels=(name,)), UnsubscribeReply)
        await publisher.do(publish("w:pt", b"still"))
        assert reader.payloads() == [b"still"]
    await reader.ask(UnsubscribeRequest(id=1, channels=("w:#",)), UnsubscribeReply)
    await publisher.do(publish("w:pt", b"no more"))
    assert reader.payloads() == []


async def private_namespace(desk: Desk) -> None:
    await desk.set("rules", "shop", "closed", Rules(public=False, client_publish=True))
    await desk.set("namespace", "shop", "vip", NamespaceSettings(rules="closed"))
    desk.doorman.know("shop", b"ann", Identity("ann", grants("vip:*")))
    desk.doorman.know("shop", b"bob", Identity("bob"))


async def test_a_pattern_delivers_what_its_holder_may_read_now(desk: Desk) -> None:
    """T7: rights that end with an identity end for subscriptions that stay (a star is still allowed)."""
    publisher, reader = await desk.connect(), await desk.connect()
    await private_namespace(desk)
    await publisher.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await publisher.do(publish("vip:1", b"opens"))
    await reader.subscribe("*")
    seen: list[list[bytes]] = []
    for credentials in (b"", b"ann", b"bob", b"ann"):
        if credentials:
            await reader.ask(AuthRequest(id=1, credentials=credentials), AuthReply)
        await publisher.do(publish("vip:1", credentials or b"nobody"))
        await publisher.do(publish("vip:new-" + str(len(seen)), credentials or b"nobody"))
        seen.append(reader.payloads())
    assert seen == [[], [b"ann", b"ann"], [], [b"ann", b"ann"]]


async def test_what_a_former_identity_could_read_stops_with_it(desk: Desk) -> None:
    publisher, reader = await desk.connect(), await desk.connect()
    await private_namespace(desk)
    await publisher.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await reader.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await publisher.do(publish("vip:1", b"opens"))
    await reader.subscribe("*", "/")
    await publisher.do(publish("vip:1", b"for ann"))
    assert reader.payloads()[-1:] == [b"for ann"]
    await reader.ask(AuthRequest(id=1, credentials=b"bob"), AuthReply)
    await publisher.do(publish("vip:1", b"not for bob"))
    assert reader.payloads() == []


async def test_a_pattern_stops_when_rules_close_what_it_covers(desk: Desk) -> None:
    publisher, reader = await desk.connect(), await desk.connect()
    await reader.subscribe("*")
    await publisher.do(publish("vip:1", b"open"))
    assert reader.payloads() == [b"open"]
    await private_namespace(desk)
    await publisher.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await publisher.do(publish("vip:1", b"closed"))
    await publisher.do(publish("hall:1", b"open"))
    assert reader.payloads() == [b"open"]


async def test_what_is_no_longer_allowed_ends_and_the_client_is_told_why(desk: Desk) -> None:
    reader = await desk.connect()
    await private_namespace(desk)
    await reader.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    assert errors_of(await reader.subscribe("vip:1", "vip:*", "hall:1")) == [0, 0, 0]
    await reader.ask(AuthRequest(id=2, credentials=b"bob"), AuthReply)
    ended = reader.take(UnsubscribeReply)
    assert sorted(ended.channels) == ["u:ann", "vip:*", "vip:1"]
    assert ended.error is not None
    assert ended.error.code == Code.SUBSCRIBE_DENIED
    assert sorted(reader.session.subscriptions) == ["hall:1", "u:bob"]


@pytest.mark.parametrize("name", ["doc:a*", "doc:#", "doc:\x00", "doc:a b", "doc:" + "x" * 300, ""])
async def test_a_document_change_creates_no_channel_of_a_malformed_name(
    desk: Desk, name: str
) -> None:
    client = await desk.connect()
    operation = Operation(op="add", path="/a", value=1)
    request = DocumentChangeRequest(id=1, channel=name, operations=(operation,))
    error = await client.ask(request, ErrorEvent)
    assert error.code == Code.BAD_CHANNEL_NAME
    assert error.field == "channel"
    assert (await desk.directory.get("shop")).channels == {}


async def test_subscriptions_per_session_are_limited_and_counted(make_desk: MakeDesk) -> None:
    quotas = Quotas(subscriptions_per_session_max=3)
    desk = make_desk(settings=HubSettings(default_public=True, quotas=quotas))
    client, other = await desk.connect(), await desk.connect()
    reply = await client.subscribe("a", "b:*", "/c", "d")
    assert errors_of(reply) == [0, 0, 0, Code.TOO_MANY_SUBSCRIPTIONS]
    assert errors_of(await other.subscribe("d")) == [0]
    hub = await desk.directory.get("shop")
    assert hub.subscription_count == 4
    await client.do(UnsubscribeRequest(channels=("a",)))
    assert errors_of(await client.subscribe("d")) == [0]
    await client.drop()
    assert hub.subscription_count == 1


async def test_each_item_of_a_batch_stands_for_itself(desk: Desk) -> None:
    client = await desk.connect()
    reply = await client.subscribe(
        "good", "bad name", "good", "a:b#", "/x/*", "notification:1", "too"
    )
    assert errors_of(reply) == [
        0,
        Code.BAD_CHANNEL_NAME,
        Code.ALREADY_SUBSCRIBED,
        Code.BAD_CHANNEL_NAME,
        Code.BAD_CHANNEL_NAME,
        Code.NOT_AVAILABLE,
        0,
    ]


async def test_unsubscribing_what_one_does_not_hold_is_an_error_that_harms_nothing(
    desk: Desk,
) -> None:
    client = await desk.connect()
    await client.subscribe("a", "b")
    error = await client.ask(UnsubscribeRequest(id=3, channels=("a", "x")), ErrorEvent)
    assert error.code == Code.NOT_SUBSCRIBED
    assert list(client.session.subscriptions) == ["b"]


async def test_places_of_channels_one_may_not_read_open_nothing_and_reveal_nothing(
    make_desk: MakeDesk,
) -> None:
    desk, disk = a_stored_desk(make_desk)
    await private_namespace(desk)
    stranger = await desk.connect()
    disk.commit(100)
    odd = 2**40 + 1
    positions = {"vip:1": Serial(odd, 3), "not:there": Serial(odd, 1), "bad name": Serial(odd, 1)}
    item = SubscribeItem(channel="*", positions=positions)
    [result] = (await stranger.ask(SubscribeRequest(id=1, items=(item,)), SubscribeReply)).results
    assert not result.recovered
    assert result.positions is not None
    assert "vip:1" not in result.positions
    assert "vip:1" not in (await desk.directory.get("shop")).channels


async def flood(client: Client, channel: str, size_bytes: int, count: int) -> None:
    for _ in range(count):
        await client.do(publish(channel, b"x" * size_bytes))


async def test_a_large_replay_is_not_sent_to_someone_who_may_never_read_it(
    make_desk: MakeDesk,
) -> None:
    """What waits for one connection is bounded in bytes, replays included (T14)."""
    quotas = Quotas(message_bytes_max=100_000, session_messages_per_s=0)
    desk = make_desk(settings=HubSettings(default_public=True, quotas=quotas))
    publisher, reader = await desk.connect(), await desk.connect()
    place = (await reader.subscribe("big")).results[0].serial
    await reader.drop()
    await flood(publisher, "big", 90_000, 60)
    back = await desk.connect()
    [result] = (await back.subscribe("big", since=place)).results
    assert not result.recovered
    assert back.payloads() == []
