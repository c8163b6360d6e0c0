"""An authentication that expires: renewed in time, or taken up again without a gap."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from arauto.client import Client, RefusedError, State, Tuning
from arauto.codec.events import (
    Ack,
    AckItem,
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Presence,
    PresenceRequest,
    PublishRequest,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.model import Grant, Grants, Serial
from tests.unit.client.conftest import LoopClock, eventually
from tests.unit.client.fake_node import EPOCH, FakeNode, Peer, message
from tests.unit.client.test_client_connection import States

Make = Callable[..., Client]

EXPIRED = ErrorEvent(code=2004, message="the authentication expired")
DENIED = ErrorEvent(code=2007, message="no anonymous sessions here")
ALL = Grants(channels=(Grant(channel="*", publish=True, subscribe=True),))


class Issuer:
    """Makes the tokens t1, t2 … or fails, or keeps one waiting until `gate` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> str:
        self.asked += 1
        name = f"t{self.asked}"
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return name


class Authority:
    """The node's side: who authenticates is `ana`, for so long."""

    def __init__(self, node: FakeNode, expires_in_ms: int = 100_000) -> None:
        self.node = node
        self.expires_in_ms = expires_in_ms
        self.seen: list[str] = []
        self.refusal: ErrorEvent | None = None
        self.is_silent = False
        self.user = "ana"
        node.handlers[AuthRequest] = self.on_auth

    def on_auth(self, peer: Peer, request: AuthRequest) -> None:
        self.seen.append(request.credentials.decode())
        if not self.is_silent:
            peer.send(self.reply(request.id))

    def reply(self, id: int) -> AuthReply:
        if self.refusal is not None:
            return AuthReply(id=id, success=False, error=self.refusal)
        return AuthReply(
            id=id,
            success=True,
            user=self.user,
            token="secret-session-token",
            grants=ALL,
            expires_in_ms=self.expires_in_ms,
        )

    async def answers(self, count: int) -> None:
        """Wait until so many requests came and what was answered has arrived."""
        await eventually(lambda: len(self.seen) >= count)


@pytest.fixture
def make(make: Make) -> Make:
    """These tests move the clock far, and heartbeats would take that for silence."""
    return partial(make, tuning=Tuning(heartbeat_s=1e9))


@pytest.fixture
async def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def authority(node: FakeNode) -> Authority:
    return Authority(node)


async def settle(client: Client) -> None:
    """Let everything on its way arrive: a round trip there and back."""
    await client.publish("settle", 0)


def refuse_publishing(peer: Peer, request: PublishRequest) -> None:
    error = ErrorEvent(code=2006, message="no grant")
    peer.send(Ack(id=request.id, results=(AckItem(error=error),) * len(request.items)))


# --- in time ------------------------------------------------------------------------------------------


async def test_it_is_renewed_in_place_when_most_of_its_time_is_over(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        clock.advance(69.9)
        await settle(client)
        assert authority.seen == ["t1"]
        for turn in range(2, 6):
            clock.advance(15.2)
            await authority.answers(turn)
            await settle(client)
            clock.advance(69.9)
            await settle(client)
            assert authority.seen == [f"t{n}" for n in range(1, turn + 1)]
        assert (client.user, client.standing.error, client.state) == (
            *("ana", None),
            State.CONNECTED,
        )
        assert (len(node.all_peers), peer.count(SubscribeRequest)) == (1, 0)


async def test_a_token_of_the_header_is_renewed_as_credentials(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    def greet(peer: Peer) -> None:
        hello(peer)
        peer.send(authority.reply(0))

    hello, node.greet = node.greet, greet  # type: ignore[method-assign]
    async with make(token=issuer) as client:
        assert (await node.peer()).headers["Authorization"] == "Bearer t1"
        await settle(client)
        clock.advance(85.1)
        await authority.answers(1)
        assert authority.seen == ["t2"]


async def test_a_restored_session_is_renewed_by_what_is_left_of_its_time(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    def restore(peer: Peer, request: RestoreRequest) -> None:
        who: dict[str, Any] = {"session": "s1", "user": "ana", "grants": ALL, "extra": {}}
        peer.send(Restored(id=request.id, results=(), expires_in_ms=10_000, **who))

    node.handlers[RestoreRequest] = restore
    states = States()
    async with make(credentials=issuer, on_state_change=states) as client:
        peer = await node.peer()
        peer.send(RestoreKey(key="k", ttl_ms=60_000))
        await settle(client)
        peer.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        await states.reach(State.CONNECTED, 2)
        assert authority.seen == ["t1"]
        clock.advance(8.6)
        await authority.answers(2)
        assert authority.seen == ["t1", "t2"]


async def test_renewals_are_a_second_apart_whatever_the_node_says(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    authority.expires_in_ms = 1
    async with make(credentials=issuer) as client:
        for _ in range(100):
            clock.advance(0.1)
            await settle(client)
        assert 8 <= len(authority.seen) <= 12


async def test_a_renewal_that_fails_is_tried_again_further_and_further_apart(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    authority.expires_in_ms = 100_000_000
    async with make(credentials=issuer) as client:
        issuer.error = OSError("the issuer is down")
        clock.advance(85_001)
        times: list[float] = []
        for _ in range(3_000):
            if issuer.asked > len(times) + 1:
                times.append(clock.monotonic_s())
            clock.advance(0.1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        apart = [later - earlier for earlier, later in pairwise(times)]
        assert min(apart) >= 0.9
        assert max(apart[:2]) < 3 < 5 < max(apart) < 32
        assert (client.user, authority.seen) == ("ana", ["t1"])
        issuer.error = None
        clock.advance(32)
        await authority.answers(2)
        await settle(client)
        assert client.standing.error is None


@pytest.mark.parametrize("code", [2001, 2002, 2003, 2004, 3000])
async def test_a_refused_renewal_changes_nothing_and_comes_again_with_a_fresh_token(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority, code: int
) -> None:
    async with make(credentials=issuer) as client:
        authority.refusal = ErrorEvent(code=code, message="no", retryable=code in (2002, 3000))
        clock.advance(85.1)
        await authority.answers(2)
        await settle(client)
        assert (client.user, client.state) == ("ana", State.CONNECTED)
        authority.refusal = None
        clock.advance(2)
        await authority.answers(3)
        assert authority.seen == ["t1", "t2", "t3"]


async def test_a_function_that_never_answers_is_given_up_and_asked_anew(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        issuer.gate.clear()
        clock.advance(85.1)
        await eventually(lambda: issuer.asked == 2)
        clock.advance(10.1)
        await settle(client)
        issuer.gate.set()
        clock.advance(2)
        await authority.answers(2)
        assert authority.seen == ["t1", "t3"]


async def test_connecting_with_a_function_that_never_answers_is_given_up_too(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer
) -> None:
    issuer.gate.clear()
    states = States()
    connecting = asyncio.ensure_future(make(token=issuer, on_state_change=states).connect())
    await eventually(lambda: issuer.asked == 1)
    clock.advance(10.1)
    with pytest.raises(ArautoError) as caught:
        await asyncio.wait_for(connecting, 10)
    assert caught.value.code in (Code.AUTH_UNAVAILABLE, Code.CONNECTION_LOST)
    assert node.all_peers == []


async def test_a_renewal_and_a_reconnect_share_one_call_of_the_function(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    states = States()
    async with make(credentials=issuer, on_state_change=states) as client:
        peer = await node.peer()
        issuer.gate.clear()
        clock.advance(85.1)
        await eventually(lambda: issuer.asked == 2)
        peer.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        await states.reach(State.JOINING, 2)
        issuer.gate.set()
        await states.reach(State.CONNECTED, 2)
        await settle(client)
        assert (issuer.asked, authority.seen) == (2, ["t1", "t2"])


async def test_credentials_that_stay_the_same_are_shown_again_while_that_helps(
    make: Make, clock: LoopClock, authority: Authority
) -> None:
    async with make(credentials="ana:password") as client:
        clock.advance(85.1)
        await authority.answers(2)
        await settle(client)
        # Now the node says how little is left, as it does of a token: showing it again gains nothing.
        authority.expires_in_ms = 15_000
        clock.advance(85.1)
        await authority.answers(3)
        await settle(client)
        clock.advance(14.9)
        await settle(client)
        assert authority.seen == ["ana:password"] * 3


# --- too late -----------------------------------------------------------------------------------------


async def test_after_expiry_the_client_knows_that_it_is_nobody_and_why(
    make: Make, node: FakeNode, clock: LoopClock, authority: Authority
) -> None:
    def greet(peer: Peer) -> None:
        hello(peer)
        peer.send(authority.reply(0))

    hello, node.greet = node.greet, greet  # type: ignore[method-assign]
    states = States()
    async with make(token="fixed", on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        assert client.user == "ana"
        assert client.standing.token == "secret-session-token"
        clock.advance(100)
        peer.send(EXPIRED, UnsubscribeReply(channels=("c",), error=DENIED))
        with pytest.raises(RefusedError) as ended:
            await anext(subscription)
        assert ended.value.code is Code.TOKEN_EXPIRED
        assert ended.value.message == f"{EXPIRED.message}; {DENIED.message}"
        standing = client.standing
        assert (standing.user, standing.authenticated, standing.token) == ("", False, "")
        assert (client.user, client.grants, standing.session) == ("", Grants(), "s1")
        assert standing.error is not None
        assert standing.error.code is Code.TOKEN_EXPIRED
        assert authority.seen == []
        peer.close(4501, "not in time")
        await states.reach(State.FAILED)
        assert client.error is not None
        assert client.error.code is Code.TOKEN_EXPIRED


async def test_what_is_refused_to_who_is_nobody_by_now_says_why_it_is_nobody(
    make: Make, node: FakeNode
) -> None:
    denied = SubscribeResult(channel="c", error=DENIED)
    node.handlers[PublishRequest] = refuse_publishing
    node.handlers[SubscribeRequest] = lambda peer, request: peer.send(
        SubscribeReply(id=request.id, results=(denied,))
    )
    node.handlers[PresenceRequest] = lambda peer, request: peer.send(
        msgspec.structs.replace(DENIED, id=request.id)
    )
    async with make(token="fixed") as client:
        peer = await node.peer()
        with pytest.raises(RefusedError) as before:
            await client.publish("c", 1)
        assert before.value.code is Code.PUBLISH_DENIED
        peer.send(EXPIRED)
        await eventually(lambda: client.standing.error is not None)
        for asking in (client.publish("c", 1), client.presence("c"), client.subscribe("c").ready()):
            with pytest.raises(RefusedError) as refused:
                await asking
            assert refused.value.code is Code.TOKEN_EXPIRED
            assert refused.value.message.startswith(f"{EXPIRED.message}; ")


async def test_neither_the_standing_nor_the_target_shows_a_token(
    make: Make, authority: Authority
) -> None:
    async with make(credentials="ana") as client:
        assert client.standing.token == "secret-session-token"
        assert "user='ana'" in repr(client.standing)
        assert "secret" not in repr(client.standing)
    client = make(token="secret-token")
    shown = repr(vars(client)) + repr(client)
    assert "secret" not in shown


async def test_an_expiry_that_was_not_foretold_is_healed_without_a_gap(
    make: Make, node: FakeNode, issuer: Issuer, authority: Authority
) -> None:
    """As with a node that does not say how long an authentication holds."""
    authority.expires_in_ms = 0
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1), message("c", 2))
        peer.send(EXPIRED, UnsubscribeReply(channels=("c",), error=DENIED))
        await peer.expect(SubscribeRequest)
        again = await peer.expect(SubscribeRequest)
        assert again.items[0].since == Serial(EPOCH, 2)
        peer.publish(message("c", 2), message("c", 3))
        seen = [(await anext(subscription)).serial.offset for _ in range(3)]
        assert seen == [1, 2, 3]
        assert (client.user, client.standing.error) == ("ana", None)
        assert subscription.recovered is True
        assert authority.seen == ["t1", "t2"]
        assert len(node.all_peers) == 1


async def test_while_it_is_renewed_requests_wait_and_then_go_in_order(
    make: Make, node: FakeNode, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        issuer.gate.clear()
        peer.send(EXPIRED)
        await eventually(lambda: client.user == "")
        publishing = asyncio.gather(*(client.publish("c", n) for n in range(3)))
        await asyncio.sleep(0)
        subscription = client.subscribe("d")
        client.publish_nowait("c", 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (peer.count(PublishRequest), peer.count(SubscribeRequest)) == (0, 0)
        issuer.gate.set()
        await publishing
        await subscription.ready()
        await settle(client)
        assert [item.payload for item in node.published][:4] == [b"0", b"1", b"2", b"3"]
        order = [type(request) for request in peer.requests]
        assert order.index(AuthRequest, 1) < order.index(PublishRequest)


async def test_what_was_on_its_way_when_the_time_was_over_is_sent_again(
    make: Make, node: FakeNode, issuer: Issuer, authority: Authority
) -> None:
    waiting: list[Any] = []

    def keep(peer: Peer, request: Any) -> None:
        waiting.append(request)

    def deny(peer: Peer, request: Any) -> None:
        if isinstance(request, PublishRequest):
            refuse_publishing(peer, request)
        else:
            peer.send(ErrorEvent(id=request.id, code=2000, message="who are you"))

    for kind in (PublishRequest, PresenceRequest, SubscribeRequest):
        node.handlers[kind] = keep
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        sent = [asyncio.ensure_future(client.publish("c", n)) for n in range(2)]
        await eventually(lambda: len(waiting) == 1)
        sent.append(asyncio.ensure_future(client.publish("c", 2)))
        asked = asyncio.ensure_future(client.presence("c"))
        subscription = client.subscribe("d")
        await eventually(lambda: len(waiting) == 4)
        node.handlers[PublishRequest] = node.on_publish
        node.handlers[SubscribeRequest] = node.on_subscribe
        node.handlers[PresenceRequest] = lambda peer, request: peer.send(
            Presence(id=request.id, channel=request.channel, members=(), total=4)
        )
        peer.send(EXPIRED)
        for request in waiting:
            deny(peer, request)
        serials = await asyncio.wait_for(asyncio.gather(*sent), 10)
        assert [serial.offset for serial in serials] == [1, 2, 3]
        assert [item.payload for item in node.published] == [b"0", b"1", b"2"]
        assert (await asked).total == 4
        await subscription.ready()
        assert client.pending == 0


async def test_a_user_channel_that_the_node_makes_again_is_recovered_each_time(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    held: dict[str, None] = {}

    def subscribe(peer: Peer, request: SubscribeRequest) -> None:
        [item] = request.items
        if item.channel in held:
            error = ErrorEvent(code=1009, message="held already")
            result = SubscribeResult(channel=item.channel, error=error)
        else:
            result = SubscribeResult(
                channel=item.channel, serial=node.place("u:ana"), recovered=True
            )
            held[item.channel] = None
        peer.send(SubscribeReply(id=request.id, results=(result,)))

    def authenticate(peer: Peer, request: AuthRequest) -> None:
        held["u:ana"] = None
        made = SubscribeResult(channel="u:ana", serial=node.place("u:ana"))
        peer.send(SubscribeReply(id=0, results=(made,)))
        authority.on_auth(peer, request)

    def leave(peer: Peer, request: UnsubscribeRequest) -> None:
        held.pop("u:ana", None)
        node.on_unsubscribe(peer, request)

    node.handlers[AuthRequest] = authenticate
    node.handlers[SubscribeRequest] = subscribe
    node.handlers[UnsubscribeRequest] = leave
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        subscription = await client.subscribe("u:ana").ready()
        for turn in range(1, 4):
            held.clear()
            peer.send(EXPIRED, UnsubscribeReply(channels=("u:ana",), error=DENIED))
            await eventually(lambda: not subscription.is_attached)
            clock.advance(1)
            await eventually(lambda: subscription.is_attached)
            assert subscription.recovered is True, turn


async def test_credentials_that_are_refused_for_good_release_what_waited(
    make: Make, node: FakeNode, authority: Authority
) -> None:
    async with make(credentials="password") as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        node.handlers[PublishRequest] = refuse_publishing
        authority.refusal = ErrorEvent(code=2001, message="the password changed")
        denied = SubscribeResult(channel="c", error=DENIED)
        node.handlers[SubscribeRequest] = lambda peer, request: peer.send(
            SubscribeReply(id=request.id, results=(denied,))
        )
        peer.send(EXPIRED, UnsubscribeReply(channels=("c",), error=DENIED))
        with pytest.raises(RefusedError) as ended:
            await anext(subscription)
        assert ended.value.code is Code.AUTH_FAILED
        with pytest.raises(RefusedError) as refused:
            await client.publish("c", 1)
        assert refused.value.code is Code.AUTH_FAILED
        assert refused.value.message == "the password changed; no grant"
        assert client.standing.error is not None
        assert client.standing.error.code is Code.AUTH_FAILED
        assert authority.seen == ["password", "password"]


async def test_credentials_take_over_from_a_token_that_has_expired(
    make: Make, node: FakeNode, clock: LoopClock, authority: Authority
) -> None:
    states = States()
    anonymous = node.info
    node.info = msgspec.structs.replace(anonymous, authenticated=True, user="ana")
    async with make(token="old", credentials="password", on_state_change=states) as client:
        peer = await node.peer()
        peer.send(EXPIRED)
        await authority.answers(1)
        await settle(client)
        node.info = anonymous
        peer.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        await states.reach(State.CONNECTED, 2)
        assert "Authorization" not in (await node.peer()).headers
        assert authority.seen == ["password", "password"]


@pytest.mark.parametrize("how", ["token", "credentials"])
async def test_a_node_that_waited_in_vain_is_met_again_with_a_fresh_token(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer, authority: Authority, how: str
) -> None:
    states = States()
    async with make(on_state_change=states, **{how: issuer}) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1))
        await anext(subscription)
        issuer.gate.clear()
        peer.send(EXPIRED, UnsubscribeReply(channels=("c",), error=DENIED))
        await eventually(lambda: not subscription.is_attached)
        peer.send(ErrorEvent(code=5001, message="not in time"))
        peer.close(4501, "not in time")
        await states.reach(State.WAITING)
        issuer.gate.set()
        clock.advance(1)
        await states.reach(State.CONNECTED, 2)
        again = await (await node.peer()).expect(SubscribeRequest)
        assert again.items[0].since == Serial(EPOCH, 1)


async def test_a_token_that_was_refused_is_followed_by_a_fresh_one(
    make: Make, node: FakeNode, clock: LoopClock, issuer: Issuer
) -> None:
    def greet(peer: Peer) -> None:
        if peer.headers["Authorization"] == "Bearer t1":
            peer.send(ErrorEvent(code=2003, message="the token is not valid here"))
            peer.close(4506, "no")
        else:
            hello(peer)

    hello, node.greet = node.greet, greet  # type: ignore[method-assign]
    states = States()
    connecting = asyncio.ensure_future(make(token=issuer, on_state_change=states).connect())
    await states.reach(State.WAITING)
    clock.advance(0)
    await asyncio.wait_for(connecting, 10)
    assert issuer.asked == 2


# --- becoming somebody else ---------------------------------------------------------------------------


async def test_authenticating_in_place_decides_what_is_renewed(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        authority.expires_in_ms = 50_000
        await client.authenticate("bob")
        clock.advance(43)
        await authority.answers(3)
        assert (authority.seen, issuer.asked) == (["t1", "bob", "bob"], 1)


async def test_a_renewal_under_way_does_not_undo_it(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        issuer.gate.clear()
        clock.advance(85.1)
        await eventually(lambda: issuer.asked == 2)
        await client.authenticate("bob")
        issuer.gate.set()
        await settle(client)
        assert authority.seen == ["t1", "bob"]


async def test_refused_it_leaves_the_renewal_as_it_was(
    make: Make, clock: LoopClock, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        authority.refusal = ErrorEvent(code=2001, message="no")
        with pytest.raises(RefusedError):
            await client.authenticate("eve")
        authority.refusal = None
        clock.advance(85.1)
        await authority.answers(3)
        assert authority.seen == ["t1", "eve", "t2"]


async def test_it_does_not_wait_behind_what_waits_for_the_renewal(
    make: Make, node: FakeNode, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer) as client:
        peer = await node.peer()
        issuer.gate.clear()
        peer.send(EXPIRED)
        await eventually(lambda: client.user == "")
        publishing = asyncio.ensure_future(client.publish("c", 1))
        authority.user = "bob"
        identity = await asyncio.wait_for(client.authenticate("bob"), 10)
        assert (identity.user, client.user) == ("bob", "bob")
        await asyncio.wait_for(publishing, 10)


async def test_strict_grants_wait_for_the_grants_that_come_back(
    make: Make, node: FakeNode, issuer: Issuer, authority: Authority
) -> None:
    async with make(credentials=issuer, strict_grants=True) as client:
        peer = await node.peer()
        issuer.gate.clear()
        peer.send(EXPIRED)
        await eventually(lambda: client.user == "")
        assert not client.may_publish("c")
        publishing = asyncio.ensure_future(client.publish("c", 1))
        subscription = client.subscribe("c")
        issuer.gate.set()
        await asyncio.wait_for(publishing, 10)
        await subscription.ready()


# --- bad arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "two words", "a\r\nX-Evil: 1", "ümlaut", 7])
async def test_a_token_that_cannot_travel_in_a_header_is_refused_at_once(
    make: Make, node: FakeNode, token: Any
) -> None:
    with pytest.raises(ArautoError) as caught:
        make(token=token)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "token")

    async def fresh() -> Any:
        return token

    with pytest.raises(ArautoError) as late:
        await make(token=fresh).connect()
    assert (late.value.code, node.all_peers) == (Code.BAD_FIELD, [])


@pytest.mark.parametrize("what", ["token", "credentials"])
async def test_a_plain_function_is_asked_each_time_too(
    make: Make, node: FakeNode, authority: Authority, clock: LoopClock, what: str
) -> None:
    made: list[str] = []

    def fresh() -> str:
        made.append(f"t{len(made) + 1}")
        return made[-1]

    async with make(**{what: fresh}) as client:
        await settle(client)
        await client.authenticate(fresh)
    assert made == ["t1", "t2"]
    assert authority.seen == (["t2"] if what == "token" else ["t1", "t2"])


async def test_a_plain_function_that_fails_is_told_as_an_async_one_is(
    make: Make, node: FakeNode
) -> None:
    def fresh() -> str:
        raise LookupError("no key")

    async with make() as client:
        with pytest.raises(ArautoError, match=r"function for tokens or credentials failed.*no key"):
            await client.authenticate(fresh)
