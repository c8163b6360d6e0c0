"""Who a session is: anonymous, authenticated, someone else, nobody again. Always in place."""

import asyncio
import logging
from functools import partial

import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Join,
    Leave,
    Presence,
    SessionInfo,
    SubscribeReply,
    UnsubscribeReply,
)
from arauto.errors import Code
from arauto.model import Identity
from arauto.session.environment import SessionLimits
from arauto.settings import HubSettings, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish

CLOSED = HubSettings(default_public=True, allow_anonymous=False)


async def signed_in(desk: Desk, user: str, *patterns: str, expires_ms: int = 0) -> Client:
    identity = Identity(user, grants(*patterns), expires_ms=expires_ms)
    desk.doorman.know("shop", user.encode(), identity)
    client = await desk.connect()
    reply = await client.ask(AuthRequest(id=1, credentials=user.encode()), AuthReply)
    assert reply.success
    return client


def _is_in(channel: str, event: Join | Leave) -> bool:
    return event.channel == channel


def wheel_entries(desk: Desk) -> int:
    return sum(len(items) for items in desk.env.wheel._slots.values())


async def test_authenticating_in_place_keeps_the_session_and_brings_rights(desk: Desk) -> None:
    desk.doorman.know("shop", b"ann", Identity("ann", grants("vip:*"), {"nick": "Ann"}))
    client = await desk.connect()
    id = client.take(SessionInfo).session
    reply = await client.ask(AuthRequest(id=7, credentials=b"ann"), AuthReply)
    assert (reply.success, reply.user, reply.extra) == (True, "ann", {"nick": "Ann"})
    assert reply.token
    assert reply.grants == grants("vip:*")
    assert client.session.id == id
    joined = client.take(SubscribeReply)
    assert (joined.id, joined.results[0].channel) == (0, "u:ann")


async def test_becoming_someone_else_switches_the_user_channel(desk: Desk) -> None:
    client = await signed_in(desk, "ann")
    sender = await signed_in(desk, "admin", "*")
    desk.doorman.know("shop", b"bob", Identity("bob"))
    await client.ask(AuthRequest(id=2, credentials=b"bob"), AuthReply)
    assert client.take(UnsubscribeReply).channels == ("u:ann",)
    for user in ("ann", "bob"):
        await sender.do(publish(f"u:{user}", user.encode()))
    assert client.payloads() == [b"bob"]


async def test_a_failed_authentication_leaves_everything_as_it_was(desk: Desk) -> None:
    client = await signed_in(desk, "ann", "vip:*")
    await client.subscribe("vip:1")
    reply = await client.ask(AuthRequest(id=3, credentials=b"wrong"), AuthReply)
    assert not reply.success
    assert reply.error is not None
    assert reply.error.code == Code.AUTH_FAILED
    assert client.session.user == "ann"
    assert sorted(client.session.subscriptions) == ["u:ann", "vip:1"]
    await client.do(publish("vip:1", b"still"))
    assert client.payloads() == [b"still"]


async def test_others_see_who_a_session_has_become(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=Rules(presence=True, client_publish=True))
    witness = await desk.connect()
    await witness.subscribe("room:1", "hall:1")
    client = await signed_in(desk, "ann")
    await client.subscribe("room:1", "hall:*")
    witness.inbox.clear()
    desk.doorman.know("shop", b"bob", Identity("bob", extra={"nick": "B"}))
    await client.ask(AuthRequest(id=2, credentials=b"bob"), AuthReply)
    for channel in ("room:1", "hall:1"):
        left = witness.take(Leave, partial(_is_in, channel))
        came = witness.take(Join, partial(_is_in, channel))
        assert (left.member.user, came.member.user) == ("ann", "bob")
        assert came.member.extra == {"nick": "B"}
        assert left.member.session == came.member.session
    late = await desk.connect()
    await late.subscribe("room:1")
    assert "bob" in {member.user for member in late.take(Presence).members}
    await client.ask(AuthRequest(id=3, credentials=b"bob"), AuthReply)
    assert not witness.take_all(Leave), "the same user again is no news"


async def test_an_anonymous_session_has_a_deadline_where_the_hub_demands_one(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=CLOSED, limits=SessionLimits(auth_deadline_s=5))
    desk.doorman.know("shop", b"ann", Identity("ann"))
    late, known = await desk.connect(), await desk.connect()
    assert late.take(SessionInfo).auth_deadline_ms == 5_000
    [result] = (await late.subscribe("room:1")).results
    assert result.error is not None
    assert result.error.code == Code.ANONYMOUS_DENIED
    await desk.advance(4)
    await known.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await desk.advance(4)
    assert late.closed_with is Code.AUTH_DEADLINE
    assert late.take(ErrorEvent).code == Code.AUTH_DEADLINE
    assert known.closed_with is None


async def test_a_hub_that_is_closed_to_strangers_later_gives_them_time_too(desk: Desk) -> None:
    client = await desk.connect()
    await client.subscribe("room:1")
    await desk.set("hub", "shop", "", CLOSED)
    assert client.take(UnsubscribeReply).channels == ("room:1",)
    await desk.advance(3)
    assert client.closed_with is None
    await desk.advance(5)
    assert client.closed_with is Code.AUTH_DEADLINE


async def test_an_identity_ends_when_it_expires_not_at_the_next_heartbeat(desk: Desk) -> None:
    expires_ms = desk.clock.wall_ms() + 10_000
    client = await signed_in(desk, "ann", "vip:*", expires_ms=expires_ms)
    desk.doorman.know("shop", b"root", Identity("root", grants("*")))
    sender = await desk.connect(credentials=b"root")
    await desk.set("hub", "shop", "", HubSettings())
    await client.subscribe("vip:1")
    for second in range(13):
        await desk.advance(1)
        await sender.do(publish("vip:1", b"%d" % second))
        await client.do(publish("vip:1", b"own %d" % second))
    received = client.payloads()
    assert b"8" in received
    assert b"12" not in received
    assert client.take(ErrorEvent).code == Code.TOKEN_EXPIRED
    assert client.session.user == ""
    assert client.closed_with is None


async def test_an_expired_identity_can_be_renewed_and_costs_no_timer_each_time(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=CLOSED)
    client = await desk.connect()
    before = wheel_entries(desk)
    for number in range(20):
        expires_ms = desk.clock.wall_ms() + 3_000
        desk.doorman.know("shop", b"ann", Identity("ann", expires_ms=expires_ms))
        await client.ask(AuthRequest(id=number + 1, credentials=b"ann"), AuthReply)
        await desk.advance(6)
        assert client.session.user == ""
        assert client.closed_with is None
    await desk.advance(3)
    # Entries that a later one made needless are let go when they come up.
    assert wheel_entries(desk) <= before + 3


async def test_a_client_that_leaves_while_it_is_checked_upsets_nobody(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.doorman.gate = asyncio.Event()
    desk.doorman.know("shop", b"ann", Identity("ann"))
    client = await desk.connect()
    client.send(AuthRequest(id=1, credentials=b"ann"))
    await asyncio.sleep(0)
    client.session.closed(Code.CONNECTION_LOST)
    with caplog.at_level(logging.WARNING):
        desk.doorman.gate.set()
        await desk.settle()
    assert caplog.records == []
    hub = await desk.directory.get("shop")
    assert hub.sessions == {}
    assert hub.sessions_of("ann") == []


async def test_requests_behind_an_authentication_wait_for_it(desk: Desk) -> None:
    desk.doorman.gate = asyncio.Event()
    desk.doorman.know("shop", b"ann", Identity("ann", grants("vip:*")))
    await desk.set("hub", "shop", "", HubSettings())
    client = await desk.connect()
    client.send(AuthRequest(id=1, credentials=b"ann"))
    client.send(publish("vip:1", b"x", id=2))
    assert not client.is_read()
    desk.doorman.gate.set()
    await desk.settle()
    assert client.is_read()
    assert [type(event).__name__ for event in client.inbox if getattr(event, "id", 0)] == [
        "AuthReply",
        "Ack",
    ]


async def test_whoever_connects_with_a_token_is_greeted_first(desk: Desk) -> None:
    desk.doorman.know("shop", b"ann", Identity("ann"))
    client = await desk.connect(credentials=b"ann")
    kinds = [type(event).__name__ for event in client.inbox]
    assert kinds[0] == "SessionInfo"
    assert isinstance(client.inbox[0], SessionInfo)
    assert client.inbox[0].authenticated
    assert "SubscribeReply" in kinds


async def test_ending_a_users_sessions_ends_all_of_them_and_no_others(desk: Desk) -> None:
    first, second = await signed_in(desk, "ann"), await signed_in(desk, "ann")
    other = await signed_in(desk, "bob")
    hub = await desk.directory.get("shop")
    for subscriber in hub.sessions_of("ann"):
        subscriber.session.disconnect(Code.FORCED_LOGOUT, "an administrator ended the session")
    assert [c.closed_with for c in (first, second, other)] == [Code.FORCED_LOGOUT] * 2 + [None]
    assert hub.sessions_of("ann") == []


async def test_a_client_is_told_how_long_its_authentication_holds(desk: Desk) -> None:
    expires_ms = desk.clock.wall_ms() + 10_000
    desk.doorman.know("shop", b"ann", Identity("ann", expires_ms=expires_ms))
    desk.doorman.know("shop", b"bob", Identity("bob"))
    client = await desk.connect()
    ending = await client.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    endless = await client.ask(AuthRequest(id=2, credentials=b"bob"), AuthReply)
    assert (ending.expires_in_ms, endless.expires_in_ms) == (10_000, 0)
