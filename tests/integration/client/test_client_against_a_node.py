"""The client and a real node, both flavours: everything a person does with it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arauto.client import Client, Draft, Received, State, Update
from arauto.codec.events import Gap, Join, Leave, Occupancy, Presence, SubscribeResult
from arauto.errors import ArautoError, Code
from arauto.model import Direction, Serial, When
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from tests.integration.conftest import RunningNode, StartNode


@pytest.fixture(params=["proto", "json"])
def make(node: RunningNode, request: pytest.FixtureRequest) -> Callable[..., Client]:
    def build(**options: Any) -> Client:
        return Client(node.url, **{"hub": "shop", "flavour": request.param, **options})

    return build


Make = Callable[..., Client]


async def take(source: Any, count: int) -> list[Any]:
    async with asyncio.timeout(10):
        return [await anext(source) for _ in range(count)]


async def test_what_one_publishes_the_others_receive(make: Make) -> None:
    async with make() as publisher, make() as reader:
        stock = await reader.subscribe("stock:42").ready()
        serials = [
            await publisher.publish("stock:42", {"qty": 3}, headers={"trace": "t"}, key="eu"),
            await publisher.publish("stock:42", "olá"),
            await publisher.publish("stock:42", b"\x00\xff"),
        ]
        received: list[Received] = await take(stock, 3)
        assert [m.data for m in received] == [{"qty": 3}, "olá", b"\x00\xff"]
        assert [m.serial for m in received] == serials
        assert (received[0].headers, received[0].key) == ({"trace": "t"}, "eu")
        assert {m.session for m in received} == {publisher.session}


async def test_the_sender_can_leave_itself_out(make: Make) -> None:
    async with make() as client:
        chat = await client.subscribe("chat").ready()
        await client.publish("chat", 1, echo=False)
        await client.publish("chat", 2)
        assert [m.data for m in await take(chat, 1)] == [2]


async def test_patterns_and_topics_deliver_what_they_cover_once(make: Make) -> None:
    async with make() as client, make() as publisher:
        names = ("weather:*", "weather:#:rain", "weather:lisbon:rain", "/a")
        subscriptions = [await client.subscribe(name).ready() for name in names]
        await publisher.publish("weather:lisbon:rain", 1)
        await publisher.publish("weather:porto:wind", 2)
        await publisher.publish("/a/b/c", 3)
        got = [
            [m.data for m in await take(s, n)]
            for s, n in zip(subscriptions, (2, 1, 1, 1), strict=True)
        ]
        assert got == [[1, 2], [1], [1], [3]]
        assert [s.queued for s in subscriptions] == [0, 0, 0, 0]


async def test_publishing_the_same_key_twice_delivers_once(make: Make) -> None:
    async with make() as client:
        chat = await client.subscribe("chat").ready()
        first = await client.publish("chat", 1, idempotency_key="order-7")
        assert await client.publish("chat", 1, idempotency_key="order-7") == first
        await client.publish("chat", 2)
        assert [m.data for m in await take(chat, 2)] == [1, 2]


async def test_many_at_once_arrive_in_order(make: Make) -> None:
    async with make() as client, make() as reader:
        numbers = await reader.subscribe("numbers", queue_len_max=5_000).ready()
        serials = await client.publish_many(Draft(channel="numbers", data=n) for n in range(3_000))
        assert [m.data for m in await take(numbers, 3_000)] == list(range(3_000))
        assert serials == sorted(set(serials))


async def test_a_retained_message_greets_newcomers(make: Make) -> None:
    async with make() as client, make() as late:
        await client.publish("price:eur", 1.17, retain=True)
        await client.publish("price:eur", 9.99)
        exact = await late.subscribe("price:eur").ready()
        wide = await late.subscribe("price:*").ready()
        assert [m.data for m in await take(exact, 1)] == [1.17]
        await client.publish("price:eur", 1.18)
        assert [m.data for m in await take(exact, 1)] == [1.18]
        assert (await take(wide, 1))[0].data in (1.17, 1.18)


async def test_a_retained_message_greets_who_comes_back_and_is_not_recovered(make: Make) -> None:
    async with make() as client:
        await client.publish("sensor", "21 C", retain=True)
    async with make() as client:
        sensor = await client.subscribe("sensor", since=Serial(1, 5)).ready()
        assert sensor.recovered is False
        assert [m.data for m in await take(sensor, 1)] == ["21 C"]


async def test_history_is_read_page_by_page_both_ways(make: Make) -> None:
    async with make() as client:
        serials = await client.publish_many(Draft(channel="log", data=n) for n in range(50))
        forward = client.history("log", page_len=7)
        assert [m.data async for m in forward] == list(range(50))
        assert not forward.complete, "what the channel was used for before, nobody can prove"
        later = client.history("log", since=serials[0], page_len=7)
        assert [m.data async for m in later] == list(range(1, 50))
        assert later.complete
        back = client.history("log", page_len=7, direction=Direction.BACKWARD, limit=10)
        assert [m.data async for m in back] == list(range(49, 39, -1))
        part = client.history("log", since=serials[9], until=serials[13])
        assert [m.data async for m in part] == [10, 11, 12]
        times = client.history("log", from_time=1, to_time=2)
        assert [m.data async for m in times] == []


async def test_stored_history_outlives_live_history(make: Make, node: RunningNode) -> None:
    rules = Rules(public=True, client_publish=True, store=When.ALL, live_history_len=5)
    await node.set("rules", "shop", "kept", rules)
    await node.set("namespace", "shop", "kept", NamespaceSettings(rules="kept"))
    async with make() as client:
        await client.publish_many(Draft(channel="kept:1", data=n) for n in range(40))
        history = client.history("kept:1", page_len=15)
        assert [m.data async for m in history] == list(range(40))


async def test_presence_tells_who_comes_and_goes(make: Make, node: RunningNode) -> None:
    rules = Rules(public=True, presence=True, occupancy=True, client_publish=True)
    await node.set("rules", "shop", "seen", rules)
    await node.set("namespace", "shop", "room", NamespaceSettings(rules="seen"))
    async with make() as ana:
        room = await ana.subscribe("room:1").ready()
        async with make() as bob:
            await bob.subscribe("room:1").ready()
            assert {m.session for m in (await ana.presence("room:1")).members} == {
                ana.session,
                bob.session,
            }
            assert await ana.occupancy("room:1") == 2
            bobs_session = bob.session
        wanted: list[type] = [SubscribeResult, Presence, Join, Leave, Occupancy]
        seen: dict[type, Any] = {}
        async with asyncio.timeout(10):
            async for event in room.events():
                seen[type(event)] = event
                if all(kind in seen for kind in wanted):
                    break
        assert seen[Join].member.session == seen[Leave].member.session == bobs_session


async def test_documents_are_shared_live(make: Make) -> None:
    async with make() as one, make() as two:
        async with one.document("doc:board") as mine, two.document("doc:board") as theirs:
            updates = theirs.updates()
            await mine.change([{"op": "add", "path": "/cards/a", "value": {"done": False}}])
            await mine.change(
                [
                    {"op": "test", "path": "/cards/a/done", "value": False},
                    {"op": "replace", "path": "/cards/a/done", "value": True},
                    {"op": "add", "path": "/raw", "value": b"\x00\x01"},
                ]
            )
            seen: list[Update] = await take(updates, 2)
            assert [update.version for update in seen] == [1, 2]
            assert (
                theirs.value == mine.value == {"cards": {"a": {"done": True}}, "raw": b"\x00\x01"}
            )
            with pytest.raises(ArautoError) as failed:
                await theirs.change([{"op": "test", "path": "/raw", "value": 1}])
            with pytest.raises(ArautoError) as stale:
                await theirs.change([{"op": "remove", "path": "/raw"}], if_version=1)
            assert failed.value.code is Code.TEST_FAILED
            assert stale.value.code is Code.VERSION_MISMATCH
        async with two.document("doc:board") as again:
            assert (again.version, again.get("/cards/a/done")) == (2, True)


@pytest.mark.parametrize(
    ("quotas", "code"),
    [
        (Quotas(messages_per_s=1), Code.HUB_RATE_LIMITED),
        (Quotas(channels_max=1), Code.TOO_MANY_CHANNELS),
    ],
)
async def test_the_nodes_refusals_arrive_with_their_codes(
    make: Make, node: RunningNode, quotas: Quotas, code: Code
) -> None:
    await node.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
    await node.set("rules", "shop", "open", Rules(public=True, client_publish=True))
    await node.set(
        "hub", "shop", "", HubSettings(default_public=True, default_rules="open", quotas=quotas)
    )
    async with make() as client:
        publishing = (client.publish(f"c:{n}", 1) for n in range(20))
        outcomes = await asyncio.gather(*publishing, return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, ArautoError)]
    assert refusals
    assert {refusal.code for refusal in refusals} == {code}
    assert all(refusal.retryable for refusal in refusals)


async def test_a_rule_that_closes_a_channel_ends_its_subscriptions_with_the_reason(
    make: Make, node: RunningNode
) -> None:
    async with make() as client:
        room = await client.subscribe("room:1").ready()
        await node.set("rules", "shop", "closed", Rules(public=False))
        await node.set("namespace", "shop", "room", NamespaceSettings(rules="closed"))
        with pytest.raises(ArautoError) as ended:
            async with asyncio.timeout(10):
                await anext(room)
        with pytest.raises(ArautoError) as refused:
            await client.subscribe("room:1").ready()
        assert ended.value.code is refused.value.code is Code.SUBSCRIBE_DENIED


async def test_a_place_kept_from_an_earlier_run_is_continued_from(make: Make) -> None:
    async with make() as client:
        seen = await client.publish("news", 1)
        await client.publish("news", 2)
    async with make() as client:
        news = await client.subscribe("news", since=seen).ready()
        assert news.recovered is True
        assert [m.data for m in await take(news, 1)] == [2]
    async with make() as client:
        wide = await client.subscribe("new*", since={"news": seen}).ready()
        assert [m.data for m in await take(wide, 1)] == [2]


async def test_a_place_that_is_too_old_leaves_a_visible_gap(make: Make) -> None:
    async with make() as client:
        await client.publish("news", 1)
        news = await client.subscribe("news", since=Serial(1, 5)).ready()
        assert news.recovered is False
        await client.publish("news", 2)
        [received] = await take(news, 1)
        assert received.data == 2
        assert [type(gap) for gap in received.missed] == [Gap]


async def test_live_history_too_short_is_filled_from_the_store_where_asked_for(
    make: Make, node: RunningNode
) -> None:
    rules = Rules(public=True, client_publish=True, store=When.MARKED, live_history_len=3)
    await node.set("rules", "shop", "some", rules)
    await node.set("namespace", "shop", "some", NamespaceSettings(rules="some"))
    async with make() as client:
        first = await client.publish("some:1", 0, store=True)
        await client.publish_many(Draft(channel="some:1", data=n, store=True) for n in range(1, 20))
        wanted = await client.subscribe("some:1", since=first, fill_gaps=True).ready()
        assert [m.data for m in await take(wanted, 19)] == list(range(1, 20))


async def test_two_hubs_never_meet(make: Make, start_node: StartNode) -> None:
    async with make() as ours, make(hub="other") as theirs:
        mine = await ours.subscribe("*").ready()
        await theirs.publish("c", "theirs")
        await ours.publish("c", "ours")
        assert [m.data for m in await take(mine, 1)] == ["ours"]


async def test_a_client_comes_back_to_a_node_that_was_full(start_node: StartNode) -> None:
    node = await start_node(connection={"port": 0, "maxConnections": 1})
    first = await Client(node.url, hub="shop").connect()
    turned_away = asyncio.Event()

    def look(before: State, now: State) -> None:
        if now is State.WAITING:
            turned_away.set()

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        second = tasks.create_task(Client(node.url, hub="shop", on_state_change=look).connect())
        await turned_away.wait()
        await first.close()
        await (await second).close()
