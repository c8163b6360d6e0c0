"""Heartbeats: silence is asked about once, then ends the connection. Anything heard counts."""

import asyncio

from arauto.codec.events import AuthRequest, ErrorEvent, Ping, Pong, PresenceRequest
from arauto.errors import Code
from arauto.model import Identity
from arauto.session.environment import SessionLimits
from arauto.settings import Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, publish

LIMITS = SessionLimits(ping_interval_s=25, pong_timeout_s=10)


async def test_a_silent_client_is_asked_and_then_disconnected(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=LIMITS)
    client = await desk.connect()
    await desk.advance(24)
    assert client.take_all(Ping) == []
    await desk.advance(3)
    assert len(client.take_all(Ping)) == 1
    await desk.advance(8)
    assert client.is_connected()
    assert client.take_all(Ping) == [], "one question is enough"
    await desk.advance(4)
    assert client.closed_with is Code.HEARTBEAT_LOST
    assert client.take(ErrorEvent).code == Code.HEARTBEAT_LOST
    assert (await desk.directory.get("shop")).sessions == {}


async def test_a_client_that_answers_stays_for_ever(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=LIMITS)
    client = await desk.connect()
    for _ in range(600):
        await desk.advance(1)
        for _ in client.take_all(Ping):
            client.send(Pong())
    assert client.closed_with is None


async def test_any_message_counts_as_a_heartbeat_also_one_that_is_refused(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(limits=LIMITS)
    talker, fumbler = await desk.connect(), await desk.connect()
    for _ in range(40):
        await desk.advance(5)
        await talker.do(publish("room:1", b"x"))
        fumbler.session.receive(b"\xff\xff")
    assert talker.take_all(Ping) == []
    assert fumbler.take_all(Ping) == []
    assert talker.closed_with is None


async def test_what_the_transport_hears_counts_too(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=LIMITS)
    client = await desk.connect()
    for _ in range(20):
        await desk.advance(10)
        client.session.heard()
    assert client.take_all(Ping) == []
    assert client.closed_with is None


async def test_a_ping_is_answered_with_its_id(desk: Desk) -> None:
    client = await desk.connect()
    assert (await client.ask(Ping(id=77), Pong)).id == 77


async def test_thousands_of_sessions_are_asked_in_time(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=LIMITS)
    clients = [await desk.connect() for _ in range(300)]
    await desk.advance(28)
    assert all(len(client.take_all(Ping)) == 1 for client in clients)
    for client in clients[::2]:
        client.send(Pong())
    await desk.advance(12)
    left = [client for client in clients if client.closed_with is None]
    assert left == clients[::2]


async def held(make_desk: MakeDesk) -> tuple[Desk, Client]:
    """A client whose request waits for somebody else: what it sends is not read until the gate opens."""
    desk = make_desk(limits=LIMITS)
    desk.doorman.know("shop", b"ann", Identity("ann"))
    desk.doorman.gate = asyncio.Event()
    client = await desk.connect()
    client.send(AuthRequest(id=1, credentials=b"ann"))
    assert not client.is_read()
    return desk, client


async def wait(desk: Desk, seconds: int) -> None:
    """As `Desk.advance`, which would wait for what is held."""
    for _ in range(seconds):
        desk.clock.advance(1)
        await asyncio.sleep(0)


async def test_silence_is_not_counted_while_a_request_is_held(make_desk: MakeDesk) -> None:
    """A client that answered every ping was cut off, since no answer was read."""
    desk, client = await held(make_desk)
    await wait(desk, 110)
    assert client.closed_with is None
    assert 3 <= len(client.take_all(Ping)) <= 4, "it is asked all the same, now and then"
    assert desk.doorman.gate is not None
    desk.doorman.gate.set()
    await desk.settle()
    assert client.is_read()
    await desk.advance(9)
    client.send(Pong())
    await desk.advance(20)
    assert client.closed_with is None


async def test_who_went_away_while_a_request_was_held_is_found_out_after_it(
    make_desk: MakeDesk,
) -> None:
    desk, client = await held(make_desk)
    await wait(desk, 51)
    assert desk.doorman.gate is not None
    desk.doorman.gate.set()
    await desk.advance(9)
    assert client.closed_with is None, "an answer may still be read"
    await desk.advance(4)
    assert client.closed_with is Code.HEARTBEAT_LOST


async def test_who_holds_up_a_request_by_not_reading_its_answer_is_silent(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(limits=LIMITS, rules=Rules(presence=True))
    client = await desk.connect()
    await client.subscribe("room:1")
    client.session.outbox.pause()
    client.send(PresenceRequest(id=1, channel="room:1"))
    await wait(desk, 1)
    assert client.session.showing is not None
    await wait(desk, 40)
    assert client.closed_with is Code.HEARTBEAT_LOST
