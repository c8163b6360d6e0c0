"""Subscriptions: delivery, recovery, gaps, slow consumers, and every way they can end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arauto.client import Client, Overflow, Received, SlowConsumerError, State, SubscriptionEvent
from arauto.codec.events import (
    ErrorEvent,
    Gap,
    HistoryReply,
    HistoryRequest,
    Join,
    Leave,
    Occupancy,
    Presence,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.model import JSON, TEXT, Member, Serial
from tests.unit.client.conftest import LoopClock, eventually
from tests.unit.client.fake_node import EPOCH, FakeNode, Peer, message
from tests.unit.client.test_client_connection import States

Make = Callable[..., Client]


def at(offset: int) -> Serial:
    return Serial(EPOCH, offset)


async def offsets(subscription: Any, count: int) -> list[int]:
    return [(await anext(subscription)).serial.offset for _ in range(count)]


async def test_messages_arrive_typed(make: Make, node: FakeNode, flavour: str) -> None:
    async with make(flavour=flavour) as client:
        subscription = await client.subscribe("stock:42").ready()
        peer = await node.peer()
        sent = [
            message("stock:42", 1, b'{"qty":3}', content_type=JSON, user="ana", session="s9"),
            message("stock:42", 2, "olá".encode(), content_type=TEXT, headers={"a": "b"}),
            message("stock:42", 3, b"\x00\xff", key="k", id="i", expires_ms=5, retain=True),
        ]
        peer.publish(*sent)
        first, second, third = [await anext(subscription) for _ in sent]
    assert isinstance(first, Received)
    assert (first.data, first.user, first.session) == ({"qty": 3}, "ana", "s9")
    assert (first.channel, first.serial, first.payload) == ("stock:42", at(1), b'{"qty":3}')
    assert (second.data, second.headers, first.headers) == ("olá", {"a": "b"}, {})
    assert (third.data, third.key, third.id, third.retained) == (b"\x00\xff", "k", "i", True)
    assert first.ts.timestamp() * 1000 == first.ts_ms == sent[0].ts_ms
    assert b"qty".decode() not in repr(first)


async def test_the_documented_one_liner_works(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        asyncio.get_running_loop().call_soon(
            lambda: asyncio.ensure_future(_publish_when_subscribed(peer, "c", 3))
        )
        seen = []
        async for received in client.subscribe("c"):
            seen.append(received.serial.offset)
            if len(seen) == 3:
                break
    assert seen == [1, 2, 3]


async def _publish_when_subscribed(peer: Peer, channel: str, count: int) -> None:
    await peer.expect(SubscribeRequest)
    peer.publish(*(message(channel, offset + 1) for offset in range(count)))


async def test_subscriptions_made_together_are_asked_for_in_one_request(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        made = [client.subscribe(f"c:{index}") for index in range(10)]
        for subscription in made:
            await subscription.ready()
        assert peer.count(SubscribeRequest) == 1


async def test_a_refused_subscription_raises_from_ready_and_from_iteration(
    make: Make, node: FakeNode
) -> None:
    def refuse(peer: Peer, request: SubscribeRequest) -> None:
        results = tuple(
            SubscribeResult(
                channel=item.channel, error=ErrorEvent(code=2005, message="no", field="channel")
            )
            for item in request.items
        )
        peer.send(SubscribeReply(id=request.id, results=results))

    node.handlers[SubscribeRequest] = refuse
    async with make() as client:
        subscription = client.subscribe("secret")
        for waiting in (subscription.ready(), anext(subscription)):
            with pytest.raises(ArautoError) as caught:
                await waiting
            assert caught.value.code is Code.SUBSCRIBE_DENIED
        node.handlers[SubscribeRequest] = node.on_subscribe
        await client.subscribe("secret").ready()


async def test_one_refused_request_does_not_sink_the_others(make: Make, node: FakeNode) -> None:
    def refuse_batches(peer: Peer, request: SubscribeRequest) -> None:
        if any(item.channel == "bad" for item in request.items):
            peer.send(ErrorEvent(id=request.id, code=1003, message="bad", field="items[1]"))
        else:
            node.on_subscribe(peer, request)

    node.handlers[SubscribeRequest] = refuse_batches
    async with make() as client:
        good, bad = client.subscribe("good"), client.subscribe("bad")
        await good.ready()
        with pytest.raises(ArautoError) as caught:
            await bad.ready()
        assert caught.value.code is Code.BAD_FIELD


@pytest.mark.parametrize("name", ["", "a b", "a:b#", "/a/", "x" * 256])
async def test_a_bad_name_is_refused_without_asking(make: Make, node: FakeNode, name: str) -> None:
    async with make() as client:
        with pytest.raises(ArautoError) as caught:
            client.subscribe(name)
        assert caught.value.code is Code.BAD_CHANNEL_NAME


async def test_a_name_is_subscribed_to_once_at_a_time(make: Make, node: FakeNode) -> None:
    async with make() as client:
        async with client.subscribe("c"):
            with pytest.raises(ArautoError) as caught:
                client.subscribe("c")
            assert caught.value.code is Code.ALREADY_SUBSCRIBED
        async with client.subscribe("c"):
            pass


async def test_leaving_the_block_unsubscribes_and_ends_iteration(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        async with client.subscribe("c") as subscription:
            peer.publish(message("c", 1))
            await eventually(lambda: subscription.queued == 1)
        assert (await peer.expect(UnsubscribeRequest)).channels == ("c",)
        assert [m.serial.offset async for m in subscription] == [1]
        peer.publish(message("c", 2))
        await client.publish("other", 1)
        assert subscription.queued == 0


async def test_closing_the_client_ends_iteration_quietly(make: Make, node: FakeNode) -> None:
    client = make()
    await client.connect()
    subscription = await client.subscribe("c").ready()
    waiting = asyncio.ensure_future(subscription.take())
    await asyncio.sleep(0)
    await client.close()
    assert await waiting == []
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)


async def test_a_subscription_the_node_ends_raises_its_reason(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1))
        error = ErrorEvent(code=2005, message="the rules changed")
        peer.send(UnsubscribeReply(channels=("c",), error=error))
        assert await offsets(subscription, 1) == [1]
        with pytest.raises(ArautoError) as caught:
            await anext(subscription)
        assert caught.value.code is Code.SUBSCRIBE_DENIED


async def test_cancelling_a_consumer_loses_no_message(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        waiting = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        waiting.cancel()
        peer.publish(message("c", 1))
        await eventually(lambda: subscription.queued == 1)
        assert await offsets(subscription, 1) == [1]


async def test_each_subscription_gets_what_its_pattern_covers_once(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        exact = client.subscribe("stock:1:eu")
        star, hash_, tree = (client.subscribe(name) for name in ("stock:*", "stock:#:us", "/a"))
        for subscription in (exact, star, hash_, tree):
            await subscription.ready()
        peer.publish(
            message("stock:1:eu", 1),
            message("stock:1:us", 1),
            message("/a/b/c", 1),
            message("/ab", 1),
        )
        await client.publish("x", 1)
        counts = [subscription.queued for subscription in (exact, star, hash_, tree)]
        assert counts == [1, 2, 1, 1]


async def test_after_a_reconnect_recovery_is_asked_for_and_nothing_comes_twice(
    make: Make, node: FakeNode, clock: LoopClock, flavour: str
) -> None:
    states = States()
    async with make(flavour=flavour, on_state_change=states) as client:
        first = await node.peer()
        subscription = await client.subscribe("c").ready()
        wide = await client.subscribe("c*").ready()
        first.publish(message("c", 1), message("c", 2))
        assert await offsets(subscription, 2) == [1, 2]
        first.drop()
        await states.reach(State.WAITING)

        def recover(peer: Peer, request: SubscribeRequest) -> None:
            [exact, pattern] = request.items
            assert exact.since == at(2)
            assert pattern.positions == {"c": at(2)}
            # A node may deliver live messages before its answer only if it restored the session.
            peer.publish(message("c", 4))
            results = (
                SubscribeResult(channel="c", serial=at(4), recovered=True, recovered_count=2),
                SubscribeResult(channel="c*", positions={"c": at(4)}, recovered=True),
            )
            peer.send(SubscribeReply(id=request.id, results=results))
            peer.publish(*(message("c", offset) for offset in (3, 4, 4, 5)))

        node.handlers[SubscribeRequest] = recover
        clock.advance(0)
        assert await offsets(subscription, 3) == [3, 4, 5]
        assert await offsets(wide, 5) == [1, 2, 3, 4, 5]
        assert subscription.recovered is True
        assert subscription.serial == at(5)
        assert not (await eventually_none(subscription))


async def eventually_none(subscription: Any) -> int:
    await asyncio.sleep(0)
    queued: int = subscription.queued
    return queued


async def test_a_place_kept_from_an_earlier_run_is_continued_from(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        client.subscribe("c", since=at(7))
        client.subscribe("d:*", since={"d:1": at(2)})
        request = await peer.expect(SubscribeRequest)
        assert request.items[0].since == at(7)
        assert request.items[1].positions == {"d:1": at(2)}


async def test_a_pattern_does_not_take_the_place_of_a_channel(make: Make, node: FakeNode) -> None:
    async with make() as client:
        for name in ("d:*", "/d"):
            with pytest.raises(ArautoError) as caught:
                client.subscribe(name, since=at(1))
            assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "since")


def _lose_recovery(node: FakeNode, upto: int) -> None:
    def answer(peer: Peer, request: SubscribeRequest) -> None:
        result = SubscribeResult(channel="c", serial=at(upto), recovered=False)
        peer.send(SubscribeReply(id=request.id, results=(result,)))
        peer.publish(message("c", upto + 1))

    node.handlers[SubscribeRequest] = answer


async def _reconnect(node: FakeNode, clock: LoopClock, states: States, peer: Peer) -> Peer:
    peer.drop()
    await states.reach(State.WAITING)
    clock.advance(0)
    return await node.peer()


async def test_what_could_not_be_recovered_is_told_in_place_and_as_an_event(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1))
        await anext(subscription)
        _lose_recovery(node, 9)
        await _reconnect(node, clock, states, peer)
        received = await anext(subscription)
        assert received.serial == at(10)
        [gap] = received.missed
        assert (gap.channel, gap.after, gap.upto) == ("c", at(1), at(9))
        assert subscription.recovered is False
        events = [event async for event in _first(subscription.events(), 3)]
        assert [type(event) for event in events] == [SubscribeResult, SubscribeResult, Gap]


async def _first(source: Any, count: int) -> Any:
    async for item in source:
        yield item
        count -= 1
        if not count:
            return


def _history_of(node: FakeNode, kept: range, *, complete: bool = True, page_len: int = 2) -> None:
    def answer(peer: Peer, request: HistoryRequest) -> None:
        low = request.since.offset if request.since else 0
        high = request.until.offset if request.until else 10**6
        found = [offset for offset in kept if low < offset < high]
        page = found[:page_len]
        peer.send(
            HistoryReply(
                id=request.id,
                channel=request.channel,
                messages=tuple(message(request.channel, offset) for offset in page),
                more=len(found) > page_len,
                next=at(page[-1]) if page else None,
                complete=complete,
            )
        )

    node.handlers[HistoryRequest] = answer


async def test_gaps_are_filled_from_history_in_place_where_asked_for(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.publish(message("c", 1))
        _lose_recovery(node, 6)
        _history_of(node, range(1, 7))
        await _reconnect(node, clock, states, peer)
        received = [await anext(subscription) for _ in range(7)]
        assert [m.serial.offset for m in received] == [1, 2, 3, 4, 5, 6, 7]
        assert not any(m.missed for m in received)


async def test_a_gap_that_cannot_be_filled_whole_is_told(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.publish(message("c", 1))
        _lose_recovery(node, 6)
        _history_of(node, range(5, 7), complete=False)
        await _reconnect(node, clock, states, peer)
        received = [await anext(subscription) for _ in range(4)]
        assert [m.serial.offset for m in received] == [1, 5, 6, 7]
        assert [len(m.missed) for m in received] == [0, 0, 0, 1]


async def test_a_gap_whose_history_is_refused_is_told(make: Make, node: FakeNode) -> None:
    def refuse(peer: Peer, request: HistoryRequest) -> None:
        peer.send(ErrorEvent(id=request.id, code=1012, message="no history here"))

    node.handlers[HistoryRequest] = refuse
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.send(Gap(channel="c", after=at(0), upto=at(3), reason="slow_consumer"))
        peer.publish(message("c", 4))
        received = await anext(subscription)
        assert (received.serial, len(received.missed)) == (at(4), 1)


async def test_a_gap_marker_of_a_keep_latest_channel_hides_nothing_that_follows(
    make: Make, node: FakeNode
) -> None:
    """Such a node drops superseded messages and then sends kept ones from inside the gap."""
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1))
        peer.send(Gap(channel="c", after=at(1), upto=at(5), reason="slow_consumer"))
        peer.publish(message("c", 3, key="b"), message("c", 6, key="a"))
        assert await offsets(subscription, 3) == [1, 3, 6]


async def test_filling_such_a_gap_delivers_each_message_once(make: Make, node: FakeNode) -> None:
    _history_of(node, range(1, 6))
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.publish(message("c", 1))
        peer.send(Gap(channel="c", after=at(1), upto=at(5), reason="slow_consumer"))
        peer.publish(message("c", 3, key="b"), message("c", 6, key="a"))
        assert await offsets(subscription, 6) == [1, 2, 3, 4, 5, 6]


async def test_a_second_gap_while_the_first_is_filled_waits_its_turn(
    make: Make, node: FakeNode
) -> None:
    _history_of(node, range(1, 20))
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.send(Gap(channel="c", after=at(0), upto=at(3), reason="slow_consumer"))
        peer.publish(message("c", 4))
        peer.send(Gap(channel="c", after=at(4), upto=at(7), reason="slow_consumer"))
        peer.publish(message("c", 8))
        assert await offsets(subscription, 8) == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_connection_lost_while_a_gap_is_filled_loses_nothing(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    node.handlers[HistoryRequest] = None
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", fill_gaps=True).ready()
        peer.publish(message("c", 1))
        peer.send(Gap(channel="c", after=at(1), upto=at(3), reason="slow_consumer"))
        peer.publish(message("c", 4))
        await peer.expect(HistoryRequest)
        _history_of(node, range(1, 6))
        _lose_recovery(node, 5)
        await _reconnect(node, clock, states, peer)
        assert await offsets(subscription, 6) == [1, 2, 3, 4, 5, 6]


async def test_a_consumer_that_is_too_slow_gets_what_is_queued_and_then_the_error(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", queue_len_max=3).ready()
        peer.publish(*(message("c", offset) for offset in range(1, 6)))
        assert (await peer.expect(UnsubscribeRequest)).channels == ("c",)
        assert await offsets(subscription, 3) == [1, 2, 3]
        with pytest.raises(SlowConsumerError) as caught:
            await anext(subscription)
        assert caught.value.code is Code.SLOW_CONSUMER
        await client.subscribe("c", since=at(3)).ready()


async def test_the_queue_is_bounded_in_bytes_too(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", queue_bytes_max=100).ready()
        peer.publish(*(message("c", offset, b"x" * 60) for offset in (1, 2)))
        await peer.expect(UnsubscribeRequest)
        with pytest.raises(SlowConsumerError):
            _ = [m async for m in subscription]


async def test_dropping_the_oldest_says_what_was_dropped(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = client.subscribe("c*", queue_len_max=3, overflow=Overflow.DROP_OLDEST)
        await subscription.ready()
        peer.publish(*(message("c", offset) for offset in range(1, 10)))
        peer.publish(message("c2", 1))
        await eventually(lambda: subscription.dropped == 7)
        received = await subscription.take()
        assert [(m.channel, m.serial.offset) for m in received] == [("c", 8), ("c", 9), ("c2", 1)]
        [gap] = received[0].missed
        assert (gap.after, gap.upto, gap.reason) == (at(0), at(7), "client_queue")
        assert not received[1].missed
        announced = [event async for event in _first(subscription.events(), 2)]
        assert isinstance(announced[1], Gap)


async def test_presence_and_occupancy_reach_events_and_the_callback(
    make: Make, node: FakeNode, flavour: str
) -> None:
    told: list[SubscriptionEvent] = []
    ana = Member(session="s1", user="ana", joined_ms=5, extra={"name": "Ana"})
    sent: list[Any] = [
        Presence(channel="room", members=(ana,), total=1),
        Join(channel="room", member=ana),
        Occupancy(channel="room", count=2),
        Leave(channel="room", member=ana),
    ]
    async with make(flavour=flavour) as client:
        peer = await node.peer()
        subscription = await client.subscribe("room", on_event=told.append).ready()
        peer.send(*sent)
        events = [event async for event in _first(subscription.events(), 5)]
    assert events[1:] == sent
    assert told == events


async def test_a_failing_event_callback_does_not_stop_delivery(make: Make, node: FakeNode) -> None:
    def fail(event: SubscriptionEvent) -> None:
        raise ValueError("mine")

    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c", on_event=fail).ready()
        peer.publish(message("c", 1))
        assert await offsets(subscription, 1) == [1]


async def test_events_nobody_takes_are_bounded(make: Make, node: FakeNode) -> None:
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("room").ready()
        peer.send(*(Occupancy(channel="room", count=count) for count in range(1_500)))
        await eventually(lambda: subscription.events_dropped == 501)


async def test_a_retained_message_older_than_the_subscription_is_delivered(
    make: Make, node: FakeNode
) -> None:
    node.offsets["c"] = 9
    async with make() as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 4, retain=True), message("c", 10))
        assert await offsets(subscription, 2) == [4, 10]


@pytest.mark.parametrize("fill_gaps", [False, True])
async def test_a_start_from_a_place_that_is_not_recovered_delivers_the_retained_message(
    make: Make, node: FakeNode, fill_gaps: bool
) -> None:
    node.offsets["c"] = 9
    _lose_recovery(node, 9)
    _history_of(node, range(0), complete=False)
    async with make() as client:
        peer = await node.peer()
        subscription = client.subscribe("c", since=Serial(EPOCH - 2, 3), fill_gaps=fill_gaps)
        await subscription.ready()
        assert subscription.recovered is False
        peer.publish(message("c", 4, retain=True))
        first, second = await anext(subscription), await anext(subscription)
    # The node publishes before it greets.
    assert [first.serial, second.serial] == [at(10), at(4)]
    assert [gap.upto for gap in first.missed] == [at(9)]


async def test_a_subscription_refused_for_now_after_a_reconnect_is_asked_for_again(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()

        def busy(peer: Peer, request: SubscribeRequest) -> None:
            peer.send(ErrorEvent(id=request.id, code=3000, message="slow down", retryable=True))

        node.handlers[SubscribeRequest] = busy
        second = await _reconnect(node, clock, states, peer)
        await second.expect(SubscribeRequest)
        await eventually(lambda: clock.pending_timers == 2)
        node.handlers[SubscribeRequest] = node.on_subscribe
        clock.advance(1)
        await second.expect(SubscribeRequest)
        second.publish(message("c", 1))
        assert await offsets(subscription, 1) == [1]


async def test_a_subscription_the_node_still_holds_is_left_and_entered_again(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    held = True

    def answer(peer: Peer, request: SubscribeRequest) -> None:
        if held:
            error = ErrorEvent(code=1009, message="already")
            result = SubscribeResult(channel="c", error=error)
        else:
            result = SubscribeResult(channel="c", serial=at(2), recovered=True)
        peer.send(SubscribeReply(id=request.id, results=(result,)))
        if not held:
            peer.publish(message("c", 2))

    def leave(peer: Peer, request: UnsubscribeRequest) -> None:
        nonlocal held
        held = False

    async with make(on_state_change=states) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        peer.publish(message("c", 1))
        node.handlers[SubscribeRequest] = answer
        node.handlers[UnsubscribeRequest] = leave
        second = await _reconnect(node, clock, states, peer)
        await second.expect(UnsubscribeRequest)
        assert await offsets(subscription, 2) == [1, 2]


async def test_the_user_channel_the_node_made_is_simply_iterated_over(
    make: Make, node: FakeNode
) -> None:
    async with make() as client:
        peer = await node.peer()
        made = SubscribeResult(channel="u:ana", serial=at(0))
        peer.send(SubscribeReply(id=0, results=(made,)))
        await client.publish("x", 1)
        subscription = await client.subscribe("u:ana").ready()
        peer.publish(message("u:ana", 1))
        assert await offsets(subscription, 1) == [1]
        assert peer.count(SubscribeRequest) == 0
        await subscription.unsubscribe()
        assert peer.count(UnsubscribeRequest) == 0
