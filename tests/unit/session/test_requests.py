"""Requests: in order, within limits, each answered once and to whoever asked."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from arauto.codec.events import (
    Ack,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    MarkReadRequest,
    OccupancyRequest,
    Ping,
    Pong,
    PresenceRequest,
    PublishItem,
    PublishRequest,
    Request,
    RpcRequest,
    StreamRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code
from arauto.hub.environment import HubLimits
from arauto.model import Identity, Serial, When
from arauto.session import commands
from arauto.session.environment import SessionLimits
from arauto.session.subscribe import Plan, prepare, subscribe_now
from arauto.settings import HubSettings, Quotas, Rules
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import SlowDisk
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, grants, publish, subscribe

STORED = Rules(client_publish=True, store=When.ALL)


def limited(**quotas: int) -> HubSettings:
    return HubSettings(default_public=True, quotas=Quotas(**quotas))


async def test_heartbeats_neither_count_against_the_rate_limit_nor_are_refused_by_it(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=limited(session_messages_per_s=5))
    client = await desk.connect()
    for number in range(50):
        client.send(Ping(id=number + 1))
        client.send(Pong())
    acks = [await client.ask(publish("a", b"x", id=n + 1), Ack) for n in range(5)]
    assert all(ack.results[0].error is None for ack in acks)
    error = await client.ask(publish("a", b"x", id=6), ErrorEvent)
    assert error.code == Code.RATE_LIMITED
    assert error.retryable
    for number in range(50):
        client.send(Ping(id=number + 100))
    await desk.settle()
    assert len(client.take_all(Pong)) == 100
    assert (await client.ask(publish("a", b"x", id=7), ErrorEvent)).code == Code.RATE_LIMITED
    await desk.advance(1)
    assert (await client.ask(publish("a", b"x", id=8), Ack)).results[0].error is None


async def test_one_sessions_rate_is_no_concern_of_anothers(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=limited(session_messages_per_s=2))
    loud, quiet = await desk.connect(), await desk.connect()
    for number in range(30):
        loud.send(publish("a", b"x", id=number + 1))
    assert (await quiet.ask(publish("a", b"x", id=1), Ack)).results[0].error is None


async def test_a_client_that_only_errs_is_sent_away_and_one_that_also_succeeds_is_not(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(limits=SessionLimits(errors_max=10))
    hopeless, clumsy = await desk.connect(), await desk.connect()
    for number in range(30):
        if hopeless.closed_with is None:
            hopeless.session.receive(b"\xff")
        clumsy.session.receive(b"\xff")
        if number % 5 == 0:
            await clumsy.ask(publish("a", b"x", id=1), Ack)
        await desk.advance(0.1)
    assert hopeless.closed_with is Code.TOO_MANY_ERRORS
    assert clumsy.closed_with is None


async def test_who_is_sent_away_in_the_middle_of_a_request_joins_nothing_more(
    make_desk: MakeDesk,
) -> None:
    """Seen: what stood behind the last refusal was joined, and held for ever, by a session that had ended."""
    desk = make_desk(settings=HubSettings(), limits=SessionLimits(errors_max=2))
    desk.doorman.know("shop", b"ann", Identity("ann", grants("mine:*")))
    client = await desk.connect(credentials=b"ann")
    for number in (1, 2):
        await client.subscribe("theirs:1", id=number)
    client.send(subscribe("theirs:1", "mine:1", "mine:*"))
    await desk.settle()
    assert client.closed_with is Code.TOO_MANY_ERRORS
    hub = await desk.directory.get("shop")
    assert (len(hub.patterns), hub.subscription_count) == (0, 0)
    assert [name for name, channel in hub.channels.items() if not channel.is_deserted] == []


async def test_no_limit_on_errors_means_no_limit(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=SessionLimits(errors_max=0))
    client = await desk.connect()
    for _ in range(300):
        client.session.receive(b"\xff")
    assert client.closed_with is None


UNAVAILABLE: list[Request] = [
    RpcRequest(id=9, method="stock.get", payload=b"{}"),
    StreamRequest(id=9, stream="clicks", payload=b"{}"),
    MarkReadRequest(id=9, channel="notification:ann", notifications=("1",)),
]


@pytest.mark.parametrize("request_", UNAVAILABLE, ids=lambda r: type(r).__name__)
async def test_events_that_this_node_does_not_offer_say_so(desk: Desk, request_: Request) -> None:
    client = await desk.connect()
    error = await client.ask(request_, ErrorEvent)
    assert (error.code, error.field, error.retryable) == (Code.NOT_AVAILABLE, "event", False)
    assert client.closed_with is None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (PresenceRequest(id=9, channel="room:1"), Code.FEATURE_OFF),
        (OccupancyRequest(id=9, channel="room:1"), Code.FEATURE_OFF),
        (PresenceRequest(id=9, channel="room:*"), Code.BAD_CHANNEL_NAME),
        (HistoryRequest(id=9, channel="room:#"), Code.BAD_CHANNEL_NAME),
        (DocumentGetRequest(id=9, channel="room:1"), Code.WRONG_CHANNEL_TYPE),
        (DocumentGetRequest(id=9, channel="notification:1"), Code.NOT_AVAILABLE),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, Code) else value.name,
)
async def test_what_does_not_fit_is_refused_with_the_field(
    desk: Desk, request_: Request, code: Code
) -> None:
    client = await desk.connect()
    error = await client.ask(request_, ErrorEvent)
    assert (error.code, error.field) == (code, "channel")


async def test_requests_behind_one_that_waits_are_handled_in_order(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=STORED)
    client = await desk.connect()
    client.send(subscribe("room:1", id=1))
    for number in range(2, 7):
        client.send(publish("room:1", b"%d" % number, id=number))
    client.send(subscribe("room:2", id=7))
    client.send(Ping(id=8))
    assert not client.is_read()
    await desk.settle()
    assert client.is_read()
    ids = [e.id for e in client.inbox if isinstance(e, SubscribeReply | Ack | Pong)]
    assert sorted(ids) == list(range(1, 9))
    assert [i for i in ids if i in (1, 7, 8)] == [1, 7, 8]
    assert client.payloads() == [b"2", b"3", b"4", b"5", b"6"]


async def broken(session: object, request: object) -> None:
    raise RuntimeError("a planted mistake")


def broken_at_once(session: object, request: object) -> Coroutine[Any, Any, None] | None:
    raise RuntimeError("a planted mistake")


@pytest.mark.parametrize("handler", [broken, broken_at_once])
async def test_a_mistake_of_ours_behind_a_request_that_waits_costs_that_client_only(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    """T12: the client is told and let go; it does not hang, and nobody else notices."""
    desk = make_desk(rules=STORED)
    unlucky, other = await desk.connect(), await desk.connect()
    await other.subscribe("room:1")
    monkeypatch.setitem(commands.HANDLERS, RpcRequest, handler)
    unlucky.send(subscribe("room:2", id=1))  # has to wait for the store
    unlucky.send(RpcRequest(id=2, method="m", payload=b""))
    unlucky.send(Ping(id=3))
    await desk.settle()
    assert unlucky.closed_with is Code.SERVER_ERROR
    assert unlucky.take(ErrorEvent).code == Code.SERVER_ERROR
    await other.do(publish("room:1", b"fine"))
    assert other.payloads() == [b"fine"]


async def test_each_item_of_a_published_batch_stands_for_itself(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=limited(message_bytes_max=4))
    client = await desk.connect()
    await client.subscribe("a")
    names = [("a", b"1"), ("a*", b"2"), ("a", b"too long"), ("notification:1", b"3"), ("a", b"4")]
    items = tuple(PublishItem(channel=name, payload=payload) for name, payload in names)
    ack = await client.ask(PublishRequest(id=3, items=items), Ack)
    assert [result.error.code if result.error else 0 for result in ack.results] == [
        0,
        Code.BAD_CHANNEL_NAME,
        Code.MESSAGE_TOO_LARGE,
        Code.NOT_AVAILABLE,
        0,
    ]
    assert client.payloads() == [b"1", b"4"]


async def test_without_an_id_only_what_went_wrong_is_answered(desk: Desk) -> None:
    client = await desk.connect()
    client.inbox.clear()
    await client.do(publish("a", b"x"))
    await client.do(subscribe("b", id=0))
    assert client.inbox == []
    await client.do(publish("a*", b"x"))
    assert client.take(ErrorEvent).code == Code.BAD_CHANNEL_NAME
    await client.do(subscribe("b c", id=0))
    assert client.take(SubscribeReply).results[0].error is not None


async def test_history_requests_are_bounded_and_do_not_hold_up_the_rest(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(limits=SessionLimits(history_requests_max=2))
    client = await desk.connect()
    for number in range(4):
        client.send(HistoryRequest(id=number + 1, channel="room:1"))
    client.send(Ping(id=9))
    await desk.settle()
    assert client.take(Pong).id == 9
    assert [error.code for error in client.take_all(ErrorEvent)] == [Code.TOO_MANY_PENDING] * 2
    assert len(client.take_all(HistoryReply)) == 2
    assert client.session.history_requests == 0


async def test_a_page_of_history_is_bounded_in_bytes_and_goes_on(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=HubLimits(replay_bytes_max=1_000))
    client = await desk.connect()
    await client.do(publish("log", *(b"%d" % n * 400 for n in range(7)), b"x" * 5_000, b"end"))
    pages: list[list[bytes]] = []
    since: Serial | None = None
    more = True
    while more:
        page = await client.ask(HistoryRequest(id=2, channel="log", since=since), HistoryReply)
        pages.append([message.payload[:1] for message in page.messages])
        since, more = page.next, page.more
    assert pages == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"], [b"6"], [b"x"], [b"e"]]


async def test_what_is_replayed_for_one_request_is_bounded_in_bytes(make_desk: MakeDesk) -> None:
    """Whoever gets nothing of a channel is told so, and can read it page by page."""
    desk = make_desk(hub_limits=HubLimits(replay_bytes_max=1_000))
    client = await desk.connect()
    for channel, size_bytes in (("a", 600), ("b", 600), ("c", 300)):
        await client.do(publish(channel, b"1", b"x" * size_bytes))
    hub = await desk.directory.get("shop")
    places = {name: Serial(hub.channels[name].epoch, 1) for name in ("a", "b", "c")}
    items = tuple(SubscribeItem(channel=name, since=since) for name, since in places.items())
    reply = await client.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    told = {result.channel: (result.recovered, result.error) for result in reply.results}
    assert told == {"a": (True, None), "b": (False, None), "c": (True, None)}
    assert sorted(map(len, client.payloads())) == [300, 600]
    missed = HistoryRequest(id=3, channel="b", since=places["b"])
    page = await client.ask(missed, HistoryReply)
    assert page.complete
    assert [len(message.payload) for message in page.messages] == [600]
    other = await desk.connect()
    wide = SubscribeItem(channel="*", positions={**places, "*": hub.place()})
    reply = await other.ask(SubscribeRequest(id=4, items=(wide,)), SubscribeReply)
    [result] = reply.results
    assert (result.recovered, result.unrecovered) == (False, ("b",))


async def test_what_is_read_to_be_replayed_is_not_held_beyond_what_may_be_sent(
    make_desk: MakeDesk,
) -> None:
    """Seen: all that a request's channels had missed was in memory at once, a thousand messages of each."""
    rules = Rules(client_publish=True, store=When.ALL, live_history_len=0)
    desk = make_desk(rules=rules, hub_limits=HubLimits(replay_bytes_max=1_000))
    client = await desk.connect()
    places = {}
    for n in range(20):
        hub = await desk.directory.get("shop")
        places[f"room:{n}"] = (await hub.open_channel(f"room:{n}")).serial
        await client.do(publish(f"room:{n}", *[b"x" * 300] * (3 if n % 2 else 5)))
    plans = [Plan(SubscribeItem(channel=name, since=since)) for name, since in places.items()]
    await prepare(client.session, plans)
    found = [each for plan in plans for each in plan.catchup._prefetched.values()]
    assert len(found) == 20
    assert sum(len(message.payload) for each in found for message in each or ()) == 4 * 900
    results, _ = subscribe_now(client.session, plans)
    assert [r.channel for r in results if r.recovered] == ["room:1"]


async def test_a_document_is_read_without_being_subscribed(desk: Desk) -> None:
    client = await desk.connect()
    reply = await client.ask(DocumentGetRequest(id=4, channel="doc:1"), DocumentGetReply)
    assert (reply.version, reply.value) == (0, {})


async def test_answers_of_the_store_reach_whoever_asked(make_desk: MakeDesk) -> None:
    """T27: many clients, one slow disk, answers out of step with the questions."""
    clock = FakeClock()
    disk = SlowDisk(clock)
    desk = make_desk(rules=STORED, clock=clock, journal=disk)
    clients = [await desk.connect() for _ in range(50)]
    disk.commit(1_000)
    for turn in range(4):
        for number, client in enumerate(clients):
            client.send(publish(f"room:{number % 7}", b"%d" % number, id=1_000 * turn + number + 1))
        disk.commit(37)
        await asyncio.sleep(0)
    await desk.settle()
    disk.commit(10_000)
    await desk.settle()
    for number, client in enumerate(clients):
        ids = [ack.id for ack in client.take_all(Ack)]
        assert ids == [1_000 * turn + number + 1 for turn in range(4)]
