"""Heartbeats: silence is asked about once, then ends the connection. Anything heard counts."""

from arauto.codec.events import ErrorEvent, Ping, Pong
from arauto.errors import Code
from arauto.session.environment import SessionLimits
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, publish

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
