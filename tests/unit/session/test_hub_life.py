"""Hubs and channels open on use, close when idle, and lose nothing that arrives meanwhile."""

import asyncio

import msgspec
import pytest

from arauto.codec.events import (
    Ack,
    DocumentChangeReply,
    DocumentChangeRequest,
    Occupancy,
    Operation,
    Presence,
    Publication,
    PublishItem,
)
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.environment import HubLimits
from arauto.hub.hub import Hub
from arauto.hub.refusals import Asker
from arauto.model import Identity, Serial, When
from arauto.session.oneshot import publish_all
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Quotas, Rules
from arauto.storage.base import Snapshot
from arauto.storage.memory import MemoryDocumentStore
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import SlowDisk
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, publish, subscribe

QUICK = HubLimits(hub_close_s=30, channel_close_s=20)
STORED = Rules(client_publish=True, store=When.ALL)


async def open_hub(desk: Desk) -> Hub:
    return await desk.directory.get("shop")


async def test_an_idle_channel_closes_and_a_used_one_does_not(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=QUICK)
    client = await desk.connect()
    await client.subscribe("kept", "pattern:*")
    await client.do(publish("idle", b"x"))
    await client.do(publish("pattern:1", b"x"))
    hub = await open_hub(desk)
    for _ in range(15):
        await desk.advance(2)
        client.session.heard()
        await client.do(publish("busy", b"x"))
    assert sorted(hub.channels) == ["busy", "kept", "pattern:1"]


async def test_a_channel_whose_store_failed_while_it_was_idle_still_closes(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    disk = SlowDisk(clock)
    desk = make_desk(rules=STORED, hub_limits=QUICK, clock=clock, journal=disk)
    client = await desk.connect()
    await client.do(publish("room:1", b"x"))
    hub = await open_hub(desk)
    await desk.advance(25)
    client.session.heard()
    assert "room:1" in hub.channels, "something is still on its way to the disk"
    disk.commit(100, StorageError(Code.STORAGE_FULL, "the disk is full"))
    await desk.advance(25)
    assert "room:1" not in hub.channels


async def test_a_channel_deserted_because_of_its_rules_still_closes(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=QUICK)
    client = await desk.connect()
    await client.subscribe("*")
    await client.do(publish("vip:1", b"x"))
    hub = await open_hub(desk)
    await desk.advance(25)
    client.session.heard()
    assert "vip:1" in hub.channels
    await desk.set("rules", "shop", "closed", Rules(public=False))
    await desk.set("namespace", "shop", "vip", NamespaceSettings(rules="closed"))
    await desk.advance(25)
    assert "vip:1" not in hub.channels


async def test_an_idle_hub_closes_and_the_next_visitor_gets_a_fresh_one(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(hub_limits=QUICK)
    client = await desk.connect()
    await client.do(publish("room:1", b"kept", retain=True))
    old = await open_hub(desk)
    await desk.advance(40)
    assert desk.directory.hubs == {"shop": old}, "someone is still there"
    await client.drop()
    await desk.advance(60)
    assert desk.directory.hubs == {}
    visitor = await desk.connect()
    assert (await open_hub(desk)) is not old
    await visitor.subscribe("room:1")
    assert visitor.payloads() == [b"kept"]


async def test_what_arrives_while_a_hub_closes_waits_and_gets_a_fresh_one(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(hub_limits=QUICK)
    client = await desk.connect()
    operation = Operation(op="add", path="/a", value=1)
    change = DocumentChangeRequest(id=1, channel="doc:1", operations=(operation,))
    await client.ask(change, DocumentChangeReply)
    await client.drop()
    old = await open_hub(desk)
    store = GatedDocuments()
    object.__setattr__(desk.storage, "documents", store)
    closing = asyncio.ensure_future(desk.directory.close_hub("shop"))
    await asyncio.sleep(0)
    coming = asyncio.ensure_future(desk.connect())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not coming.done()
    assert not closing.done()
    store.gate.set()
    visitor = await coming
    await closing
    assert visitor.session.hub is not old
    assert visitor.session.hub is await open_hub(desk)


class GatedDocuments(MemoryDocumentStore):
    """Snapshots take as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def save(self, hub: str, channel: str, snapshot: Snapshot) -> None:
        await self.gate.wait()
        await super().save(hub, channel, snapshot)


async def test_what_is_published_while_a_document_channel_closes_goes_to_the_fresh_one(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(hub_limits=QUICK)
    client, reader = await desk.connect(), await desk.connect()
    operation = Operation(op="add", path="/a", value=1)
    change = DocumentChangeRequest(id=1, channel="doc:1", operations=(operation,))
    await client.ask(change, DocumentChangeReply)
    await client.do(publish("doc:1", b"remembered as a target"))
    hub = await open_hub(desk)
    store = GatedDocuments()
    object.__setattr__(desk.storage, "documents", store)
    old = hub.channels["doc:1"]
    closing = asyncio.ensure_future(hub._close_channel(old))
    await asyncio.sleep(0)
    client.send(publish("doc:1", b"late", id=7))
    store.gate.set()
    await closing
    await desk.settle()
    ack = client.take(Ack)
    fresh = hub.channels["doc:1"]
    assert fresh is not old
    serial = ack.results[0].serial
    assert serial is not None
    assert serial.epoch == fresh.epoch
    reply = await reader.subscribe("doc:1", since=Serial(fresh.epoch, 0))
    assert reply.results[0].recovered
    assert reader.payloads() == [b"late"]


async def test_a_closed_hub_takes_nothing_more(desk: Desk) -> None:
    """Whoever still holds it (a request that waited meanwhile) must not write beside the fresh one."""
    client = await desk.connect()
    old = await open_hub(desk)
    await desk.directory.close_hub("shop")
    assert client.closed_with is Code.HUB_CLOSED
    item = PublishItem(channel="room:1", payload=b"x")
    [outcome] = await publish_all(old, (item,), Asker(), None, size_bytes=1)
    assert outcome.error is not None
    assert outcome.error.code == Code.HUB_CLOSED
    assert outcome.error.retryable
    with pytest.raises(ArautoError):
        await old.open_channel("room:1")


async def test_a_hub_closed_with_messages_on_their_way_to_the_disk_reuses_no_serial(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    disk = SlowDisk(clock)
    desk = make_desk(rules=STORED, clock=clock, journal=disk)
    client = await desk.connect()
    await client.do(publish("room:1", b"1"))
    disk.commit(100)
    await client.do(publish("room:1", b"2", b"3"))
    await desk.directory.close_hub("shop")
    visitor = await desk.connect()
    await visitor.do(publish("room:1", b"4", id=5))
    disk.commit(100)
    await desk.settle()
    rows = [entry for _, entry in await disk.read(0, 100) if entry.channel == "room:1"]
    assert [row.payload for row in rows] == [b"1", b"2", b"3", b"4"]
    serials = [(row.epoch, row.offset) for row in rows]
    assert serials == sorted(set(serials))


async def test_hubs_are_not_made_on_use_where_that_is_off(make_desk: MakeDesk) -> None:
    desk = make_desk(allow_dynamic=False)
    with pytest.raises(ArautoError) as caught:
        await desk.connect("nowhere")
    assert (caught.value.code, caught.value.field) == (Code.UNKNOWN_HUB, "hub")
    settings = msgspec.json.encode(HubSettings(default_public=True))
    await desk.storage.settings.put("hub", "shop", "", settings)
    client = await desk.connect("shop")
    await desk.storage.settings.delete("hub", "shop", "")
    await desk.directory.refresh("shop")
    assert client.closed_with is Code.HUB_CLOSED
    assert desk.directory.hubs == {}


async def test_the_nodes_own_hub_is_there_though_hubs_are_not_made_on_use(
    make_desk: MakeDesk,
) -> None:
    """Found by use: the sums of all hubs were lost until an administrator had made a hub for them."""
    wide_open = HubSettings(default_public=True)
    rules = Rules(public=True, client_publish=True)
    desk = make_desk(allow_dynamic=False, own_hub="system", settings=wide_open, rules=rules)
    client = await desk.connect("system", stranger="203.0.113.7")
    reply = await client.subscribe("analytics:rollup")
    assert reply.results[0].error is not None
    assert reply.results[0].error.code == Code.ANONYMOUS_DENIED
    desk.doorman.know("system", b"ann", Identity("ann"))
    ann = await desk.connect("system", credentials=b"ann")
    reply = await ann.subscribe("analytics:rollup")
    assert reply.results[0].error is not None
    assert reply.results[0].error.code == Code.SUBSCRIBE_DENIED, "whatever the defaults open"
    await desk.set("rules", "system", "watch", Rules(public=True))
    await desk.set("channel", "system", "analytics:rollup", ChannelSettings(rules="watch"))
    assert (await ann.subscribe("analytics:rollup")).results[0].error is None
    await desk.set("hub", "system", "", wide_open)
    assert (await client.subscribe("news")).results[0].error is None, "it is like any other now"
    await desk.storage.settings.delete("hub", "system", "")
    await desk.directory.refresh("system")
    assert client.closed_with is None, "it does not go"
    assert desk.directory.hubs["system"].state.settings.allow_anonymous is False
    with pytest.raises(ArautoError):
        await desk.connect("systems")


@pytest.mark.parametrize(("most", "made"), [(2, 2), (0, 5)])
async def test_the_number_of_hubs_is_bounded_unless_it_is_not(
    make_desk: MakeDesk, most: int, made: int
) -> None:
    desk = make_desk(hubs_max=most)
    codes = []
    for number in range(5):
        try:
            await desk.connect(f"hub-{number}")
        except ArautoError as error:
            codes.append(error.code)
    assert len(desk.directory.hubs) == made
    assert codes == [Code.OVERLOADED] * (5 - made)


@pytest.mark.parametrize("name", ["", "a b", "..", "a/b", "-a", "a" * 65, "ä", "a\x00", "*"])
async def test_malformed_hub_names_are_refused(desk: Desk, name: str) -> None:
    with pytest.raises(ArautoError) as caught:
        await desk.connect(name)
    assert (caught.value.code, caught.value.field) == (Code.BAD_HUB_NAME, "hub")


async def test_a_setting_that_cannot_be_read_closes_what_it_was_about_and_nothing_else(
    desk: Desk,
) -> None:
    """A record of a newer version, or a damaged one, must not leave open what it may have closed."""
    client = await desk.connect()
    await desk.storage.settings.put("rules", "shop", "r", b'{"public": true, "newField": 1}')
    await desk.storage.settings.put("namespace", "shop", "n1", b'{"rules": "r"}')
    await desk.storage.settings.put("namespace", "shop", "n2", b"\xff\xfe")
    await desk.storage.settings.put("channel", "shop", "c", b"[]")
    await desk.directory.refresh("shop")
    reply = await client.subscribe("n1:1", "n2:1", "c", "other")
    codes = [result.error.code if result.error else 0 for result in reply.results]
    assert [bool(code) for code in codes] == [True, True, True, False]


async def test_a_hub_whose_own_settings_cannot_be_read_is_closed_to_strangers(desk: Desk) -> None:
    await desk.storage.settings.put("hub", "shop", "", b'{"defaultPublic": true, "newField": 1}')
    client = await desk.connect()
    [result] = (await client.subscribe("room:1")).results
    assert result.error is not None
    assert result.error.code == Code.ANONYMOUS_DENIED


async def test_presence_and_occupancy_turned_on_later_show_who_is_there_already(
    desk: Desk,
) -> None:
    by_name, by_pattern = await desk.connect(), await desk.connect()
    await by_name.subscribe("room:1")
    await by_pattern.subscribe("room:*")
    rules = Rules(public=True, presence=True, occupancy=True)
    await desk.set("rules", "shop", "seen", rules)
    await desk.set("namespace", "shop", "room", NamespaceSettings(rules="seen"))
    await desk.advance(1)
    ids = {by_name.session.id, by_pattern.session.id}
    for client in (by_name, by_pattern):
        assert {m.session for m in client.take_all(Presence)[-1].members} == ids
        assert client.take_all(Occupancy)[-1].count == 2


async def test_a_shortened_history_forgets_at_once_and_owns_up_to_it(desk: Desk) -> None:
    client = await desk.connect()
    reply = await client.subscribe("room:1")
    place = reply.results[0].serial
    await client.do(publish("room:1", *(b"%d" % n for n in range(10))))
    await desk.set("rules", "shop", "short", Rules(public=True, live_history_len=3))
    await desk.set("channel", "shop", "room:1", ChannelSettings(rules="short"))
    late = await desk.connect()
    assert not (await late.subscribe("room:1", since=place)).results[0].recovered
    assert place is not None
    other = await desk.connect()
    near = Serial(place.epoch, place.offset + 7)
    assert (await other.subscribe("room:1", since=near)).results[0].recovered
    assert other.payloads() == [b"7", b"8", b"9"]


async def test_quotas_change_live_in_both_directions(desk: Desk) -> None:
    client = await desk.connect()

    async def code(payload: bytes) -> int:
        ack = await client.ask(publish("a", payload, id=1), Ack)
        error = ack.results[0].error
        return error.code if error else 0

    for limit, expected in (
        (3, Code.MESSAGE_TOO_LARGE),
        (10, 0),
        (2, Code.MESSAGE_TOO_LARGE),
        (0, 0),
    ):
        quotas = Quotas(message_bytes_max=limit)
        await desk.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
        assert await code(b"12345") == expected


async def crowd(desk: Desk, count: int) -> list[Client]:
    return [await desk.connect() for _ in range(count)]


async def test_a_change_of_settings_reaches_every_session_of_a_large_hub(desk: Desk) -> None:
    clients = await crowd(desk, 1_200)
    for client in clients:
        client.send(subscribe("room:1", id=0))
    await desk.settle()
    await desk.set("hub", "shop", "", HubSettings(default_public=False))
    assert all(client.session.subscriptions == {} for client in clients)
    publisher = clients[1]
    publisher.inbox.clear()
    await publisher.do(publish("room:1", b"x"))
    assert not any(client.take_all(Publication) for client in clients)
