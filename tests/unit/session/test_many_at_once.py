"""Thousands of sessions that end, expire, or are looked at together hold the loop no longer than a few do."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    Leave,
    Presence,
    PresenceRequest,
    Restored,
    RestoreKey,
    RestoreRequest,
)
from arauto.errors import ArautoError, Code
from arauto.features.presence import PresenceFeature
from arauto.flow.authorise import subscribe_refusal as subscribe_refusal_of
from arauto.hub.channel import Channel
from arauto.model import Identity
from arauto.session import subscribe as subscribing
from arauto.session.line import Line
from arauto.session.session import Session
from arauto.session.wheel import TimerWheel
from arauto.settings import HubSettings, Rules
from arauto.testing.clock import FakeClock
from tests.unit.hub.test_costs import cover
from tests.unit.hub.world import Reader, World
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish

CROWD, HELD = 150, 40
OPEN = HubSettings(default_public=True)
#: Of subscriptions, in one turn; see `line.py`. One session may go beyond.
TURN_LEN = 2_000 + HELD


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    return make_desk(settings=OPEN, rules=Rules(public=True, client_publish=True))


async def a_crowd(desk: Desk) -> list[Client]:
    clients = []
    for _ in range(CROWD):
        client = await desk.connect()
        await client.subscribe(*(f"room:{n}" for n in range(HELD)))
        clients.append(client)
    return clients


def held_len(clients: list[Client]) -> int:
    return sum(len(client.session.subscriptions) for client in clients)


async def test_connections_that_are_lost_together_are_let_go_some_in_a_turn(desk: Desk) -> None:
    clients = await a_crowd(desk)
    left = [held_len(clients)]
    for client in clients:
        client.session.lost(Code.CONNECTION_LOST)
    left.append(held_len(clients))
    while len(desk.env.line):
        desk.clock.run_turn()
        left.append(held_len(clients))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= TURN_LEN
    assert len(desk.directory.hubs["shop"].sessions) == 0
    assert desk.directory.hubs["shop"].subscription_count == 0


async def test_a_connection_that_is_lost_alone_is_let_go_at_once(desk: Desk) -> None:
    client = await desk.connect()
    await client.subscribe("room:1")
    client.session.lost(Code.CONNECTION_LOST)
    assert client.session.has_ended()


async def test_who_waits_to_be_let_go_receives_nothing_and_has_nothing_kept(desk: Desk) -> None:
    clients = await a_crowd(desk)
    reader = await desk.connect()
    for client in clients:
        client.session.lost(Code.CONNECTION_LOST)
    last = clients[-1]
    assert not last.session.has_ended()
    channel = desk.directory.hubs["shop"].channel("room:1")
    assert channel is not None
    before = len(last.inbox)
    await reader.do(publish("room:1", b"x" * 1_000))
    assert len(last.inbox) == before
    assert last.session.outbox.backlog_bytes == 0
    assert last.session.outbox.pending == []
    assert last.session.has_ended()


async def test_who_comes_back_before_its_old_session_is_let_go_takes_its_place(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=OPEN, rules=Rules(public=True, client_publish=True, presence=True))
    desk.doorman.know("shop", b"ann", Identity(user="ann"))
    client = await desk.connect(credentials=b"ann")
    await client.subscribe("room:1")
    key = client.take(RestoreKey).key
    clients = await a_crowd(desk)
    for each in clients:
        each.session.lost(Code.CONNECTION_LOST)
    client.session.lost(Code.CONNECTION_LOST)
    assert not client.session.has_ended()
    back = await desk.connect()
    await back.do(RestoreRequest(id=5, key=key))
    assert back.take(Restored).session == client.session.id
    await desk.settle()
    picture = await back.ask(PresenceRequest(id=6, channel="room:1"), Presence)
    assert [member.session for member in picture.members] == [client.session.id]


async def test_a_node_that_stops_lets_all_go(desk: Desk) -> None:
    clients = await a_crowd(desk)
    for client in clients:
        client.session.lost(Code.CONNECTION_LOST)
    desk.env.stop()
    assert all(client.session.has_ended() for client in clients)


async def test_one_that_fails_does_not_keep_the_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = await a_crowd(desk)
    real = Session.closed

    def closed(session: Session, code: Code) -> None:
        if session is clients[0].session:
            raise RuntimeError("a planted mistake")
        real(session, code)

    monkeypatch.setattr(Session, "closed", closed)
    for client in clients:
        client.session.lost(Code.CONNECTION_LOST)
    await desk.settle()
    assert all(client.session.has_ended() for client in clients[1:])


class Turns:
    """What is counted in each turn of the loop while something runs."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self.most = 0

    async def during(self, work: Coroutine[Any, Any, object]) -> int:
        """The most that was counted in one turn."""
        running = asyncio.ensure_future(work)
        before = self._count()
        while not running.done():
            await asyncio.sleep(0)
            now = self._count()
            self.most = max(self.most, now - before)
            before = now
        await running
        return self.most


async def test_rules_that_change_re_check_some_subscriptions_in_a_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_crowd(desk)
    looked = 0
    real = subscribe_refusal_of

    def subscribe_refusal(*args: Any) -> ArautoError | None:
        nonlocal looked
        looked += 1
        return real(*args)

    monkeypatch.setattr(subscribing, "subscribe_refusal", subscribe_refusal)
    hub = desk.directory.hubs["shop"]
    most = await Turns(lambda: looked).during(hub.apply(hub.state))
    assert looked == CROWD * HELD
    assert most <= 500 + HELD


async def test_rules_that_change_look_at_some_readers_of_patterns_in_a_turn() -> None:
    """Each channel looks at all who hold a pattern over it."""
    world = World(rules=Rules(public=True))
    hub = world.hub()
    looked = 0

    class Holder(Reader):
        def may_read(self, channel: str, rules: Rules) -> bool:
            nonlocal looked
            looked += 1
            return True

    for n in range(100):
        cover(hub, "room:*", Holder(hub, f"s{n}"))
    for n in range(60):
        hub.channel(f"room:{n}")
    looked = 0
    most = await Turns(lambda: looked).during(hub.apply(world.state(builtin=Rules(public=False))))
    assert looked == 2 * 60 * 100  # with the new rules, and with the new settings
    assert most <= 2 * (500 + 100)
    await world.settle()


async def test_a_hub_that_closes_ends_some_subscriptions_in_a_turn(desk: Desk) -> None:
    clients = await a_crowd(desk)
    whole = CROWD * HELD
    hub = desk.directory.hubs["shop"]
    most = await Turns(lambda: whole - held_len(clients)).during(hub.close())
    assert held_len(clients) == 0
    assert most <= 500 + HELD


async def test_authentications_that_end_together_are_worked_off_some_in_a_turn(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(settings=OPEN, rules=Rules(public=True))
    expires_ms = desk.clock.wall_ms() + 20_000
    for n in range(CROWD):
        desk.doorman.know("shop", b"%d" % n, Identity(user=f"u{n}", expires_ms=expires_ms))
        client = await desk.connect(credentials=b"%d" % n)
        await client.subscribe(*(f"room:{n}" for n in range(HELD)))
    looked, by_turn = 0, [0]
    real = subscribe_refusal_of

    def subscribe_refusal(*args: Any) -> ArautoError | None:
        nonlocal looked
        looked += 1
        return real(*args)

    monkeypatch.setattr(subscribing, "subscribe_refusal", subscribe_refusal)
    real_turn = desk.env.line._next_turn

    def next_turn() -> None:
        by_turn.append(looked)
        real_turn()

    monkeypatch.setattr(type(desk.env.line), "_next_turn", lambda line: next_turn())
    desk.clock.advance(22)
    by_turn.append(looked)
    assert looked == CROWD * (HELD + 1)  # and each user's own
    assert max(after - before for before, after in pairwise(by_turn)) <= TURN_LEN
    hub = desk.directory.hubs["shop"]
    assert all(each.user == "" for each in hub.sessions.values())


async def test_an_authentication_that_ends_stands_in_line_once_however_long_that_takes(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: each second each of those that waited was added once more, and counted for all it held."""
    desk = make_desk(settings=OPEN, rules=Rules(public=True))
    expires_ms = desk.clock.wall_ms() + 2_000
    for n in range(20):
        desk.doorman.know("shop", b"%d" % n, Identity(user=f"u{n}", expires_ms=expires_ms))
        await desk.connect(credentials=b"%d" % n)
    with monkeypatch.context() as patch:
        patch.setattr(Line, "_next_turn", lambda line: None)
        patch.setattr(desk.env.line, "_is_due", True)  # in this turn much was done already
        await desk.advance(8)
        assert len(desk.env.line) == 20
    desk.env.line._next_turn()
    await desk.settle()
    assert len(desk.env.line) == 0
    assert all(each.user == "" for each in desk.directory.hubs["shop"].sessions.values())


async def test_a_new_identity_has_the_channels_of_a_pattern_looked_at_slice_by_slice(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=HubSettings(), rules=Rules())
    every = Identity("ann", grants=grants("room:*"))
    desk.doorman.know("shop", b"all", every)
    desk.doorman.know("shop", b"later", msgspec.structs.replace(every, expires_ms=10**15))
    desk.doorman.know("shop", b"some", Identity("ann", grants=grants("room:1*", "room:*")))
    client = await desk.connect(credentials=b"all")
    hub = client.session.hub
    for n in range(2_000):
        hub.channel(f"room:{n}")
    await client.subscribe("room:*")
    looked, real = 0, Channel.set_patterns

    def set_patterns(channel: Channel, *args: Any) -> None:
        nonlocal looked
        looked += 1
        real(channel, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "set_patterns", set_patterns)
        by_step = [
            0,
            *(looked for _ in client.session.become(desk.doorman.people["shop", b"some"])),
        ]
        assert max(after - before for before, after in pairwise(by_step)) <= 501
        assert looked == 2_001  # and the user's own
        await client.do(AuthRequest(id=1, credentials=b"all"))
        assert looked == 4_002
        # A token that is renewed changes nothing but its time.
        await client.do(AuthRequest(id=2, credentials=b"later"))
        assert looked == 4_002
    bucket = client.session.bucket
    assert bucket.lacks(desk.clock.monotonic_s(), int(bucket.rate_per_s) - 2_000 // 20)


async def test_who_may_read_less_after_a_new_identity_is_told_when_it_is_done(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=HubSettings(), rules=Rules())
    desk.doorman.know("shop", b"all", Identity("ann", grants=grants("room:*")))
    client = await desk.connect(credentials=b"all")
    hub = client.session.hub
    for n in range(1_200):
        hub.channel(f"room:{n}")
    await client.subscribe("room:*")
    desk.doorman.know("shop", b"none", Identity("bea"))
    reply = await client.ask(AuthRequest(id=1, credentials=b"none"), AuthReply)
    assert reply.success
    assert not any(channel.members for channel in hub.matching("room:*"))


async def test_patterns_over_very_many_channels_are_left_one_after_the_other(desk: Desk) -> None:
    clients = [await desk.connect() for _ in range(20)]
    hub = clients[0].session.hub
    for n in range(2_000):
        hub.channel(f"room:{n}")
    for client in clients:
        await client.subscribe("room:*")

    def covering() -> int:
        return sum(len(channel.members) for channel in hub.channels.values())

    assert covering() == 20 * 2_000
    for client in clients:
        client.session.lost(Code.CONNECTION_LOST)
    by_turn = [covering()]
    while by_turn[-1]:
        desk.clock.run_turn()
        await asyncio.sleep(0)
        by_turn.append(covering())
    # Of each that is let go the first slice at once; of what is left one slice in a turn.
    drops = [before - after for before, after in pairwise(by_turn)]
    assert max(drops) <= 500 * (2_000 // 500 + 1) + 500


async def test_who_is_back_under_its_old_id_is_not_taken_for_gone_when_the_old_one_leaves() -> None:
    world = World(rules=Rules(public=True, presence=True))
    hub = world.hub()
    channel = hub.channel("room:1")
    assert channel is not None
    old, new, other = Reader(hub, "s1"), Reader(hub, "s1"), Reader(hub, "s2")
    for reader in (old, other):
        hub.add_session(reader.subscriber)
        channel.subscribe(reader.subscriber)
    hub.remove_session(old.subscriber)
    hub.add_session(new.subscriber)
    channel.subscribe(new.subscriber)
    channel.unsubscribe(old.subscriber)
    world.clock.run_soon()
    assert other.of(Leave) == []
    presence = channel.feature("presence")
    assert isinstance(presence, PresenceFeature)
    assert {member.session for member in presence.snapshot().members} == {"s1", "s2"}
    channel.unsubscribe(new.subscriber)
    world.clock.run_soon()
    assert [event.member.session for event in other.of(Leave)] == ["s1"]


def test_those_that_asked_to_be_looked_at_together_are_looked_at_some_in_a_turn() -> None:
    seen = 0
    by_turn = []

    class Item:
        def on_timer(self, now_s: float) -> float:
            nonlocal seen
            seen += 1
            return 0

    class Clock(FakeClock):
        def call_soon(self, callback: Callable[[], object]) -> None:
            by_turn.append(seen)
            super().call_soon(callback)

    clock = Clock()
    wheel = TimerWheel(clock)
    wheel.start()
    for _ in range(1_000):
        wheel.schedule(Item(), 1)
    clock.advance(3)
    assert by_turn == [200, 400, 600, 800]
    assert seen == 1_000
