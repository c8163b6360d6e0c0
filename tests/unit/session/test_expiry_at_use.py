"""An authentication ends at its time for whatever a client asks, not only when a timer looks."""

import pytest

from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    OccupancyRequest,
    Operation,
    Ping,
    Pong,
    PresenceRequest,
    Request,
    SubscribeReply,
)
from arauto.errors import Code
from arauto.model import Identity, When
from arauto.settings import HubSettings, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe

CLOSED = HubSettings()
RULES = Rules(store=When.ALL, presence=True, occupancy=True)

USES_OF_RIGHTS: list[Request] = [
    publish("vip:1", b"x", id=7),
    publish("vip:new", b"x", id=7),
    subscribe("vip:2", id=7),
    subscribe("vip:*", id=7),
    HistoryRequest(id=7, channel="vip:1"),
    PresenceRequest(id=7, channel="vip:1"),
    OccupancyRequest(id=7, channel="vip:1"),
    DocumentGetRequest(id=7, channel="doc:1"),
    DocumentChangeRequest(
        id=7, channel="doc:1", operations=(Operation(op="add", path="/a", value=1),)
    ),
]


async def signed_in(desk: Desk) -> Client:
    """Whose authentication ends in ten seconds and a half, between two ticks of the wheel."""
    expires_ms = desk.clock.wall_ms() + 10_500
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*"), expires_ms=expires_ms))
    client = await desk.connect()
    reply = await client.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    assert reply.success
    await client.ask(publish("vip:1", b"x", id=2), Ack)
    return client


def refused_by(client: Client) -> set[int]:
    """The codes of everything that was not done."""
    results = [result for ack in client.take_all(Ack) for result in ack.results]
    errors = [*client.take_all(ErrorEvent), *(result.error for result in results)]
    for reply in client.take_all(SubscribeReply):
        errors += [result.error for result in reply.results]
    return {error.code for error in errors if error is not None}


@pytest.mark.parametrize("request_", USES_OF_RIGHTS, ids=lambda r: f"{type(r).__name__}")
async def test_a_right_is_used_until_its_time_and_not_behind_it(
    make_desk: MakeDesk, request_: Request
) -> None:
    desk = make_desk(settings=CLOSED, rules=RULES)
    client = await signed_in(desk)
    await desk.advance(10.4)
    await client.do(request_)
    assert refused_by(client) == set()
    for kind in (HistoryReply, DocumentGetReply, DocumentChangeReply):
        client.take_all(kind)

    client = await signed_in(desk)
    await desk.advance(10.4)
    desk.clock.advance(0.1)
    assert client.session.user == "ann", "the wheel has not looked"
    await client.do(request_)
    codes = refused_by(client)
    assert Code.TOKEN_EXPIRED in codes
    assert codes & {Code.SUBSCRIBE_DENIED, Code.PUBLISH_DENIED}
    assert client.session.user == ""


async def test_a_request_that_waits_beyond_the_time_uses_no_right(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=CLOSED, rules=RULES)
    client = await signed_in(desk)
    await desk.advance(10.4)
    client.send(publish("vip:not-open", b"x", id=7))
    assert client.session.held_back() is not None
    desk.clock.advance(0.1)
    await desk.settle()
    assert refused_by(client) >= {Code.TOKEN_EXPIRED, Code.PUBLISH_DENIED}


async def test_who_authenticates_again_a_moment_too_late_keeps_what_it_holds(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=CLOSED, rules=RULES)
    client = await signed_in(desk)
    await client.subscribe("vip:1")
    await desk.advance(10.4)
    desk.clock.advance(0.1)
    client.send(Ping(id=3))
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    reply = await client.ask(AuthRequest(id=4, credentials=b"ann"), AuthReply)
    assert reply.success
    assert client.take(Pong).id == 3
    assert refused_by(client) == set()
    assert "vip:1" in client.session.subscriptions
