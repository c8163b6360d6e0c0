"""Patterns that cover very much: joined in slices, greeted no faster than read, left without a stall."""

import asyncio
from itertools import product

import msgspec
import pytest

from arauto.codec.events import (
    Ack,
    Publication,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import Code
from arauto.hub.environment import HubLimits
from arauto.hub.rules import HubState
from arauto.limits import (
    LOOSE_PATTERNS_LEN_MAX,
    PATTERN_FORMS_LEN_MAX,
    TRIED_PATTERNS_LEN_MAX,
)
from arauto.model import Identity, When
from arauto.names import ALL_CHANNELS
from arauto.session.greeter import Greeter
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe

RETAINING = Rules(client_publish=True, retain=When.ALL)
BUSY = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=0))
FEW = HubLimits(pattern_positions_len_max=600)


async def fill(desk: Desk, count: int, payload: bytes = b"x") -> Client:
    publisher = await desk.connect()
    for n in range(count):
        publisher.send(publish(f"room:{n:05}", payload))
    await desk.settle()
    return publisher


async def test_every_channel_of_a_very_wide_pattern_is_joined_and_left() -> None:
    desk = Desk(settings=BUSY, hub_limits=FEW)
    publisher = await fill(desk, 1_500)
    client = await desk.connect()
    [result] = (await client.subscribe("room:*")).results
    assert (result.error, result.positions) == (None, {}), "too many to be recovered"
    for n in (0, 700, 1_499, 2_000):
        await publisher.do(publish(f"room:{n:05}", b"%d" % n))
    assert client.payloads() == [b"0", b"700", b"1499", b"2000"]
    await client.ask(UnsubscribeRequest(id=3, channels=("room:*",)), UnsubscribeReply)
    for n in (0, 700, 1_499, 2_000):
        await publisher.do(publish(f"room:{n:05}", b"%d" % n))
    assert client.payloads() == []
    await desk.close()


async def test_a_very_wide_pattern_that_is_left_and_taken_again_at_once_is_whole() -> None:
    desk = Desk(settings=BUSY, hub_limits=FEW)
    publisher = await fill(desk, 1_500)
    client = await desk.connect()
    await client.subscribe("room:*")
    client.send(UnsubscribeRequest(channels=("room:*",)))
    await client.subscribe("room:*", id=4)
    for n in range(0, 1_500, 100):
        await publisher.do(publish(f"room:{n:05}", b"%d" % n))
    assert client.payloads() == [b"%d" % n for n in range(0, 1_500, 100)]
    await desk.close()


async def test_who_leaves_while_a_very_wide_pattern_is_joined_leaves_nothing_behind() -> None:
    desk = Desk(settings=BUSY, hub_limits=FEW)
    await fill(desk, 1_500)
    client = await desk.connect()
    client.send(SubscribeRequest(id=1, items=(SubscribeItem(channel="room:*"),)))
    await client.drop()
    hub = desk.directory.hubs["shop"]
    assert not any(channel.has(client.session.subscriber) for channel in hub.channels.values())
    assert len(hub.patterns) == 0
    await desk.close()


@pytest.mark.parametrize("turns", range(8))
async def test_who_leaves_while_the_channels_of_a_pattern_are_counted_leaves_nothing_behind(
    turns: int,
) -> None:
    """Seen: the pattern was held for a session that had ended, for as long as the hub was open."""
    desk = Desk(settings=BUSY, hub_limits=FEW)
    await fill(desk, 1_500)
    client = await desk.connect()
    client.send(SubscribeRequest(id=1, items=(SubscribeItem(channel="room:*"),)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await client.drop()
    hub = desk.directory.hubs["shop"]
    assert not any(channel.has(client.session.subscriber) for channel in hub.channels.values())
    assert (len(hub.patterns), hub.subscription_count) == (0, 0)
    await desk.close()


async def test_a_pattern_that_is_forbidden_while_its_channels_are_counted_is_not_held() -> None:
    desk = Desk(settings=BUSY, hub_limits=FEW)
    await fill(desk, 1_500)
    client = await desk.connect()
    client.send(subscribe("room:*", id=1))
    await asyncio.sleep(0)
    hub = desk.directory.hubs["shop"]
    hub.state = HubState(HubSettings(), {}, {}, {}, Rules(public=False))
    await desk.settle()
    [result] = client.take(SubscribeReply).results
    assert result.error is not None
    assert result.error.code == Code.SUBSCRIBE_DENIED
    assert (len(hub.patterns), hub.subscription_count) == (0, 0)
    await desk.close()


async def test_a_channel_that_opens_while_a_pattern_is_prepared_is_covered_and_recovered() -> None:
    desk = Desk(settings=BUSY, hub_limits=FEW)
    publisher = await fill(desk, 550)
    client = await desk.connect()
    [began] = (await client.subscribe("*x*")).results
    await client.do(UnsubscribeRequest(channels=("*x*",)))
    item = SubscribeItem(channel="*x*", positions=began.positions)
    client.send(SubscribeRequest(id=2, items=(item,)))
    publisher.send(publish("xx", b"meanwhile"))
    await desk.settle()
    [result] = client.take(SubscribeReply).results
    assert (result.recovered, client.payloads()) == (True, [b"meanwhile"])
    await publisher.do(publish("xx", b"later"))
    assert client.payloads() == [b"later"]
    await desk.close()


async def test_greetings_wait_for_a_client_that_does_not_read() -> None:
    """Seen: a request of 60 bytes brought 92 MB into memory."""
    desk = Desk(rules=RETAINING, settings=BUSY)
    await fill(desk, 400, b"x" * 10_000)
    client = await desk.connect(send_buffer_bytes=1_000_000)
    written = 0

    def write(data: bytes) -> None:
        nonlocal written
        written += len(data)
        client.session.outbox.pause()  # the transport is full at once

    client.session.outbox.write = write
    client.send(SubscribeRequest(id=1, items=(SubscribeItem(channel="room:*"),)))
    await desk.advance(5)
    assert written < 300_000, "what was not read was collected"
    assert client.session.outbox.backlog_bytes < 300_000
    assert client.is_connected()
    for _ in range(400):
        client.session.outbox.resume()
        await desk.advance(0.1, step_s=0.1)
    assert written > 400 * 10_000, "the rest did not come"
    await desk.close()


async def test_who_is_owed_greetings_and_reads_nothing_costs_nobody_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen: each such client was looked at fifty times a second."""
    desk = Desk(rules=RETAINING)
    await fill(desk, 300, b"x" * 1_000)
    client = await desk.connect()
    looked = 0
    go_on = Greeter._go_on

    def counted(self: Greeter) -> None:
        nonlocal looked
        looked += 1
        go_on(self)

    monkeypatch.setattr(Greeter, "_go_on", counted)
    client.session.outbox.pause()
    await client.do(SubscribeRequest(id=1, items=(SubscribeItem(channel="room:*"),)))
    await desk.advance(30)
    assert looked == 1
    client.session.outbox.resume()
    await desk.advance(1, step_s=0.1)
    assert len(client.payloads()) == 300
    await desk.close()


async def test_a_greeting_that_waited_is_not_older_than_what_came_meanwhile() -> None:
    desk = Desk(rules=RETAINING)
    publisher = await fill(desk, 300, b"x" * 1_000)
    client = await desk.connect()
    client.session.outbox.pause()
    await client.do(SubscribeRequest(id=1, items=(SubscribeItem(channel="room:*"),)))
    await desk.advance(1)
    await publisher.do(publish("room:00299", b"newer"))
    client.session.outbox.resume()
    await desk.advance(2, step_s=0.1)
    last = [
        event.message.payload
        for event in client.take_all(Publication)
        if event.message.channel == "room:00299"
    ]
    assert last == [b"newer"]
    await desk.close()


async def test_retained_messages_are_kept_from_those_they_were_kept_from_and_from_strangers() -> (
    None
):
    desk = Desk(rules=RETAINING, settings=HubSettings(default_public=False))
    desk.doorman.know("shop", b"ann", Identity(user="ann", grants=grants("room:*")))
    desk.doorman.know("shop", b"bob", Identity(user="bob", grants=grants("room:1", "room:*")))
    ann = await desk.connect(credentials=b"ann")
    await ann.do(publish("room:1", b"mine", echo=2))
    await ann.do(publish("room:2", b"ours"))
    again = await desk.connect(credentials=b"ann")
    await again.subscribe("room:1")
    await again.subscribe("room:*", id=2)
    assert again.payloads() == [b"ours"]
    bob = await desk.connect(credentials=b"bob")
    await bob.subscribe("room:*")
    assert bob.payloads() == [b"mine", b"ours"]
    await desk.close()


@pytest.mark.parametrize("store", [When.MARKED, When.ALL])
@pytest.mark.parametrize("pattern", ["room:*", "/room"])
async def test_a_pattern_is_told_of_what_was_not_stored_also_after_its_channel_opened_again(
    pattern: str, store: When
) -> None:
    """Seen: a channel that opened with older messages in the store made the hub forget that others, which
    the store never had, were lost with its closing."""
    channel = pattern.replace("*", "1") if "*" in pattern else "/room/1"
    stored = Rules(store=When.ALL, client_publish=True, retain=When.NEVER, idempotency_s=0)
    desk = Desk(rules=stored, hub_limits=HubLimits(channel_close_s=2))
    publisher = await desk.connect()
    await publisher.do(publish(channel, b"old"))
    unstored = msgspec.structs.replace(stored, store=When.MARKED)
    await desk.set("rules", "shop", "now", unstored)
    await desk.set("hub", "shop", "", HubSettings(default_public=True, default_rules="now"))
    await desk.advance(5)
    client = await desk.connect()
    [began] = (await client.subscribe(pattern)).results
    await client.drop()
    await publisher.do(publish(channel, b"m1", b"m2"))
    await desk.advance(5)
    later = msgspec.structs.replace(unstored, store=store, message_ttl_s=299)
    await desk.set("rules", "shop", "now", later)
    await publisher.do(publish(channel, b"m3"))
    back = await desk.connect()
    item = SubscribeItem(channel=pattern, positions=began.positions)
    request = SubscribeRequest(id=1, items=(item,))
    [result] = (await back.ask(request, SubscribeReply)).results
    assert not result.recovered
    assert channel in result.unrecovered
    await desk.close()


async def test_patterns_that_begin_with_a_wildcard_are_bounded_per_hub() -> None:
    desk = Desk()
    clients = [await desk.connect() for _ in range(2)]
    names = [f"*{n}x" for n in range(LOOSE_PATTERNS_LEN_MAX)]
    reply = await clients[0].subscribe(*names)
    assert all(result.error is None for result in reply.results)
    [refused] = (await clients[1].subscribe("*y")).results
    assert refused.error is not None
    assert refused.error.code == Code.TOO_MANY_SUBSCRIPTIONS
    [shared, all_of_it] = (await clients[1].subscribe("*1x", "*", id=2)).results
    assert (shared.error, all_of_it.error) == (None, None), (
        "one that is there already costs nothing"
    )
    await clients[0].drop()
    [taken] = (await clients[1].subscribe("*y", id=3)).results
    assert taken.error is None
    await desk.close()


async def test_patterns_that_have_to_be_tried_for_one_name_are_bounded_per_hub() -> None:
    """Those that begin with a letter took a channel's opening as long as those that begin with a wildcard."""
    desk = Desk()
    clients = [await desk.connect() for _ in range(2)]
    names = [f"a*{n}x" for n in range(TRIED_PATTERNS_LEN_MAX)]
    reply = await clients[0].subscribe(*names)
    assert all(result.error is None for result in reply.results)
    # One of another beginning that a name may have as well, and one that no such name has.
    [above, below] = (await clients[1].subscribe("*y", "abc*y")).results
    for result in (above, below):
        assert result.error is not None
        assert result.error.code == Code.TOO_MANY_SUBSCRIPTIONS
    [shared, beside] = (await clients[1].subscribe("a*1x", "b*y", id=2)).results
    assert (shared.error, beside.error) == (None, None)
    [segments, tail] = (await clients[1].subscribe("a:#:b", "abc*", id=3)).results
    assert (segments.error, tail.error) == (None, None), "these are looked up, not tried"
    await desk.close()


async def test_combinations_of_places_in_which_patterns_have_hashes_are_bounded_per_hub() -> None:
    desk = Desk()
    clients = [await desk.connect() for _ in range(2)]
    names = [":".join((*head, "#")) for head in product("#b", repeat=9)]
    assert len(names) == PATTERN_FORMS_LEN_MAX
    reply = await clients[0].subscribe(*names)
    assert all(result.error is None for result in reply.results)
    for result in (await clients[1].subscribe("a:#", "#:a*")).results:
        assert result.error is not None
        assert result.error.code == Code.TOO_MANY_SUBSCRIPTIONS
    like_others = [name.replace("b", "c") for name in names[:-1]]
    reply = await clients[1].subscribe(*like_others, "a*", "*:a", "/a", id=2)
    assert all(result.error is None for result in reply.results)
    await clients[0].drop()
    await clients[1].drop()
    again = await desk.connect()
    assert (await again.subscribe("a:#")).results[0].error is None
    await desk.close()


async def test_a_pattern_has_a_few_hashes_only() -> None:
    desk = Desk()
    client = await desk.connect()
    [taken, refused] = (await client.subscribe("a" + ":#" * 16, "b" + ":#" * 17)).results
    assert taken.error is None
    assert refused.error is not None
    assert refused.error.code == Code.BAD_CHANNEL_NAME
    await desk.close()


async def test_a_hub_setting_that_closes_channels_closes_them_for_patterns_too() -> None:
    """What a pattern delivers depends on the hub's settings, not only on a channel's rules."""
    desk = Desk()
    client, publisher = await desk.connect(), await desk.connect()
    desk.doorman.know("shop", b"ann", Identity(user="ann", grants=grants("room:*")))
    ann = await desk.connect(credentials=b"ann")
    await client.subscribe("room:*")
    await ann.subscribe("room:*")
    await ann.do(publish("room:1", b"1"))
    assert (client.payloads(), ann.payloads()) == ([b"1"], [b"1"])
    closed = msgspec.structs.replace(HubSettings(), default_public=False)
    await desk.set("hub", "shop", "", closed)
    await ann.do(publish("room:1", b"2", id=9))
    ann.take(Ack)
    assert (client.payloads(), ann.payloads()) == ([], [b"2"])
    await publisher.drop()
    await desk.close()


@pytest.mark.parametrize("name", ["room:*", "/t"])
async def test_an_answer_holds_the_place_to_come_back_with_even_if_nothing_is_open(
    name: str,
) -> None:
    desk = Desk()
    client = await desk.connect()
    [result] = (await client.subscribe(name)).results
    assert result.positions is not None
    assert list(result.positions) == [ALL_CHANNELS]
    await desk.close()
