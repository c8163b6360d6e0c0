"""One test per quota, and crowds: nothing countable is without a bound (T27, T28)."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from arauto.codec.events import (
    Ack,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Operation,
    Ping,
    Pong,
    Publication,
    SessionInfo,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code
from arauto.model import Serial
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from tests.integration.conftest import RunningNode
from tests.integration.security.raw import hold_steady
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import Wire, connect


async def set_quotas(node: RunningNode, **quotas: int) -> None:
    settings = HubSettings(default_public=True, quotas=Quotas(**quotas))
    await node.set("hub", "shop", "", settings)


async def publish_code(wire: Wire, channel: str, payload: bytes = b"x") -> int:
    ack = await wire.ask(publish(channel, payload, id=random.randrange(1, 1 << 40)), Ack)
    error = ack.results[0].error
    return error.code if error else 0


async def over_sessions(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, sessions_max=1)
    second = await connect(node.url)
    code = (await second.next(ErrorEvent)).code
    await asyncio.wait_for(second.closed.wait(), 10)
    assert second.close_code == 4006, "come back later"
    return code


async def over_channels(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, channels_max=2)
    assert [await publish_code(wire, name) for name in ("a", "b")] == [0, 0]
    return await publish_code(wire, "c")


async def over_subscriptions(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, subscriptions_per_session_max=2)
    reply = await subscribed(wire, "a", "b:*", "c")
    assert reply.results[2].error is not None
    return reply.results[2].error.code


async def over_message_size(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, message_bytes_max=100)
    assert await publish_code(wire, "a", b"x" * 100) == 0
    return await publish_code(wire, "a", b"x" * 101)


async def over_hub_rate(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, messages_per_s=3)
    codes = [await publish_code(wire, "a") for _ in range(10)]
    assert codes[:3] == [0, 0, 0]
    return max(codes)


async def over_session_rate(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, session_messages_per_s=3)
    for number in range(10):
        wire.send(publish("a", b"x", id=number + 1))
    return (await wire.next(ErrorEvent)).code


async def over_documents(node: RunningNode, wire: Wire) -> int:
    await set_quotas(node, documents_bytes_max=5_000)

    def change(id: int, size_bytes: int) -> DocumentChangeRequest:
        operation = Operation(op="add", path="/a", value="x" * size_bytes)
        return DocumentChangeRequest(id=id, channel="doc:1", operations=(operation,))

    assert (await wire.ask(change(1, 3_000), DocumentChangeReply)).version == 1
    wire.send(change(2, 6_000))
    return (await wire.next(ErrorEvent)).code


@pytest.mark.parametrize(
    ("exceed", "code"),
    [
        (over_sessions, Code.TOO_MANY_SESSIONS),
        (over_channels, Code.TOO_MANY_CHANNELS),
        (over_subscriptions, Code.TOO_MANY_SUBSCRIPTIONS),
        (over_message_size, Code.MESSAGE_TOO_LARGE),
        (over_hub_rate, Code.HUB_RATE_LIMITED),
        (over_session_rate, Code.RATE_LIMITED),
        (over_documents, Code.DOCUMENTS_FULL),
    ],
)
async def test_each_quota_has_a_code_of_its_own_and_is_the_hubs_alone(
    node: RunningNode, exceed: Callable[[RunningNode, Wire], Awaitable[int]], code: Code
) -> None:
    wire, neighbour = await connect(node.url), await connect(node.url, hub="shop2")
    await neighbour.next(SessionInfo)
    await wire.next(SessionInfo)
    assert await exceed(node, wire) == code
    assert node.node.directory.hubs["shop"].counters.refused.get(int(code)) or code in (
        Code.TOO_MANY_SESSIONS,
    )
    # The other hub has nothing to do with it, and this one is still there.
    assert await publish_code(neighbour, "c", b"x" * 200) == 0
    assert (await wire.ask(Ping(id=7), Pong)).id == 7
    await wire.close()
    await neighbour.close()


def test_no_quota_is_without_a_test() -> None:
    tested = {
        "sessions_max",
        "channels_max",
        "subscriptions_per_session_max",
        "message_bytes_max",
        "messages_per_s",
        "session_messages_per_s",
        "documents_bytes_max",
    }
    # What goes instead is tested in tests/unit/hub: test_live_memory, test_key_memory, test_retained,
    # test_backlog_memory.
    refuses_nobody = {
        "live_history_bytes_max",
        "idempotency_bytes_max",
        "retained_bytes_max",
        "backlogs_bytes_max",
    }
    assert set(Quotas.__struct_fields__) == tested | refuses_nobody


async def test_a_thousand_subscriptions_are_held_and_the_next_is_refused(
    node: RunningNode,
) -> None:
    wire, publisher = await connect(node.url), await connect(node.url)
    items = tuple(SubscribeItem(channel=f"c:{n}") for n in range(1_000))
    reply = await wire.ask(SubscribeRequest(id=1, items=items), SubscribeReply)
    assert all(result.error is None for result in reply.results)
    refusal = (await subscribed(wire, "one:more")).results[0].error
    assert refusal is not None
    assert refusal.code == Code.TOO_MANY_SUBSCRIPTIONS
    for number in (0, 500, 999):
        await publisher.ask(publish(f"c:{number}", b"%d" % number, id=number + 1), Ack)
        assert await wire.messages(1) == [b"%d" % number]
    hub = node.node.directory.hubs["shop"]
    assert hub.subscription_count == 1_000
    await wire.close()
    await hold_steady(node, 1)
    assert hub.subscription_count == 0
    assert not any(channel.member_count for channel in hub.channels.values())
    await publisher.close()


async def test_a_flood_of_retained_messages_is_bounded_by_the_channel_quota(
    node: RunningNode,
) -> None:
    await set_quotas(node, channels_max=50, session_messages_per_s=0)
    wire = await connect(node.url)
    for number in range(400):
        wire.send(publish(f"c:{number}", b"x", retain=True))
    # Who does nothing but ask for too much is sent away on top.
    await asyncio.wait_for(wire.closed.wait(), 10)
    assert wire.close_code == 4507
    retained = node.node.directory.hubs["shop"].retained
    assert len(retained) <= 50
    assert len(node.node.directory.hubs["shop"].channels) <= 50


async def test_history_and_presence_requests_for_made_up_channels_are_bounded(
    node: RunningNode,
) -> None:
    await set_quotas(node, channels_max=20, session_messages_per_s=0)
    wire = await connect(node.url)
    for number in range(100):
        wire.send(HistoryRequest(id=number + 1, channel=f"made:up:{number}"))
        await asyncio.sleep(0)
    await wire.ask(Ping(id=1_000), Pong)
    assert len(node.node.directory.hubs["shop"].channels) <= 20
    await wire.close()


async def test_a_burst_of_reconnects_brings_everybody_back_with_everything(
    node: RunningNode,
) -> None:
    """300 clients at once; each recovers what it missed."""
    publisher = await connect(node.url)
    await set_quotas(node, session_messages_per_s=0)

    async def join(number: int) -> tuple[Wire, Serial]:
        wire = await connect(node.url)
        [result] = (await subscribed(wire, f"room:{number % 10}")).results
        assert result.serial is not None
        return wire, result.serial

    crowd = await asyncio.gather(*(join(number) for number in range(300)))
    await asyncio.gather(*(wire.close() for wire, _ in crowd))
    for room in range(10):
        await publisher.ask(publish(f"room:{room}", b"1", b"2", b"3", id=room + 1), Ack)

    async def return_to(number: int, place: Serial) -> None:
        wire = await connect(node.url)
        item = SubscribeItem(channel=f"room:{number % 10}", since=place)
        reply = await wire.ask(SubscribeRequest(id=1, items=(item,)), SubscribeReply)
        assert reply.results[0].recovered
        assert await wire.messages(3) == [b"1", b"2", b"3"]
        await wire.close()

    async with asyncio.timeout(30):
        await asyncio.gather(*(return_to(n, place) for n, (_, place) in enumerate(crowd)))
    await publisher.close()
    await hold_steady(node)
    assert node.node.directory.hubs["shop"].sessions == {}


async def test_every_answer_goes_to_whoever_asked(node: RunningNode) -> None:
    """T27: 50 clients with many requests under way at once, all with the same ids."""
    await set_quotas(node, session_messages_per_s=0)
    await node.set("rules", "shop", "open", Rules(public=True, client_publish=True))
    for namespace in ("own", "doc"):
        await node.set("namespace", "shop", namespace, NamespaceSettings(rules="open"))
    wires = [await connect(node.url) for _ in range(50)]

    async def talk(number: int, wire: Wire) -> None:
        mine = b"%d" % number
        channel = f"own:{number}"
        await subscribed(wire, channel)
        for id in range(1, 11):
            wire.send(publish(channel, mine, id=id))
            wire.send(HistoryRequest(id=100 + id, channel=channel))
            wire.send(DocumentGetRequest(id=200 + id, channel=f"doc:{number}"))
            if id % 3 == 0:
                await asyncio.sleep(0)
        for id in range(1, 11):
            ack = await wire.next(Ack, lambda event, id=id: event.id == id)  # type: ignore[misc]
            assert ack.results[0].error is None
            document = await wire.next(DocumentGetReply)
            assert document.channel == f"doc:{number}"
        for _ in range(10):
            assert (await wire.next(Publication)).message.payload == mine
        await wire.ask(Ping(id=999), Pong)
        for event in wire.events:
            if isinstance(event, HistoryReply):
                assert event.channel == channel
                assert all(message.payload == mine for message in event.messages)
            elif isinstance(event, ErrorEvent):
                # Too many histories at a time; still an answer to this client's own request.
                assert event.code == Code.TOO_MANY_PENDING
                assert 100 < event.id <= 110

    await asyncio.gather(*(talk(number, wire) for number, wire in enumerate(wires)))
    for wire in wires:
        await wire.close()
