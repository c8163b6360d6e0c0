"""Subscriptions in the journal: who listened to what from when to when, and never more than it bears."""

import msgspec

from arauto.codec.events import AuthReply, AuthRequest, UnsubscribeReply, UnsubscribeRequest
from arauto.model import Identity, When
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from arauto.storage.base import JournalEntry, Kind
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk

STORED = Rules(public=True, client_publish=True, store=When.MARKED)


async def rows(desk: Desk) -> list[JournalEntry]:
    await desk.settle()
    found = await desk.storage.journal.read(0, 100_000)
    return [row for _, row in found if row.kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE)]


def told(entries: list[JournalEntry]) -> list[tuple[str, str, bytes]]:
    return [(row.kind.name, row.channel, row.payload) for row in entries]


async def test_a_subscription_to_a_stored_channel_is_on_record_from_its_begin_to_its_end(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=STORED)
    desk.doorman.know("shop", b"pw", Identity(user="ana"))
    client = await desk.connect()
    await client.ask(AuthRequest(id=1, credentials=b"pw"), AuthReply)
    await client.subscribe("orders")
    desk.clock.advance(5)
    await client.ask(UnsubscribeRequest(id=2, channels=("orders",)), UnsubscribeReply)
    begin, end = [row for row in await rows(desk) if row.channel == "orders"]
    assert (begin.kind, end.kind) == (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE)
    assert end.ts_ms - begin.ts_ms == 5_000
    for row in (begin, end):
        assert (row.hub, row.session, row.user) == ("shop", client.session.id, "ana")
        assert row.payload == b"{}"


async def test_patterns_and_topics_are_on_record_whatever_the_rules(desk: Desk) -> None:
    client = await desk.connect()
    await client.subscribe("news:*", "/a/b", "plain")
    await client.ask(UnsubscribeRequest(id=2, channels=("news:*", "plain")), UnsubscribeReply)
    wide = b'{"pattern":true}'
    assert told(await rows(desk)) == [
        ("SUBSCRIBE", "news:*", wide),
        ("SUBSCRIBE", "/a/b", wide),
        ("UNSUBSCRIBE", "news:*", wide),
    ]


async def test_the_end_of_a_session_ends_its_subscriptions_without_rows_of_their_own(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=STORED)
    client = await desk.connect()
    await client.subscribe("a", "b", "c*")
    await client.drop()
    assert [row.kind for row in await rows(desk)] == [Kind.SUBSCRIBE] * 3


async def test_a_subscription_that_new_rules_end_is_on_record(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=STORED)
    client = await desk.connect()
    await client.subscribe("room:1")
    closed = Rules(public=False, store=When.ALL)
    await desk.set("rules", "shop", "closed", closed)
    await desk.set("namespace", "shop", "room", NamespaceSettings(rules="closed"))
    assert [row.kind for row in await rows(desk)] == [Kind.SUBSCRIBE, Kind.UNSUBSCRIBE]


async def test_a_refused_subscription_is_not_on_record(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=Rules(store=When.ALL), settings=HubSettings())
    client = await desk.connect()
    reply = await client.subscribe("orders")
    assert reply.results[0].error is not None
    assert await rows(desk) == []


async def test_a_storm_leaves_a_bounded_number_of_rows_and_the_next_one_counts_the_rest(
    make_desk: MakeDesk,
) -> None:
    settings = HubSettings(
        default_public=True, quotas=Quotas(subscriptions_per_session_max=0, channels_max=0)
    )
    desk = make_desk(rules=STORED, settings=settings)
    client = await desk.connect()
    for start in range(0, 1_200, 100):
        await client.subscribe(*(f"c{start + i}" for i in range(100)))
    assert len(await rows(desk)) == 500
    desk.clock.advance(1)
    await client.subscribe("late*")
    found = await rows(desk)
    assert len(found) == 501
    assert msgspec.json.decode(found[-1].payload) == {"pattern": True, "leftOut": 700}
    await client.subscribe("later")
    assert (await rows(desk))[-1].payload == b"{}"
