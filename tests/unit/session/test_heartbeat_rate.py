"""Heartbeats and other tiny frames are free in any sensible number, and no more than that."""

from arauto.codec.events import Ack, ErrorEvent, Ping, Pong
from arauto.errors import Code
from arauto.session.environment import SessionLimits
from arauto.settings import HubSettings, Quotas
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import publish
from tests.unit.session.test_costs_of_requests import RATE, left

FREE = 200
SETTINGS = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=RATE))


async def test_so_many_heartbeats_of_a_second_are_free_whatever_is_owed(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    client.session.bucket.owe(5 * RATE)
    for _ in range(3):
        for _ in range(FREE // 2):
            client.send(Ping(id=1))
            assert client.session.heard()
        await desk.settle()
        assert len(client.take_all(Pong)) == FREE // 2
        desk.clock.advance(1)
    assert client.take_all(ErrorEvent) == []


async def test_heartbeats_beyond_that_cost_as_requests_do(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    for _ in range(FREE):
        client.send(Pong())
    assert left(client) == RATE
    for _ in range(30):
        client.send(Ping(id=1))
        assert client.session.heard()
    assert left(client) == RATE - 60
    await client.ask(publish("a", b"", id=9), Ack)


async def test_who_sends_nothing_but_heartbeats_by_the_thousand_is_sent_away(
    make_desk: MakeDesk,
) -> None:
    """Seen: a million a second kept the node busy with one client."""
    desk = make_desk(settings=SETTINGS, limits=SessionLimits(errors_max=10))
    client = await desk.connect()
    answered = sum(client.session.heard() for _ in range(1_000))
    assert answered == FREE + RATE
    assert client.closed_with is Code.TOO_MANY_ERRORS


async def test_a_ping_that_is_too_many_is_told_so(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    for _ in range(FREE + RATE):
        client.send(Ping(id=1))
    assert (await client.ask(Ping(id=2), ErrorEvent)).code == Code.RATE_LIMITED


async def test_heartbeats_are_not_counted_where_requests_are_not(make_desk: MakeDesk) -> None:
    quotas = Quotas(session_messages_per_s=0)
    client = await make_desk(settings=HubSettings(default_public=True, quotas=quotas)).connect()
    for _ in range(2_000):
        client.send(Ping())
        assert client.session.heard()
    assert client.is_connected()
