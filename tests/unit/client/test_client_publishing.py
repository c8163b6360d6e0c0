"""Publishing and asking: acknowledgements, batches, retries that deliver once, bounds and deadlines."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from arauto.client import (
    Client,
    ConnectionLostError,
    Draft,
    PartialPublishError,
    RequestTimeoutError,
    State,
    Tuning,
)
from arauto.codec.events import (
    Ack,
    AckItem,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    Echo,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Occupancy,
    OccupancyRequest,
    Presence,
    PresenceRequest,
    PublishRequest,
)
from arauto.entropy import SeededEntropy
from arauto.errors import ArautoError, Code
from arauto.model import JSON, TEXT, Direction, Member, Serial
from tests.unit.client.conftest import LoopClock, eventually
from tests.unit.client.fake_node import EPOCH, FakeNode, Peer, message
from tests.unit.client.test_client_connection import States

Make = Callable[..., Client]


def at(offset: int) -> Serial:
    return Serial(EPOCH, offset)


async def test_publishing_returns_the_serial_the_node_gave(
    make: Make, node: FakeNode, flavour: str
) -> None:
    async with make(flavour=flavour) as client:
        assert await client.publish("c", {"qty": 3}) == at(1)
        assert await client.publish("c", "text") == at(2)
        assert await client.publish("c", b"\x00") == at(3)
    sent = [(item.payload, item.content_type) for item in node.published]
    assert sent == [(b'{"qty":3}', JSON), (b"text", TEXT), (b"\x00", "")]


async def test_every_option_travels(make: Make, node: FakeNode, flavour: str) -> None:
    async with make(flavour=flavour) as client:
        await client.publish(
            "c",
            b"<a/>",
            content_type="application/xml",
            retain=True,
            store=True,
            key="k",
            idempotency_key="mine",
            echo=False,
            ttl_s=1.5,
            headers={"traceparent": "00-1-1-00"},
        )
        await client.publish("c", 1, echo=Echo.NOT_USER, ttl_s=0.0001)
    first, second = node.published
    assert (first.content_type, first.retain, first.store) == ("application/xml", True, True)
    assert (first.key, first.idempotency_key, first.ttl_ms) == ("k", "mine", 1500)
    assert (first.echo, first.headers) == (Echo.NOT_SESSION, {"traceparent": "00-1-1-00"})
    assert (second.echo, second.ttl_ms) == (Echo.NOT_USER, 1)


async def test_every_publish_has_its_own_idempotency_key(make: Make, node: FakeNode) -> None:
    async with make() as one, make(entropy=SeededEntropy(2)) as two:
        for client in (one, two):
            for _ in range(3):
                await client.publish("c", 1)
    keys = [item.idempotency_key for item in node.published]
    assert len(keys) == len(set(keys)) == 6
    assert all(keys)


async def test_publishes_of_one_turn_share_a_request(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        serials = await asyncio.gather(*(client.publish("c", index) for index in range(50)))
        assert [serial.offset for serial in serials] == list(range(1, 51))
        assert peer.count(PublishRequest) == 1


async def test_publishing_without_waiting_asks_for_no_answer(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        for index in range(3):
            client.publish_nowait("c", index)
        request = await peer.expect(PublishRequest)
        assert (request.id, len(request.items)) == (0, 3)
        await eventually(lambda: client.pending == 0)


async def test_what_was_published_just_before_closing_still_leaves(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        client.publish_nowait("c", 1)
    await peer.wait_ended()
    assert len(node.published) == 1


async def test_many_messages_are_published_in_order(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        serials = await client.publish_many(Draft(channel="c", data=n) for n in range(2_500))
        assert [serial.offset for serial in serials] == list(range(1, 2_501))
        assert [item.payload for item in node.published] == [b"%d" % n for n in range(2_500)]
        assert peer.count(PublishRequest) < 60


async def test_a_refusal_carries_the_nodes_code(make: Make, node: FakeNode, flavour: str) -> None:
    def refuse(peer: Peer, request: PublishRequest) -> None:
        error = ErrorEvent(code=2006, message="no grant", field="channel")
        peer.send(Ack(id=request.id, results=(AckItem(error=error),)))

    node.handlers[PublishRequest] = refuse
    async with make(flavour=flavour) as client:
        with pytest.raises(ArautoError) as caught:
            await client.publish("c", 1)
    assert (caught.value.code, caught.value.field) == (Code.PUBLISH_DENIED, "channel")


async def test_of_many_the_refused_ones_are_told_apart(make: Make, node: FakeNode) -> None:
    def refuse_odd(peer: Peer, request: PublishRequest) -> None:
        error = ErrorEvent(code=2006, message="no grant")
        results = tuple(
            AckItem(error=error) if item.payload == b"1" else AckItem(serial=at(1))
            for item in request.items
        )
        peer.send(Ack(id=request.id, results=results))

    node.handlers[PublishRequest] = refuse_odd
    async with make() as client:
        with pytest.raises(PartialPublishError) as caught:
            await client.publish_many(Draft(channel="c", data=n) for n in range(3))
    assert [isinstance(result, Serial) for result in caught.value.results] == [True, False, True]


async def test_one_bad_message_does_not_sink_the_batch_it_travelled_in(
    make: Make, node: FakeNode
) -> None:
    def strict(peer: Peer, request: PublishRequest) -> None:
        if any(item.payload == b"13" for item in request.items):
            peer.send(ErrorEvent(id=request.id, code=1003, message="bad", field="messages[3]"))
        else:
            node.on_publish(peer, request)

    node.handlers[PublishRequest] = strict
    async with make() as client:
        outcomes = await asyncio.gather(
            *(client.publish("c", index) for index in (1, 13, 2)), return_exceptions=True
        )
    assert [isinstance(outcome, Serial) for outcome in outcomes] == [True, False, True]


async def test_a_message_the_protocol_cannot_carry_is_refused_here(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        bad: list[dict[str, Any]] = [
            {"headers": {"a b": "c"}},
            {"headers": {"a": "\ud800"}},
            {"key": "x" * 1_000},
            {"ttl_s": -1.0},
            {"ttl_s": float("nan")},
        ]
        good = asyncio.ensure_future(client.publish("c", 1))
        for options in bad:
            with pytest.raises(ArautoError) as caught:
                await client.publish("c", 1, **options)
            assert caught.value.code is Code.BAD_FIELD, options
        assert await good == at(1)
        with pytest.raises(ArautoError) as pattern:
            await client.publish("c:*", 1)
        assert pattern.value.code is Code.BAD_CHANNEL_NAME


async def test_a_message_over_the_hubs_limit_is_refused_here(make: Make, node: FakeNode) -> None:
    node.info = type(node.info)(
        hub="shop", session="s", node="n", authenticated=False, message_bytes_max=10
    )
    async with make() as client:
        with pytest.raises(ArautoError) as caught:
            await client.publish("c", b"x" * 11)
        assert caught.value.code is Code.MESSAGE_TOO_LARGE
        await client.publish("c", b"x" * 10)


async def test_a_publish_whose_acknowledgement_was_lost_is_sent_again_and_delivered_once(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()

    def lose_the_answer(peer: Peer, request: PublishRequest) -> None:
        node.on_publish(peer, PublishRequest(items=request.items))
        peer.drop()

    async with make(on_state_change=states) as client:
        node.handlers[PublishRequest] = lose_the_answer
        publishing = asyncio.ensure_future(client.publish("c", 1))
        later = asyncio.ensure_future(client.publish("c", 2))
        await states.reach(State.WAITING)
        node.handlers[PublishRequest] = node.on_publish
        clock.advance(0)
        assert [await publishing, await later] == [at(1), at(2)]
    assert [item.payload for item in node.published] == [b"1", b"2"]


async def test_what_is_published_while_disconnected_waits_and_keeps_its_order(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        publishing = [asyncio.ensure_future(client.publish("c", n)) for n in range(5)]
        await asyncio.sleep(0)
        client.publish_nowait("c", 5)
        assert client.pending == 6
        clock.advance(0)
        await asyncio.gather(*publishing)
        await client.publish("c", 6)
    assert [item.payload for item in node.published] == [b"%d" % n for n in range(7)]


async def test_the_queue_is_bounded_while_disconnected(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states, tuning=Tuning(pending_len_max=3)) as client:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        for index in range(3):
            client.publish_nowait("c", index)
        with pytest.raises(ArautoError) as caught:
            await client.publish("c", 3)
        assert caught.value.code is Code.TOO_MANY_PENDING
        with pytest.raises(ArautoError):
            await client.publish_many([Draft(channel="c", data=n) for n in range(3)])
        clock.advance(0)
        await eventually(lambda: client.pending == 0)
        await client.publish("c", 4)
    assert [item.payload for item in node.published] == [b"0", b"1", b"2", b"4"]


async def test_an_answer_that_does_not_come_is_a_timeout(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.handlers[PublishRequest] = None
    async with make() as client:
        peer = await node.peer()
        publishing = asyncio.ensure_future(client.publish("c", 1, timeout_s=3))
        await peer.expect(PublishRequest)
        clock.advance(3)
        with pytest.raises(RequestTimeoutError):
            await publishing
        assert client.pending == 0


async def test_a_publish_that_was_cancelled_before_it_was_sent_is_not_sent(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        publishing = asyncio.ensure_future(client.publish("c", "cancelled"))
        await asyncio.sleep(0)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert client.pending == 0
        clock.advance(0)
        await client.publish("c", "kept")
    assert [item.payload for item in node.published] == [b"kept"]


async def test_closing_fails_what_still_waits_for_an_answer(make: Make, node: FakeNode) -> None:
    node.handlers[PublishRequest] = None
    client = make()
    await client.connect()
    peer = await node.peer()
    publishing = asyncio.ensure_future(client.publish("c", 1))
    await peer.expect(PublishRequest)
    await client.close()
    with pytest.raises(ArautoError) as caught:
        await publishing
    assert caught.value.code is Code.CLOSED_BY_CLIENT


async def test_a_slow_network_fills_the_bounded_queue_and_not_the_memory(
    make: Make, node: FakeNode
) -> None:
    async with make(tuning=Tuning(pending_bytes_max=1_000_000)) as client:
        peer = await node.peer()
        assert peer.transport is not None
        peer.transport.underlying_transport.pause_reading()
        refusal: ArautoError | None = None
        sent = 0
        while refusal is None and sent < 1_000:
            try:
                client.publish_nowait("c", b"x" * 60_000)
                sent += 1
            except ArautoError as error:
                refusal = error
            await asyncio.sleep(0)
        assert refusal is not None
        assert refusal.code is Code.TOO_MANY_PENDING
        peer.transport.underlying_transport.resume_reading()
        await client.publish("c", b"last")
        assert len(node.published) == sent + 1


async def test_presence_and_occupancy_are_asked_for(
    make: Make, node: FakeNode, flavour: str
) -> None:
    ana = Member(session="s", user="ana", joined_ms=1)
    node.handlers[PresenceRequest] = lambda peer, request: peer.send(
        Presence(id=request.id, channel=request.channel, members=(ana,), total=5)
    )
    node.handlers[OccupancyRequest] = lambda peer, request: peer.send(
        Occupancy(id=request.id, channel=request.channel, count=5)
    )
    async with make(flavour=flavour) as client:
        presence = await client.presence("room")
        assert (presence.members, presence.total) == ((ana,), 5)
        assert await client.occupancy("room") == 5


async def test_reading_is_asked_for_again_after_a_lost_connection(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        asking = asyncio.ensure_future(client.occupancy("room"))
        await peer.expect(OccupancyRequest)
        node.handlers[OccupancyRequest] = lambda peer, request: peer.send(
            Occupancy(id=request.id, channel=request.channel, count=5)
        )
        peer.drop()
        await states.reach(State.WAITING)
        clock.advance(0)
        assert await asking == 5


class Past:
    """Answers history requests from a list of offsets."""

    def __init__(self, node: FakeNode, last: int) -> None:
        self.asked: list[HistoryRequest] = []
        self.last = last
        node.handlers[HistoryRequest] = self.answer

    def answer(self, peer: Peer, request: HistoryRequest) -> None:
        self.asked.append(request)
        low = request.since.offset if request.since else 0
        high = request.until.offset if request.until else self.last + 1
        found = list(range(low + 1, high))
        if request.direction is Direction.BACKWARD:
            found.reverse()
        page = found[: request.limit]
        reply = HistoryReply(
            id=request.id,
            channel=request.channel,
            messages=tuple(message(request.channel, offset) for offset in page),
            more=len(found) > len(page),
            next=at(page[-1]) if page else None,
            complete=request.since is None,
            serial=at(self.last),
        )
        peer.send(reply)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [(Direction.FORWARD, list(range(1, 26))), (Direction.BACKWARD, list(range(25, 0, -1)))],
)
async def test_history_goes_through_all_pages_either_way(
    make: Make, node: FakeNode, flavour: str, direction: Direction, expected: list[int]
) -> None:
    past = Past(node, 25)
    async with make(flavour=flavour) as client:
        history = client.history("c", direction=direction, page_len=10)
        assert [m.serial.offset async for m in history] == expected
    assert len(past.asked) == 3


async def test_only_a_few_pages_are_asked_for_at_a_time(make: Make, node: FakeNode) -> None:
    """A node refuses more, and a slow reader of one must not keep the others waiting."""
    node.handlers[HistoryRequest] = None
    async with make() as client:
        peer = await node.peer()
        readers = [asyncio.ensure_future(anext(aiter(client.history("c")))) for _ in range(10)]
        for _ in range(4):
            await peer.expect(HistoryRequest)
        await client.publish("c", 1)
        assert peer.count(HistoryRequest) == 4
        past = Past(node, 3)
        for request in [r for r in peer.requests if isinstance(r, HistoryRequest)]:
            past.answer(peer, request)
        assert [(await reader).serial.offset for reader in readers] == [1] * 10


async def test_history_stops_at_its_limit(make: Make, node: FakeNode) -> None:
    past = Past(node, 100)
    async with make() as client:
        history = client.history("c", limit=12, page_len=10)
        assert len([m async for m in history]) == 12
        assert [m async for m in client.history("c", limit=0)] == []
    assert [request.limit for request in past.asked] == [10, 2]


async def test_history_comes_in_pages_that_say_whether_they_are_whole(
    make: Make, node: FakeNode
) -> None:
    Past(node, 15)
    async with make() as client:
        history = client.history("c", page_len=10)
        pages = [page async for page in history.pages()]
        assert [(len(page.messages), page.complete) for page in pages] == [(10, True), (5, False)]
        assert (history.complete, pages[0].serial) == (False, at(15))


async def test_a_range_of_history_travels(make: Make, node: FakeNode) -> None:
    past = Past(node, 5)
    start = datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    async with make() as client:
        history = client.history("c", since=at(1), until=at(9), from_time=start, to_time=99)
        _ = [m async for m in history]
    [request] = past.asked
    assert (request.since, request.until) == (at(1), at(9))
    assert (request.from_ms, request.to_ms) == (1_704_164_645_678, 99)


async def test_a_time_without_a_zone_is_refused(make: Make, node: FakeNode) -> None:
    async with make() as client:
        with pytest.raises(ArautoError) as caught:
            client.history("c", from_time=datetime(2024, 1, 1))  # noqa: DTZ001 - the point
        assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "from_time")


@pytest.mark.parametrize(("option", "value"), [("limit", -1), ("page_len", 0), ("page_len", 5_000)])
async def test_impossible_pages_are_refused(
    make: Make, node: FakeNode, option: str, value: int
) -> None:
    async with make() as client:
        with pytest.raises(ArautoError) as caught:
            client.history("c", **{option: value})  # type: ignore[arg-type]
        assert caught.value.field == option


async def test_a_node_that_promises_more_and_stands_still_does_not_loop(
    make: Make, node: FakeNode
) -> None:
    node.handlers[HistoryRequest] = lambda peer, request: peer.send(
        HistoryReply(id=request.id, channel="c", messages=(), more=True, next=at(1))
    )
    async with make() as client:
        assert [m async for m in client.history("c")] == []


async def test_a_change_that_may_have_been_made_is_not_sent_twice(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    """Only requests that do no harm when repeated are repeated; a document change is not one."""
    node.handlers[DocumentGetRequest] = lambda peer, request: peer.send(
        DocumentGetReply(id=request.id, channel=request.channel, version=0, value=None)
    )
    states = States()
    async with make(on_state_change=states) as client, client.document("doc:a") as document:
        peer = await node.peer()
        changing = asyncio.ensure_future(document.change([{"op": "add", "path": "/a", "value": 1}]))
        await peer.expect(DocumentChangeRequest)
        peer.drop()
        with pytest.raises(ConnectionLostError):
            await changing
        await states.reach(State.WAITING)
        clock.advance(0)
        second = await node.peer()
        await states.reach(State.CONNECTED, 2)
        assert second.count(DocumentChangeRequest) == 0
