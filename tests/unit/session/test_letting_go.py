"""What has closed is gone at once: by counting references alone, without the help of the collector."""

import weakref

import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Operation,
    Restored,
    RestoreKey,
    RestoreRequest,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.channel import Channel
from arauto.hub.environment import HubLimits
from arauto.hub.hooks import Feature
from arauto.hub.hub import Hub
from arauto.hub.outbox import Outbox
from arauto.hub.subscriber import Subscriber
from arauto.model import Identity, When
from arauto.session.environment import SessionLimits
from arauto.session.session import Session
from arauto.settings import HubSettings, Quotas, Rules
from arauto.testing.clock import FakeClock
from tests.counting import alive, counting_only
from tests.unit.hub.world import SlowDisk
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, grants, publish, subscribe

#: Everything at once: each feature holds its channel, and each channel its features.
FULL = Rules(
    client_publish=True,
    retain=When.MARKED,
    store=When.MARKED,
    presence=True,
    occupancy=True,
    live_history_len=10,
)
CLOSE_S = HubLimits().channel_close_s + 5


class Mortal:
    pass


def test_who_counts_what_is_alive_passes_over_a_proxy_of_the_dead() -> None:
    mortal = Mortal()
    proxy = weakref.proxy(mortal)
    assert alive(Mortal) == [mortal]
    del mortal
    assert alive(Mortal) == []
    assert type(proxy) is weakref.ProxyType


async def idle(desk: Desk) -> None:
    """Let every channel nobody listens to close."""
    await desk.advance(CLOSE_S)
    assert not (await desk.directory.get("shop")).channels


@pytest.mark.parametrize("rules", [Rules(client_publish=True), FULL], ids=["plain", "full"])
async def test_a_closed_channel_is_gone_while_its_publisher_stays(
    make_desk: MakeDesk, rules: Rules
) -> None:
    desk = make_desk(rules=rules)
    with counting_only():
        publisher = await desk.connect()
        for index in range(20):
            await publisher.do(publish(f"room:{index}", b"x", id=1, retain=index % 2 == 0))
            await publisher.do(publish(f"room:{index}", b"x", id=1, store=True))
        assert len(alive(Channel)) == 20
        await idle(desk)
        assert alive(Channel) == []
        assert alive(Feature) == []


async def test_a_closed_channel_is_gone_while_its_listeners_stay(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=FULL)
    with counting_only():
        publisher, by_name, by_pattern = [await desk.connect() for _ in range(3)]
        await by_name.subscribe("room:1", "room:2")
        await by_pattern.subscribe("room:*")
        await publisher.do(publish("room:1", b"x"))
        await by_name.ask(HistoryRequest(id=7, channel="room:1", limit=5), HistoryReply)
        for client in (by_name, by_pattern):
            for name in list(client.session.subscriptions):
                client.session.drop_subscription(name)
        await idle(desk)
        assert alive(Channel) == []


async def test_a_closed_channel_is_gone_though_who_left_it_has_not_read_who_is_there(
    make_desk: MakeDesk,
) -> None:
    """Seen: whoever did not read could have the node hold any number of channels that they had left."""
    desk = make_desk(rules=FULL, limits=SessionLimits(ping_interval_s=10 * CLOSE_S))
    with counting_only():
        client = await desk.connect()
        client.session.outbox.pause()
        await client.do(subscribe("room:1", "room:2", "room:*", id=0))
        await client.do(UnsubscribeRequest(channels=("room:1", "room:2", "room:*")))
        await idle(desk)
        assert alive(Channel) == []
        assert not client.session.has_ended()


async def test_a_closed_document_is_gone(desk: Desk) -> None:
    with counting_only():
        writer, reader = await desk.connect(), await desk.connect()
        await reader.subscribe("doc:1")
        change = Operation(op="add", path="/a", value=[1, 2, 3])
        request = DocumentChangeRequest(id=1, channel="doc:1", operations=(change,))
        await writer.ask(request, DocumentChangeReply)
        await reader.ask(DocumentGetRequest(id=2, channel="doc:1"), DocumentGetReply)
        await reader.drop()
        await idle(desk)
        assert alive(Channel) == []


async def test_a_channel_that_could_not_be_opened_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: object) -> None:
        raise StorageError(Code.STORAGE_FAILED, "no")

    monkeypatch.setattr(desk.storage.documents, "load", refuse)
    with counting_only():
        client = await desk.connect()
        await client.ask(DocumentGetRequest(id=2, channel="doc:1"), ErrorEvent)
        await client.ask(HistoryRequest(id=3, channel="doc:1", limit=5), ErrorEvent)
        await client.do(publish("doc:1", b"x"))
        reply = await client.subscribe("doc:1", "doc:2")
        assert [each.error is not None for each in reply.results] == [True, True]
        assert alive(Channel) == []
        await client.drop()
        del client
        assert alive(Session) == []


async def test_a_message_stored_after_its_hub_was_closed_frees_its_channel(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    disk = SlowDisk(clock)
    rules = Rules(client_publish=True, store=When.ALL, retain=When.ALL)
    desk = make_desk(rules=rules, clock=clock, journal=disk)
    with counting_only():
        client = await desk.connect()
        disk.commit(len(disk.waiting))
        await client.do(publish("room:1", b"x", id=1))
        assert disk.waiting
        await desk.directory.close_hub("shop")
        del client
        await desk.settle()
        for kind in (Channel, Hub, Session):
            assert alive(kind) == []
    again = await desk.connect()
    await again.subscribe("room:1")
    assert again.payloads() == [b"x"]


async def test_an_ended_session_is_gone(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=FULL)
    with counting_only():
        staying = await desk.connect()
        await staying.subscribe("room:*")
        for code in (Code.CONNECTION_LOST, Code.CLOSED_BY_CLIENT):
            client = await desk.connect()
            await client.subscribe("room:1", "hall:*")
            await client.subscribe("room:1", "[")  # refused
            await client.do(publish("room:1", b"x", b"y", id=3))
            await client.do(publish("[", b"x", id=4))
            await client.drop(code)
            del client
            assert len(alive(Session)) == len(alive(Subscriber)) == len(alive(Outbox)) == 1


async def test_a_session_that_waits_to_be_restored_leaves_nothing_but_its_state(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=FULL, settings=HubSettings(default_public=True))
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    with counting_only():
        client = await desk.connect()
        await client.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
        key = client.take(RestoreKey).key
        await client.subscribe("room:1", "hall:*")
        await client.drop()
        del client
        for kind in (Session, Subscriber, Outbox):
            assert alive(kind) == []
        again = await desk.connect()
        restored = await again.ask(RestoreRequest(id=5, key=key, positions={}), Restored)
        assert {result.channel for result in restored.results} >= {"room:1", "hall:*"}
        await again.drop()
        del again
        await desk.settle()
        assert alive(Session) == []


async def test_a_session_whose_message_waits_for_the_disk_is_gone_with_the_answer(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    disk = SlowDisk(clock)
    desk = make_desk(rules=FULL, clock=clock, journal=disk)
    with counting_only():
        client = await desk.connect()
        await client.do(publish("room:1", b"x", id=1, store=True, idempotency_key="k"))
        await client.drop()
        del client
        assert len(alive(Session)) == 1
        disk.commit(len(disk.waiting))
        assert alive(Session) == []


async def test_a_session_that_finds_no_room_is_gone(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=HubSettings(quotas=Quotas(sessions_max=1)))
    with counting_only():
        first = await desk.connect()
        with pytest.raises(ArautoError):
            await desk.connect()
        assert alive(Session) == [first.session]
