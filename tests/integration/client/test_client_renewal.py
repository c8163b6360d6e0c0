"""Clients that outlive their tokens, on a node that means it: nothing lost, nothing twice."""

import asyncio
import time
from collections.abc import Callable

import jwt
import msgspec
import pytest

from arauto.client import Client, State, blocking
from arauto.errors import Code
from arauto.settings import HubSettings, JwtSettings
from tests.integration.conftest import RunningNode, StartNode

SECRET = "a-secret-of-at-least-thirty-two-bytes"
ALL = {"channels": [{"channel": "*", "publish": True, "subscribe": True}]}


def token(user: str, life_s: float = 600) -> str:
    claims = {"sub": user, "aud": "shop", "exp": time.time() + life_s, "grants": ALL}
    return jwt.encode(claims, SECRET, algorithm="HS256")


class Issuer:
    """Makes tokens of `ana` that live so long."""

    def __init__(self, life_s: float) -> None:
        self.life_s = life_s
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        return token("ana", self.life_s)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something at the node that gives no event."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def guarded(node: RunningNode) -> RunningNode:
    """A hub that knows its users by their tokens and refuses everybody else."""
    settings = HubSettings(allow_anonymous=False, jwt=JwtSettings(algorithm="HS256", secret=SECRET))
    await node.set("hub", "shop", "", settings)
    return node


def expire(node: RunningNode, user: str) -> None:
    """Let a user's time be over now, as the node's own clock would."""
    for subscriber in list(node.node.directory.hubs["shop"].sessions.values()):
        session = subscriber.session
        if session.user == user:  # type: ignore[attr-defined]
            session.identity = msgspec.structs.replace(session.identity, expires_ms=1)  # type: ignore[attr-defined]
            session.expires_ms = 1  # type: ignore[attr-defined]
            session.check_expiry()  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["token", "credentials"])
async def test_a_subscriber_outlives_many_tokens_on_one_connection(
    guarded: RunningNode, how: str
) -> None:
    issuer = Issuer(1.5)
    states: list[State] = []
    client = Client(
        guarded.url,
        hub="shop",
        on_state_change=lambda before, now: states.append(now),
        **{how: issuer},  # type: ignore[arg-type]
    )
    async with client, Client(guarded.url, hub="shop", token=token("bob")) as publisher:
        news = await client.subscribe("news").ready()
        session, count = client.session, 0
        while issuer.asked < 4:
            await publisher.publish("news", count)
            await client.publish("own", count)
            count += 1
            await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            assert [(await anext(news)).data for _ in range(count)] == list(range(count))
        assert (client.user, client.session, news.queued) == ("ana", session, 0)
        assert states == [State.CONNECTING, State.JOINING, State.CONNECTED]
        assert client.standing.error is None


async def test_the_blocking_client_outlives_its_tokens_too(guarded: RunningNode) -> None:
    issuer = Issuer(1.5)

    def read() -> list[int]:
        seen = []
        with blocking.Client(guarded.url, hub="shop", token=issuer) as client:
            with client.subscribe("news") as news:
                for received in news:
                    seen.append(received.data)
                    if received.data < 0:
                        break
            assert client.user == "ana"
        return seen

    async with Client(guarded.url, hub="shop", token=token("bob")) as publisher:
        reading = asyncio.ensure_future(asyncio.to_thread(read))
        await until(lambda: "news" in guarded.node.directory.hubs["shop"].channels)
        count = 0
        while issuer.asked < 4 and not reading.done():
            await publisher.publish("news", count)
            count += 1
            await asyncio.sleep(0.01)
        await publisher.publish("news", -1)
        seen = await asyncio.wait_for(reading, 20)
    # What was published before the subscription stood is not part of it.
    assert seen == [*range(seen[0], count), -1]


async def test_an_expiry_that_comes_first_leaves_no_gap_and_nothing_twice(
    guarded: RunningNode,
) -> None:
    """By name, by pattern, on the user channel and in a document, over several expiries."""
    issuer = Issuer(600)
    async with (
        Client(guarded.url, hub="shop", credentials=issuer) as client,
        Client(guarded.url, hub="shop", token=token("bob")) as publisher,
    ):
        subscriptions = [client.subscribe(name) for name in ("news:1", "news:*", "u:ana")]
        for subscription in subscriptions:
            await subscription.ready()
        count = 0

        async def publish() -> None:
            nonlocal count
            for channel in ("news:1", "u:ana"):
                await publisher.publish(channel, count)
            count += 1

        async with client.document("doc:board") as board:
            for turn in range(3):
                await publish()
                expire(guarded, "ana")
                await publish()
                mine = asyncio.ensure_future(client.publish("mine", turn))
                await publish()
                assert (await asyncio.wait_for(mine, 10)).offset == turn + 1
                assert (client.user, issuer.asked) == ("ana", turn + 2)
                await board.change([{"op": "add", "path": "", "value": {"turn": turn}}])
                assert board.value == {"turn": turn}
        async with asyncio.timeout(10):
            for subscription in subscriptions:
                seen = [await anext(subscription) for _ in range(count)]
                assert [received.data for received in seen] == list(range(count))
                assert not any(received.missed for received in seen)
                assert (subscription.queued, subscription.recovered) == (0, True)


async def test_a_fixed_token_ends_and_the_client_says_so(guarded: RunningNode) -> None:
    ended = asyncio.Event()

    def watch(before: State, now: State) -> None:
        if now is State.FAILED:
            ended.set()

    client = Client(guarded.url, hub="shop", token=token("ana", 2), on_state_change=watch)
    async with client:
        assert client.user == "ana"
        await until(lambda: client.user == "")
        assert client.standing.error is not None
        assert client.standing.error.code is Code.TOKEN_EXPIRED
        assert client.state is State.CONNECTED
        expired = guarded.node.directory.hubs["shop"].sessions.values()
        for subscriber in list(expired):
            subscriber.session.disconnect(Code.AUTH_DEADLINE, "in vain")
        await asyncio.wait_for(ended.wait(), 10)
        assert client.error is not None
        assert client.error.code is Code.TOKEN_EXPIRED


async def test_a_function_that_was_too_slow_for_the_node_is_not_the_end(
    start_node: StartNode,
) -> None:
    """The node has sent the client away by the time there is a token again."""
    node = await start_node(session={"authDeadlineS": 0.1})
    settings = HubSettings(allow_anonymous=False, jwt=JwtSettings(algorithm="HS256", secret=SECRET))
    await node.set("hub", "shop", "", settings)
    gate = asyncio.Event()
    gate.set()

    async def slow() -> str:
        await gate.wait()
        return token("ana")

    states: list[State] = []
    client = Client(
        node.url, hub="shop", token=slow, on_state_change=lambda before, now: states.append(now)
    )
    async with client, Client(node.url, hub="shop", token=token("bob")) as publisher:
        news = await client.subscribe("news").ready()
        gate.clear()
        await publisher.publish("news", 1)
        expire(node, "ana")
        await until(lambda: State.WAITING in states)
        await publisher.publish("news", 2)
        gate.set()
        async with asyncio.timeout(10):
            assert [(await anext(news)).data for _ in range(2)] == [1, 2]
        assert (client.user, client.state) == ("ana", State.CONNECTED)
