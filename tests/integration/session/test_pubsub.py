"""Publishing and subscribing through a real node."""

import pytest

from arauto.codec.events import (
    Ack,
    Echo,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Join,
    Leave,
    Ping,
    Pong,
    Presence,
    Publication,
    SessionInfo,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import Code
from arauto.model import Direction, Serial
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.session.talk import FLAVOURS, publish, subscribed
from tests.integration.wire import connect


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_message_reaches_every_subscriber_of_either_flavour(
    node: RunningNode, flavour: str
) -> None:
    publisher = await connect(node.url, flavour=flavour)
    readers = [await connect(node.url, flavour=f) for f in FLAVOURS]
    for reader in readers:
        await subscribed(reader, "stock:42")
    ack = await publisher.ask(publish("stock:42", b"a", b"b", id=7), Ack)
    assert [result.error for result in ack.results] == [None, None]
    first, second = (result.serial for result in ack.results)
    assert first is not None
    assert second is not None
    assert (first.epoch, first.offset + 1) == (second.epoch, second.offset)
    for reader in readers:
        assert await reader.messages(2) == [b"a", b"b"]


async def test_session_info_comes_first_and_ping_is_answered(node: RunningNode) -> None:
    wire = await connect(node.url)
    info = await wire.next(SessionInfo)
    assert (info.hub, info.authenticated, info.allow_anonymous) == ("shop", False, True)
    assert (await wire.ask(Ping(id=5), Pong)).id == 5


async def test_hubs_with_the_same_channel_never_meet(node: RunningNode) -> None:
    ours = await connect(node.url, hub="shop")
    theirs = await connect(node.url, hub="shop2")
    for wire in (ours, theirs):
        await subscribed(wire, "stock:42", "*")
    await ours.ask(publish("stock:42", b"secret", id=1), Ack)
    await theirs.ask(publish("stock:42", b"own", id=1), Ack)
    assert await theirs.messages(1) == [b"own"]
    assert await ours.messages(1) == [b"secret"]
    assert not [e for w in (ours, theirs) for e in w.events if isinstance(e, Publication)]


async def test_a_returning_subscriber_gets_exactly_what_it_missed(node: RunningNode) -> None:
    publisher = await connect(node.url)
    ack = await publisher.ask(publish("news", b"1", b"2", b"3", id=1), Ack)
    seen = ack.results[0].serial
    assert seen is not None
    reader = await connect(node.url)
    item = SubscribeItem(channel="news", since=seen)
    reply = await reader.ask(SubscribeRequest(id=2, items=(item,)), SubscribeReply)
    assert reply.results[0].recovered
    assert reply.results[0].recovered_count == 2
    await publisher.ask(publish("news", b"4", id=3), Ack)
    assert await reader.messages(3) == [b"2", b"3", b"4"]


async def test_a_place_of_another_epoch_is_not_recovered_and_says_so(node: RunningNode) -> None:
    publisher = await connect(node.url)
    await publisher.ask(publish("news", b"1", id=1), Ack)
    reader = await connect(node.url)
    item = SubscribeItem(channel="news", since=Serial(1, 0))
    reply = await reader.ask(SubscribeRequest(id=2, items=(item,)), SubscribeReply)
    assert not reply.results[0].recovered


async def test_more_than_live_history_holds_is_not_recovered(start_node: StartNode) -> None:
    node = await start_node(
        hub={
            "defaults": {"defaultPublic": True},
            "defaultRules": {"clientPublish": True, "liveHistoryLen": 2},
        }
    )
    publisher = await connect(node.url)
    ack = await publisher.ask(publish("news", b"1", b"2", b"3", b"4", id=1), Ack)
    reader = await connect(node.url)
    too_old, in_reach = ack.results[0].serial, ack.results[1].serial
    items = (SubscribeItem(channel="news", since=too_old),)
    reply = await reader.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    assert not reply.results[0].recovered
    other = await connect(node.url)
    items = (SubscribeItem(channel="news", since=in_reach),)
    reply = await other.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    assert reply.results[0].recovered
    assert await other.messages(2) == [b"3", b"4"]


async def test_an_idempotency_key_delivers_once_and_answers_with_the_first_serial(
    node: RunningNode,
) -> None:
    wire = await connect(node.url)
    await subscribed(wire, "orders")
    first = await wire.ask(publish("orders", b"x", id=1, idempotency_key="k"), Ack)
    again = await wire.ask(publish("orders", b"x", id=2, idempotency_key="k"), Ack)
    assert again.results[0].duplicate
    assert again.results[0].serial == first.results[0].serial
    await wire.ask(publish("orders", b"end", id=3), Ack)
    assert await wire.messages(2) == [b"x", b"end"]


async def test_the_sender_is_left_out_live_in_history_and_in_recovery(node: RunningNode) -> None:
    sender, other = await connect(node.url), await connect(node.url)
    for wire in (sender, other):
        reply = await subscribed(wire, "chat")
    start = reply.results[0].serial
    await sender.ask(publish("chat", b"mine", id=1, echo=Echo.NOT_SESSION), Ack)
    await sender.ask(publish("chat", b"all", id=2), Ack)
    assert await other.messages(2) == [b"mine", b"all"]
    assert await sender.messages(1) == [b"all"]
    past = await sender.ask(HistoryRequest(id=3, channel="chat"), HistoryReply)
    assert [m.payload for m in past.messages] == [b"all"]
    await sender.ask(UnsubscribeRequest(id=4, channels=("chat",)), UnsubscribeReply)
    items = (SubscribeItem(channel="chat", since=start),)
    reply = await sender.ask(SubscribeRequest(id=5, items=items), SubscribeReply)
    assert reply.results[0].recovered
    assert await sender.messages(1) == [b"all"]
    assert not [e for e in sender.events if isinstance(e, Publication)]


async def test_history_is_paged_both_ways(node: RunningNode) -> None:
    wire = await connect(node.url)
    await wire.ask(publish("log", *(b"%d" % n for n in range(5)), id=1), Ack)
    pages = []
    since = None
    while True:
        request = HistoryRequest(id=2, channel="log", since=since, limit=2)
        page = await wire.ask(request, HistoryReply)
        pages.append([m.payload for m in page.messages])
        since = page.next
        if not page.more:
            break
    assert pages == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    back = HistoryRequest(id=3, channel="log", limit=2, direction=Direction.BACKWARD)
    page = await wire.ask(back, HistoryReply)
    assert [m.payload for m in page.messages] == [b"4", b"3"]
    assert page.more


async def test_patterns_and_topics_cover_channels_without_duplicates(node: RunningNode) -> None:
    reader, publisher = await connect(node.url), await connect(node.url)
    await subscribed(reader, "weather:*", "weather:#:wind", "weather:pt:wind", "/sea")
    await publisher.ask(publish("weather:pt:wind", b"1", id=1), Ack)
    await publisher.ask(publish("/sea/atlantic/waves", b"2", id=2), Ack)
    await publisher.ask(publish("weathervane", b"no", id=3), Ack)
    await publisher.ask(publish("/seaside", b"no", id=4), Ack)
    await publisher.ask(publish("weather:es", b"3", id=5), Ack)
    assert await reader.messages(3) == [b"1", b"2", b"3"]
    assert not [e for e in reader.events if isinstance(e, Publication)]


async def test_a_topic_subscriber_first_gets_the_last_message_of_each_topic_below(
    node: RunningNode,
) -> None:
    publisher, reader = await connect(node.url), await connect(node.url)
    await publisher.ask(publish("/a/b", b"old", b"last-b", id=1), Ack)
    await publisher.ask(publish("/a/c", b"last-c", id=2), Ack)
    await subscribed(reader, "/a")
    assert sorted(await reader.messages(2)) == [b"last-b", b"last-c"]


async def test_a_pattern_recovers_every_channel_it_covers(node: RunningNode) -> None:
    publisher, reader = await connect(node.url), await connect(node.url)
    await publisher.ask(publish("w:a", b"a1", id=1), Ack)
    positions = (await subscribed(reader, "w:*")).results[0].positions
    assert positions is not None
    await reader.close()
    await publisher.ask(publish("w:a", b"a2", id=2), Ack)
    await publisher.ask(publish("w:b", b"b1", id=3), Ack)
    back = await connect(node.url)
    item = SubscribeItem(channel="w:*", positions=positions)
    reply = await back.ask(SubscribeRequest(id=4, items=(item,)), SubscribeReply)
    assert reply.results[0].recovered
    assert sorted(await back.messages(2)) == [b"a2", b"b1"]


async def test_presence_shows_who_joins_and_leaves_also_through_patterns(
    node: RunningNode,
) -> None:
    await node.set("rules", "shop", "seen", Rules(public=True, presence=True, client_publish=True))
    await node.set("namespace", "shop", "room", NamespaceSettings(rules="seen"))
    first, second = await connect(node.url), await connect(node.url)
    ids = [(await wire.next(SessionInfo)).session for wire in (first, second)]
    await subscribed(first, "room:1")
    assert [m.session for m in (await first.next(Presence)).members] == [ids[0]]
    await subscribed(second, "room:*")
    assert (await first.next(Join)).member.session == ids[1]
    assert {m.session for m in (await second.next(Presence)).members} == set(ids)
    await second.close()
    assert (await first.next(Leave)).member.session == ids[1]


async def test_a_rule_change_evicts_subscribers_it_no_longer_allows(node: RunningNode) -> None:
    wire = await connect(node.url)
    await subscribed(wire, "room:1", "other")
    await node.set("rules", "shop", "closed", Rules(public=False))
    await node.set("namespace", "shop", "room", NamespaceSettings(rules="closed"))
    ended = await wire.next(UnsubscribeReply)
    assert ended.channels == ("room:1",)
    assert ended.error is not None
    assert ended.error.code == Code.SUBSCRIBE_DENIED
    publisher = await connect(node.url)
    ack = await publisher.ask(publish("room:1", b"x", id=1), Ack)
    assert ack.results[0].error is not None
    assert ack.results[0].error.code == Code.PUBLISH_DENIED


@pytest.mark.parametrize(
    ("quotas", "code"),
    [
        (Quotas(message_bytes_max=3), Code.MESSAGE_TOO_LARGE),
        (Quotas(channels_max=1), Code.TOO_MANY_CHANNELS),
        (Quotas(messages_per_s=1), Code.HUB_RATE_LIMITED),
    ],
)
async def test_each_hub_quota_refuses_a_publish_with_its_own_code(
    node: RunningNode, quotas: Quotas, code: Code
) -> None:
    wire = await connect(node.url)
    await subscribed(wire, "a")
    await node.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
    acks = [await wire.ask(publish(c, b"1234", id=n + 1), Ack) for n, c in enumerate("abab")]
    codes = {r.error.code for ack in acks for r in ack.results if r.error is not None}
    assert codes == {code}


async def test_session_and_subscription_quotas_have_their_own_codes(node: RunningNode) -> None:
    quotas = Quotas(sessions_max=1, subscriptions_per_session_max=1)
    wire = await connect(node.url)
    await wire.next(SessionInfo)
    await node.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
    second = await connect(node.url)
    assert (await second.next(ErrorEvent)).code == Code.TOO_MANY_SESSIONS
    reply = await subscribed(wire, "a", "b")
    assert reply.results[0].error is None
    assert reply.results[1].error is not None
    assert reply.results[1].error.code == Code.TOO_MANY_SUBSCRIPTIONS


async def test_the_session_rate_limit_spares_heartbeats(node: RunningNode) -> None:
    wire = await connect(node.url)
    await wire.next(SessionInfo)
    quotas = Quotas(session_messages_per_s=5)
    await node.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
    for n in range(20):
        wire.send(publish("a", b"x", id=n + 1))
    assert (await wire.next(ErrorEvent)).code == Code.RATE_LIMITED
    assert (await wire.ask(Ping(id=99), Pong)).id == 99


async def test_an_expired_message_is_neither_recovered_nor_in_history(node: RunningNode) -> None:
    wire = await connect(node.url)
    reply = await subscribed(wire, "flash")
    await wire.ask(publish("flash", b"gone", id=1, ttl_ms=1), Ack)
    await wire.ask(publish("flash", b"stays", id=2), Ack)
    start = reply.results[0].serial
    # The first message's millisecond has certainly passed once a later one has a later time.
    while True:
        page = await wire.ask(HistoryRequest(id=3, channel="flash"), HistoryReply)
        if len(page.messages) == 1:
            break
    assert page.messages[0].payload == b"stays"
    late = await connect(node.url)
    items = (SubscribeItem(channel="flash", since=start),)
    await late.ask(SubscribeRequest(id=4, items=items), SubscribeReply)
    assert await late.messages(1) == [b"stays"]


async def test_a_pattern_recovers_channels_the_session_already_holds_by_name(
    node: RunningNode,
) -> None:
    """A session that held `news` and brought an older place for `new*` was told `recovered` for nothing."""
    publisher, reader = await connect(node.url), await connect(node.url)
    began = (await subscribed(publisher, "new*")).results[0].positions
    assert began is not None
    ack = await publisher.ask(publish("news", b"1", b"2", id=1), Ack)
    seen = ack.results[0].serial
    assert seen is not None
    await subscribed(reader, "news")
    item = SubscribeItem(channel="new*", positions={**began, "news": seen})
    reply = await reader.ask(SubscribeRequest(id=2, items=(item,)), SubscribeReply)
    assert reply.results[0].recovered
    assert await reader.messages(1) == [b"2"]
