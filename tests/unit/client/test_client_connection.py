"""Connecting, losing the connection, coming back, and saying goodbye."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from arauto.client import Client, ConnectionLostError, State, Tuning
from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    CloseRequest,
    ErrorEvent,
    Ping,
    Pong,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code, DisconnectError
from arauto.model import Grant, Grants, Serial
from tests.unit.client.conftest import LoopClock, eventually
from tests.unit.client.fake_node import EPOCH, FakeNode, Peer, message

Make = Callable[..., Client]


class States:
    """Records the states a client goes through and lets a test wait for one."""

    def __init__(self) -> None:
        self.seen: list[State] = []
        self._changed = asyncio.Event()

    def __call__(self, before: State, now: State) -> None:
        self.seen.append(now)
        self._changed.set()

    async def reach(self, state: State, times: int = 1) -> None:
        while self.seen.count(state) < times:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 10)


async def test_a_client_connects_in_both_flavours_to_the_hub_it_names(
    make: Make, node: FakeNode, flavour: str
) -> None:
    async with make(flavour=flavour) as client:
        peer = await node.peer()
        assert peer.codec.name == f"arauto.v1.{flavour}"
        assert peer.query == {"hub": ["shop"]}
        assert (client.state, client.session, client.user) == (State.CONNECTED, "s1", "")
    assert client.state is State.CLOSED


async def test_the_log_at_info_is_the_clients_own(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="arauto.client")
    async with make():
        pass
    assert {record.name for record in caplog.records} == {"arauto.client"}


async def test_leaving_says_close_and_waits_for_the_node(make: Make, node: FakeNode) -> None:
    async with make():
        peer = await node.peer()
    await peer.expect(CloseRequest)
    await peer.wait_ended()


async def test_a_node_that_does_not_answer_the_close_is_cut_off(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.handlers[CloseRequest] = None
    client = make()
    await client.connect()
    peer = await node.peer()
    assert peer.transport is not None
    peer.transport.underlying_transport.pause_reading()
    assert client._session is not None
    wire = client._session.wire
    assert wire is not None
    wire.spoke = False
    closing = asyncio.ensure_future(client.close())
    await eventually(lambda: wire.spoke)
    clock.advance(5)
    await asyncio.wait_for(closing, 10)
    assert client.state is State.CLOSED


async def test_closing_twice_or_before_connecting_is_nothing(make: Make, node: FakeNode) -> None:
    client = make()
    await client.close()
    await client.connect()
    await client.close()
    await client.close()
    assert client.state is State.CLOSED


async def test_a_closed_client_refuses_work_with_a_code(make: Make, node: FakeNode) -> None:
    client = make()
    with pytest.raises(ArautoError) as early:
        client.subscribe("c")
    await client.connect()
    await client.close()
    with pytest.raises(ArautoError) as late:
        await client.publish("c", 1)
    assert (early.value.code, late.value.code) == (Code.CONFLICT, Code.CLOSED_BY_CLIENT)


async def test_a_client_connects_once(make: Make, node: FakeNode) -> None:
    async with make() as client:
        with pytest.raises(ArautoError) as caught:
            await client.connect()
    assert caught.value.code is Code.CONFLICT


@pytest.mark.parametrize("url", ["http://x", "ws://", "x", "ws://h/#f"])
def test_a_bad_address_is_refused_before_anything_happens(url: str) -> None:
    with pytest.raises(ArautoError) as caught:
        Client(url, hub="shop")
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "url")


def test_a_bad_hub_or_flavour_is_refused_before_anything_happens() -> None:
    with pytest.raises(ArautoError) as hub:
        Client("ws://h", hub="a b")
    with pytest.raises(ArautoError) as flavour:
        Client("ws://h", hub="shop", flavour="xml")  # type: ignore[arg-type]
    assert (hub.value.code, flavour.value.code) == (Code.BAD_HUB_NAME, Code.BAD_FIELD)


async def test_nobody_there_is_a_connection_error_after_the_time_to_connect(
    clock: LoopClock,
) -> None:
    node = FakeNode()
    await node.start()
    await node.stop()
    states = States()
    client = Client(node.url, hub="shop", clock=clock, on_state_change=states)
    connecting = asyncio.ensure_future(client.connect())
    await states.reach(State.WAITING)
    clock.advance(10)
    with pytest.raises(ConnectionLostError):
        await connecting
    assert client.state is State.CLOSED


async def test_cancelling_a_connect_leaves_nothing_behind(make: Make, node: FakeNode) -> None:
    node.silent = True
    client = make()
    connecting = asyncio.ensure_future(client.connect())
    peer = await node.peer()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await peer.wait_ended()
    assert client.state is State.CLOSED


async def test_cancelling_during_the_handshake_ends_the_socket(clock: LoopClock) -> None:
    """A server that accepts and says nothing: the socket must not stay open when nobody waits."""
    ended = asyncio.Event()
    began = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        began.set()
        await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client(f"ws://127.0.0.1:{port}", hub="shop", clock=clock)
    connecting = asyncio.ensure_future(client.connect())
    await asyncio.wait_for(began.wait(), 10)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await asyncio.wait_for(ended.wait(), 10)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, b"", Code.HANDSHAKE_REFUSED),
        (403, b'{"code":2009,"message":"no"}', Code.ORIGIN_DENIED),
    ],
)
async def test_a_refused_upgrade_is_raised_and_not_tried_again(
    make: Make, node: FakeNode, status: int, body: bytes, code: Code
) -> None:
    node.refuse_with = (status, body)
    client = make()
    with pytest.raises(ArautoError) as caught:
        await client.connect()
    assert (caught.value.code, client.state) == (code, State.FAILED)


async def test_an_overloaded_node_is_tried_again(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.refuse_with = (503, b"")
    states = States()
    connecting = asyncio.ensure_future(make(on_state_change=states).connect())
    await states.reach(State.WAITING)
    node.refuse_with = None
    clock.advance(0.5)
    client = await asyncio.wait_for(connecting, 10)
    assert client.state is State.CONNECTED


async def test_a_node_that_speaks_another_protocol_is_refused(make: Make, node: FakeNode) -> None:
    node.subprotocol = "chat.v9"
    with pytest.raises(ArautoError) as caught:
        await make().connect()
    assert caught.value.code is Code.HANDSHAKE_REFUSED


async def test_a_node_that_never_sets_up_the_session_is_given_up(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.silent = True
    states = States()
    connecting = asyncio.ensure_future(
        make(on_state_change=states, tuning=Tuning(handshake_timeout_s=3)).connect()
    )
    await states.reach(State.JOINING)
    clock.advance(3)
    await states.reach(State.WAITING)
    node.silent = False
    clock.advance(0)
    await asyncio.wait_for(connecting, 10)


async def test_a_lost_connection_is_made_again_at_once(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        await states.reach(State.CONNECTED, 2)
        assert client.session == "s2"
    assert states.seen == [
        *(State.CONNECTING, State.JOINING, State.CONNECTED, State.WAITING),
        *(State.CONNECTING, State.JOINING, State.CONNECTED, State.CLOSING, State.CLOSED),
    ]


async def test_a_connection_that_breaks_right_away_is_not_hammered(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states):
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        (await node.peer()).drop()
        await states.reach(State.WAITING, 2)
        clock.advance(0)
        await asyncio.sleep(0)
        assert states.seen[-1] is State.WAITING
        clock.advance(0.5)
        await states.reach(State.CONNECTED, 3)


@pytest.mark.parametrize(
    ("close_code", "code"), [(4503, Code.FORCED_LOGOUT), (1009, Code.FRAME_TOO_LARGE)]
)
async def test_a_close_that_forbids_returning_is_raised_everywhere(
    make: Make, node: FakeNode, close_code: int, code: Code
) -> None:
    node.handlers[SubscribeRequest] = None
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        waiting = asyncio.ensure_future(client.presence("c"))
        subscription = client.subscribe("c")
        await peer.expect(SubscribeRequest)
        peer.close(close_code, "go")
        await states.reach(State.FAILED)
        for failing in (waiting, subscription.ready(), anext(subscription), client.publish("c", 1)):
            with pytest.raises(DisconnectError) as caught:
                await failing
            assert caught.value.code is code
        assert client.error is not None
    assert client.state is State.FAILED


async def test_the_nodes_last_word_explains_a_refused_session(make: Make, node: FakeNode) -> None:
    def refuse(peer: Peer) -> None:
        peer.send(ErrorEvent(code=2004, message="the token expired", field="token"))
        peer.close(4506, "no")

    node.greet = refuse  # type: ignore[method-assign]
    with pytest.raises(ArautoError) as caught:
        await make(token="old").connect()
    assert caught.value.code is Code.TOKEN_EXPIRED


async def test_a_token_travels_as_a_header_and_never_in_the_address(
    make: Make, node: FakeNode
) -> None:
    async with make(token="secret"):
        peer = await node.peer()
        assert peer.headers["Authorization"] == "Bearer secret"
        assert "secret" not in str(peer.query)


async def test_a_function_for_tokens_is_asked_before_each_connection(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    tokens = iter(["one", "two"])

    async def fresh() -> str:
        return next(tokens)

    states = States()
    async with make(token=fresh, on_state_change=states):
        first = await node.peer()
        first.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        second = await node.peer()
    sent = [peer.headers["Authorization"] for peer in (first, second)]
    assert sent == ["Bearer one", "Bearer two"]


async def test_a_function_for_tokens_that_fails_is_asked_again(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    failures = 1

    async def fresh() -> str:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError("the issuer is down")
        return "good"

    states = States()
    connecting = asyncio.ensure_future(make(token=fresh, on_state_change=states).connect())
    await states.reach(State.WAITING)
    clock.advance(0)
    await asyncio.wait_for(connecting, 10)


@pytest.mark.parametrize(
    ("credentials", "sent"),
    [(b"ana", b"ana"), ("ana", b"ana"), ({"user": "ana"}, b'{"user":"ana"}')],
)
async def test_credentials_are_sent_before_the_client_is_connected(
    make: Make, node: FakeNode, credentials: Any, sent: bytes
) -> None:
    async with make(credentials=credentials) as client:
        peer = await node.peer()
        assert (await peer.expect(AuthRequest)).credentials == sent
        assert client.user == sent.decode()


async def test_refused_credentials_are_raised(make: Make, node: FakeNode) -> None:
    def refuse(peer: Peer, request: AuthRequest) -> None:
        error = ErrorEvent(code=2001, message="wrong password")
        peer.send(AuthReply(id=request.id, success=False, error=error))

    node.handlers[AuthRequest] = refuse
    client = make(credentials="x")
    with pytest.raises(ArautoError) as caught:
        await client.connect()
    assert (caught.value.code, client.state) == (Code.AUTH_FAILED, State.FAILED)


async def test_authenticating_in_place_changes_who_the_client_is(
    make: Make, node: FakeNode
) -> None:
    grants = Grants(channels=(Grant(channel="stock:*", publish=True, subscribe=True),))

    def accept(peer: Peer, request: AuthRequest) -> None:
        peer.send(AuthReply(id=request.id, success=True, user="ana", token="t", grants=grants))

    async with make(strict_grants=True) as client:
        node.handlers[AuthRequest] = accept
        with pytest.raises(ArautoError) as caught:
            await client.publish("stock:1", 1)
        assert caught.value.code is Code.PUBLISH_DENIED
        identity = await client.authenticate("key")
        assert (identity.user, client.user, client.standing.token) == ("ana", "ana", "t")
        assert client.grants == grants
        assert client.may_publish("stock:1")
        assert not client.may_publish("orders:1")
        await client.publish("stock:1", 1)
        with pytest.raises(ArautoError) as refused:
            client.subscribe("orders:*")
        assert refused.value.code is Code.SUBSCRIBE_DENIED


async def test_a_failed_authentication_in_place_leaves_the_session_as_it_was(
    make: Make, node: FakeNode
) -> None:
    async with make(credentials="ana") as client:

        def refuse(peer: Peer, request: AuthRequest) -> None:
            error = ErrorEvent(code=2001, message="no")
            peer.send(AuthReply(id=request.id, success=False, error=error))

        node.handlers[AuthRequest] = refuse
        with pytest.raises(ArautoError):
            await client.authenticate("eve")
        assert (client.user, client.state) == ("ana", State.CONNECTED)


def _restore_of(node: FakeNode, results: tuple[SubscribeResult, ...]) -> None:
    def restore(peer: Peer, request: RestoreRequest) -> None:
        peer.send(
            Restored(
                id=request.id, session="s1", user="ana", grants=Grants(), extra={}, results=results
            ),
            RestoreKey(key="k2", ttl_ms=60_000),
        )

    node.handlers[RestoreRequest] = restore


async def test_a_lost_session_is_taken_up_again_with_its_key_and_its_places(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(credentials="ana", on_state_change=states) as client:
        first = await node.peer()
        first.send(RestoreKey(key="k1", ttl_ms=60_000))
        kept, given_up = client.subscribe("kept"), client.subscribe("gone")
        await kept.ready()
        await given_up.ready()
        first.publish(message("kept", 1))
        await anext(kept)
        first.drop()
        await states.reach(State.WAITING)
        await given_up.unsubscribe()
        place = Serial(EPOCH, 3)
        results = (
            SubscribeResult(channel="kept", serial=place, recovered=True, recovered_count=2),
            SubscribeResult(channel="gone", serial=place),
        )

        def restore(peer: Peer, request: RestoreRequest) -> None:
            restored = Restored(
                id=request.id, session="s1", user="ana", grants=Grants(), extra={}, results=results
            )
            peer.send(restored)
            peer.publish(message("kept", 2), message("kept", 3))

        node.handlers[RestoreRequest] = restore
        clock.advance(0)
        second = await node.peer()
        request = await second.expect(RestoreRequest)
        assert request.key == "k1"
        assert request.positions == {"kept": Serial(EPOCH, 1)}
        assert [(await anext(kept)).serial.offset for _ in range(2)] == [2, 3]
        assert (await second.expect(UnsubscribeRequest)).channels == ("gone",)
        assert (client.session, client.user, kept.recovered) == ("s1", "ana", True)
        assert second.count(SubscribeRequest) == second.count(AuthRequest) == 0


async def test_without_a_good_key_the_client_authenticates_and_subscribes_anew(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    def refuse(peer: Peer, request: RestoreRequest) -> None:
        peer.send(ErrorEvent(id=request.id, code=1017, message="used"))

    node.handlers[RestoreRequest] = refuse
    states = States()
    async with make(credentials="ana", on_state_change=states) as client:
        first = await node.peer()
        first.send(RestoreKey(key="k1", ttl_ms=60_000))
        await client.subscribe("c").ready()
        first.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        second = await node.peer()
        await second.expect(RestoreRequest)
        await second.expect(AuthRequest)
        assert (await second.expect(SubscribeRequest)).items[0].since == Serial(EPOCH, 0)
        await states.reach(State.CONNECTED, 2)
        assert client.session == "s2"


async def test_a_key_that_expired_while_away_is_not_used(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(credentials="ana", on_state_change=states) as client:
        first = await node.peer()
        first.send(RestoreKey(key="k1", ttl_ms=1_000))
        await client.publish("c", 1)
        await node.stop()
        await states.reach(State.WAITING)
        clock.advance(2)
        await states.reach(State.WAITING, 2)
        await node.start()
        clock.advance(30)
        second = await node.peer()
        await second.expect(AuthRequest)
        assert second.count(RestoreRequest) == 0


async def test_the_key_of_a_session_that_never_stood_does_not_replace_the_good_one(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(credentials="ana", on_state_change=states) as client:
        first = await node.peer()
        first.send(RestoreKey(key="good", ttl_ms=60_000))
        await client.publish("c", 1)

        def break_down(peer: Peer, request: RestoreRequest) -> None:
            peer.send(RestoreKey(key="bad", ttl_ms=60_000))
            peer.drop()

        node.handlers[RestoreRequest] = break_down
        first.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        await (await node.peer()).expect(RestoreRequest)
        await states.reach(State.WAITING, 2)
        _restore_of(node, ())
        clock.advance(1)
        third = await node.peer()
        assert (await third.expect(RestoreRequest)).key == "good"
        await states.reach(State.CONNECTED, 2)


async def test_a_ping_is_answered_with_its_id(make: Make, node: FakeNode, flavour: str) -> None:
    async with make(flavour=flavour):
        peer = await node.peer()
        peer.send(Ping(id=42))
        assert (await peer.expect(Pong)).id == 42


async def test_a_quiet_client_says_something_before_the_node_worries(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    async with make(tuning=Tuning(heartbeat_s=10)):
        peer = await node.peer()
        clock.advance(5)
        assert peer.count(Ping) == 0
        clock.advance(10)
        assert (await peer.expect(Ping)).id > 0


async def test_a_node_that_falls_silent_is_taken_for_lost(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.handlers[Ping] = None
    states = States()
    async with make(tuning=Tuning(heartbeat_s=10), on_state_change=states) as client:
        await node.peer()
        for _ in range(6):
            clock.advance(5)
        await states.reach(State.WAITING)
        clock.advance(0)
        await node.peer()
        await states.reach(State.CONNECTED, 2)
        assert client.state is State.CONNECTED


async def test_a_node_that_answers_pings_is_not_taken_for_lost(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(tuning=Tuning(heartbeat_s=10), on_state_change=states) as client:
        peer = await node.peer()
        assert client._session is not None
        wire = client._session.wire
        assert wire is not None
        for _ in range(20):
            clock.advance(5)
            if wire.spoke:
                await peer.expect(Ping)
                await eventually(lambda: wire.heard)
        assert peer.count(Ping) > 3
        assert State.WAITING not in states.seen


async def test_nonsense_from_the_node_costs_the_connection_and_not_the_client(
    make: Make, node: FakeNode, clock: LoopClock, flavour: str
) -> None:
    states = States()
    async with make(flavour=flavour, on_state_change=states) as client:
        (await node.peer()).send_raw(b"\xff\xff nonsense")
        await states.reach(State.WAITING)
        clock.advance(0.5)
        await states.reach(State.CONNECTED, 2)
        await client.publish("c", 1)


async def test_an_event_of_a_newer_node_is_ignored(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        peer.send_raw(bytes((0x08, 99)))
        await client.publish("c", 1)
        assert len(node.all_peers) == 1


async def test_a_callback_that_fails_does_not_take_the_client_with_it(
    make: Make, node: FakeNode
) -> None:
    def fail(before: State, now: State) -> None:
        raise ValueError("mine")

    async with make(on_state_change=fail) as client:
        await client.publish("c", 1)
