"""The client's promises when the network breaks: once, in order, or told."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import jwt
import pytest

from arauto.client import Backoff, Client, State, Tuning
from arauto.errors import ArautoError, Code
from arauto.model import When
from arauto.settings import HubSettings, JwtSettings, NamespaceSettings, Rules
from tests.integration.client.proxy import Proxy
from tests.integration.conftest import RunningNode, StartNode

#: Comes back quickly: these tests lose many connections.
QUICK = Tuning(backoff=Backoff(base_s=0.01, cap_s=0.05, stable_s=60))
SECRET = "a-secret-of-at-least-thirty-two-bytes"


class Log:
    """Records states; `connected(n)` waits for the n-th connection."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self._changed = asyncio.Event()

    def __call__(self, before: State, now: State) -> None:
        self.states.append(now)
        self._changed.set()

    async def reached(self, state: State, times: int) -> None:
        async with asyncio.timeout(20):
            while self.states.count(state) < times:
                self._changed.clear()
                await self._changed.wait()

    async def connected(self, times: int) -> None:
        await self.reached(State.CONNECTED, times)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something at the node that gives no event."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def proxy(node: RunningNode) -> AsyncIterator[Proxy]:
    async with Proxy(node.port) as proxy:
        yield proxy


async def test_a_subscriber_recovers_what_was_published_while_it_was_away(
    node: RunningNode, proxy: Proxy
) -> None:
    log = Log()
    async with (
        Client(proxy.url, hub="shop", tuning=QUICK, on_state_change=log) as reader,
        Client(node.url, hub="shop") as publisher,
    ):
        exact, wide = reader.subscribe("news:1"), reader.subscribe("news:*")
        await exact.ready()
        await wide.ready()
        for turn in range(5):
            proxy.cut()
            for n in range(10):
                await publisher.publish("news:1", turn * 10 + n)
            await log.connected(turn + 2)
        async with asyncio.timeout(20):
            for subscription in (exact, wide):
                seen = [(await anext(subscription)).data for _ in range(50)]
                assert seen == list(range(50))
                assert subscription.recovered is True


@pytest.fixture
async def kept(node: RunningNode) -> RunningNode:
    """A node whose `kept:` channels store everything, so that all of it can be recovered."""
    rules = Rules(public=True, client_publish=True, store=When.ALL, live_history_len=5)
    await node.set("rules", "shop", "kept", rules)
    await node.set("namespace", "shop", "kept", NamespaceSettings(rules="kept"))
    return node


@pytest.mark.parametrize("cut_after_bytes", [1_409, 2_003, 5_003])
@pytest.mark.parametrize("flavour", ["proto", "json"])
async def test_every_message_arrives_once_and_in_order_however_often_both_sides_break(
    kept: RunningNode, cut_after_bytes: int, flavour: Any
) -> None:
    """Publisher and subscriber each sit behind a network that breaks after so many bytes."""
    count = 300
    async with (
        Proxy(kept.port) as bad_for_publisher,
        Proxy(kept.port) as bad_for_reader,
        Client(kept.url, hub="shop", flavour=flavour) as witness,
        Client(bad_for_reader.url, hub="shop", flavour=flavour, tuning=QUICK) as reader,
        Client(bad_for_publisher.url, hub="shop", flavour=flavour, tuning=QUICK) as publisher,
    ):
        watched = await witness.subscribe("kept:1").ready()
        read = await reader.subscribe("kept:1").ready()
        for proxy in (bad_for_publisher, bad_for_reader):
            proxy.cut_after_bytes = cut_after_bytes
            proxy.cut()
        async with asyncio.timeout(50):
            serials = [await publisher.publish("kept:1", n) for n in range(count)]
            bad_for_reader.cut_after_bytes = None
            bad_for_reader.cut()
            for subscription in (watched, read):
                received = [await anext(subscription) for _ in range(count)]
                assert [m.data for m in received] == list(range(count))
                assert [m.serial for m in received] == serials
        assert min(bad_for_publisher.connections, bad_for_reader.connections) >= 4
        assert watched.queued == read.queued == 0


async def test_a_burst_published_at_once_is_delivered_once_over_a_breaking_network(
    node: RunningNode, proxy: Proxy
) -> None:
    async with (
        Client(node.url, hub="shop") as witness,
        Client(proxy.url, hub="shop", tuning=QUICK) as publisher,
    ):
        watched = await witness.subscribe("c").ready()
        async with asyncio.timeout(30):
            burst = asyncio.gather(*(publisher.publish("c", n) for n in range(500)))
            seen: list[int] = []
            while len(seen) < 500:
                seen += [m.data for m in await watched.take()]
                proxy.cut()
            await burst
        assert seen == list(range(500))
        assert watched.queued == 0


async def test_a_network_that_falls_silent_is_noticed_and_left(
    start_node: StartNode,
) -> None:
    node = await start_node(session={"pingIntervalS": 1, "pongTimeoutS": 0.5})
    log = Log()
    async with Proxy(node.port) as proxy:
        client = Client(proxy.url, hub="shop", tuning=QUICK, on_state_change=log)
        async with client:
            news = await client.subscribe("news").ready()
            proxy.hold()
            await log.reached(State.WAITING, 1)
            proxy.flow()
            await log.reached(State.CONNECTED, 2)
            await client.publish("news", 1)
            assert (await anext(news)).data == 1


def token(user: str, hub: str = "shop") -> str:
    grants = {"channels": [{"channel": "*", "publish": True, "subscribe": True}]}
    claims = {"sub": user, "aud": hub, "exp": int(time.time()) + 600, "grants": grants}
    return jwt.encode(claims, SECRET, algorithm="HS256")


@pytest.fixture
async def guarded(node: RunningNode) -> RunningNode:
    """A hub that knows its users by their tokens."""
    settings = HubSettings(
        allow_anonymous=False,
        jwt=JwtSettings(algorithm="HS256", secret=SECRET),
    )
    await node.set("hub", "shop", "", settings)
    return node


@pytest.mark.parametrize("how", ["token", "credentials"])
async def test_a_session_is_restored_with_its_identity_id_and_subscriptions(
    guarded: RunningNode, how: str
) -> None:
    log = Log()
    asked = 0

    async def fresh() -> str:
        nonlocal asked
        asked += 1
        return token("ana")

    options: dict[str, Any] = {how: fresh}
    async with Proxy(guarded.port) as proxy:
        client = Client(proxy.url, hub="shop", tuning=QUICK, on_state_change=log, **options)
        async with client, Client(guarded.url, hub="shop", token=token("bob")) as publisher:
            assert client.user == "ana"
            news, wide = client.subscribe("news"), client.subscribe("n*")
            await news.ready()
            await wide.ready()
            await publisher.publish("news", 1)
            assert (await anext(news)).data == 1
            before = client.session
            await until(lambda: _has_restore_state(guarded))
            proxy.cut()
            await publisher.publish("news", 2)
            await log.connected(2)
            async with asyncio.timeout(10):
                assert (await anext(news)).data == 2
                assert [(await anext(wide)).data for _ in range(2)] == [1, 2]
            assert (client.session, client.user) == (before, "ana")
            assert client.may_publish("anything")
            assert asked == (2 if how == "token" else 1)


def _has_restore_state(node: RunningNode) -> bool:
    """The node keeps the state shortly after it changed."""
    sessions = node.node.directory.hubs["shop"].sessions.values()
    return all(subscriber.session.restorable._due is None for subscriber in sessions)  # type: ignore[attr-defined]


async def test_the_user_channel_is_iterated_over_and_survives_a_reconnect(
    guarded: RunningNode,
) -> None:
    log = Log()
    async with Proxy(guarded.port) as proxy:
        client = Client(
            proxy.url, hub="shop", credentials=token("ana"), tuning=QUICK, on_state_change=log
        )
        async with client, Client(guarded.url, hub="shop", token=token("bob")) as bob:
            mine = await client.subscribe("u:ana").ready()
            await bob.publish("u:ana", 1)
            assert (await anext(mine)).data == 1
            proxy.cut()
            await bob.publish("u:ana", 2)
            await log.connected(2)
            await bob.publish("u:ana", 3)
            async with asyncio.timeout(10):
                assert [(await anext(mine)).data for _ in range(2)] == [2, 3]


async def test_a_bad_token_is_raised_with_its_code(guarded: RunningNode) -> None:
    with pytest.raises(ArautoError) as caught:
        async with Client(guarded.url, hub="shop", token="nonsense"):
            pass
    assert caught.value.code is Code.TOKEN_INVALID
    with pytest.raises(ArautoError) as refused:
        async with Client(guarded.url, hub="shop", credentials="nonsense"):
            pass
    assert refused.value.code is Code.TOKEN_INVALID


async def test_changing_who_one_is_needs_no_reconnect(guarded: RunningNode) -> None:
    async with Client(guarded.url, hub="shop", credentials=token("ana")) as client:
        session = client.session
        identity = await client.authenticate(token("bob"))
        assert (identity.user, client.user, client.session) == ("bob", "bob", session)
        assert client.standing.token
        with pytest.raises(ArautoError):
            await client.authenticate("nonsense")
        assert client.user == "bob"


async def test_a_node_that_restarts_is_found_again_and_the_gap_is_visible(
    start_node: StartNode,
) -> None:
    first = await start_node()
    log = Log()
    async with Client(first.url, hub="shop", tuning=QUICK, on_state_change=log) as client:
        news = await client.subscribe("news").ready()
        await client.publish("news", 1)
        assert (await anext(news)).data == 1
        await first.node.stop()
        pending = asyncio.ensure_future(client.publish("news", 2))
        await start_node(connection={"port": first.port})
        await log.connected(2)
        async with asyncio.timeout(20):
            await pending
            received = await anext(news)
            while received.data != 2:
                received = await anext(news)
        assert news.recovered is False
        assert received.missed


async def test_documents_catch_up_after_a_cut(node: RunningNode, proxy: Proxy) -> None:
    log = Log()
    async with (
        Client(proxy.url, hub="shop", tuning=QUICK, on_state_change=log) as client,
        Client(node.url, hub="shop") as other,
        client.document("doc:a") as mine,
        other.document("doc:a") as theirs,
    ):
        await mine.change([{"op": "add", "path": "/n", "value": 0}])
        for turn in range(1, 4):
            proxy.cut()
            await theirs.change([{"op": "replace", "path": "/n", "value": turn}])
            await log.connected(turn + 1)
            async with asyncio.timeout(10):
                while mine.version < theirs.version:
                    await anext(mine.updates())
            assert mine.value == theirs.value == {"n": turn}


async def test_cancelling_at_any_moment_leaks_nothing(node: RunningNode) -> None:
    """Cancels a whole client session after n turns of the event loop, for many n."""

    async def use() -> None:
        async with (
            Client(node.url, hub="shop") as client,
            client.subscribe("c") as subscription,
            client.document("doc:a") as document,
        ):
            await client.publish("c", 1)
            await anext(subscription)
            await document.change([{"op": "add", "path": "/a", "value": 1}])
            _ = [m async for m in client.history("c")]

    await use()
    for turns in [*range(60), 80, 100, 130, 170, 220]:
        task = asyncio.ensure_future(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await until(lambda: not node.node.directory.hubs["shop"].sessions)


async def test_stored_messages_survive_a_long_absence(kept: RunningNode) -> None:
    log = Log()
    async with (
        Proxy(kept.port) as proxy,
        Client(proxy.url, hub="shop", tuning=QUICK, on_state_change=log) as reader,
        Client(kept.url, hub="shop") as publisher,
    ):
        stored = await reader.subscribe("kept:1").ready()
        proxy.cut()
        for n in range(100):
            await publisher.publish("kept:1", n)
        await log.connected(2)
        async with asyncio.timeout(20):
            assert [(await anext(stored)).data for _ in range(100)] == list(range(100))
        assert stored.recovered is True
