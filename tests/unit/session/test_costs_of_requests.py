"""A request takes tokens of the session's rate by its items and bytes, so that work is what is limited."""

import asyncio
import re
from collections.abc import Iterable
from itertools import pairwise

import pytest

from arauto import names
from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
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
    PresenceRequest,
    PublishItem,
    PublishRequest,
    Request,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.codec.proto import ProtoCodec
from arauto.errors import ArautoError, Code
from arauto.hub.environment import HubLimits
from arauto.hub.refusals import Asker
from arauto.model import Identity, Serial, When
from arauto.names import ALL_CHANNELS
from arauto.session.oneshot import publish_all
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe

RATE = 100
SETTINGS = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=RATE))
BIG = DocumentChangeRequest(
    id=1,
    channel="doc:1",
    operations=(Operation(op="add", path="/a", value=[b"x" * 1_000] * 40),),
)


def left(client: Client) -> int:
    """The tokens that the session has left."""
    bucket = client.session.bucket
    now_s = client.desk.clock.monotonic_s()
    return next(n for n in range(RATE, -10 * RATE - 1, -1) if not bucket.lacks(now_s, n))


@pytest.mark.parametrize(
    ("request_", "cost"),
    [
        (Ping(id=1), 0),
        (publish("a", b"x"), 1),
        (publish("a", b"x" * 4_000), 1),
        (publish("a", b"x" * 40_000), 10),
        (publish("a", *[b""] * 10), 1),
        (publish("a", *[b""] * 1_000), 100 + 1),
        (subscribe(*(f"room:{n}" for n in range(50))), 5),
        (BIG, 1 + 9 + 78),
    ],
    ids=["ping", "small", "4 KB", "40 KB", "10 items", "1,000 items", "50 channels", "document"],
)
async def test_a_request_costs_by_its_items_and_bytes(
    make_desk: MakeDesk, request_: Request, cost: int
) -> None:
    client = await make_desk(settings=SETTINGS).connect()
    client.send(request_)
    assert RATE - left(client) == cost


async def test_what_a_request_costs_above_its_burst_is_owed(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    await client.ask(publish("a", *[b""] * 1_000, id=1), Ack)
    assert left(client) == -1
    assert (await client.ask(publish("a", b"", id=2), ErrorEvent)).code == Code.RATE_LIMITED
    assert (await client.ask(Ping(id=3), Pong)).id == 3
    desk.clock.advance(0.02)
    await client.ask(publish("a", b"", id=4), Ack)


async def test_a_large_request_that_cannot_be_paid_is_not_decoded(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    client.session.bucket.owe(RATE)

    def decode(data: bytes) -> Request:
        raise AssertionError("it was decoded")

    client.session._decode = decode
    error = await client.ask(publish("a", b"x" * 5_000, id=7), ErrorEvent)
    assert (error.code, error.id) == (Code.RATE_LIMITED, 7)


async def test_a_large_request_that_cannot_be_read_costs_its_bytes(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    client.session.receive(b"\xff" * 40_000)
    assert RATE - left(client) == 10
    with pytest.raises(ArautoError):
        ProtoCodec().decode_request(b"\xff" * 40_000)


async def test_a_subscription_costs_the_members_it_is_shown(make_desk: MakeDesk) -> None:
    """Else who came and went all the time would have them told for the price of a name."""
    desk = make_desk(settings=SETTINGS, rules=Rules(public=True, presence=True))
    clients = [await desk.connect() for _ in range(101)]
    for client in clients:
        await client.subscribe("room:1")
    assert RATE - left(clients[-1]) == 1 + 10
    await clients[0].subscribe("room:*")  # it is there already
    assert RATE - left(clients[0]) == 2
    late = await desk.connect()
    await late.subscribe("room:*")
    assert RATE - left(late) == 1 + 10


async def test_a_subscription_costs_the_bytes_it_is_sent_again(make_desk: MakeDesk) -> None:
    rules = Rules(public=True, client_publish=True, live_history_len=100)
    desk = make_desk(settings=SETTINGS, rules=rules)
    client = await desk.connect()
    begin = client.session.hub.channel("room:1").serial  # type: ignore[union-attr]
    await client.do(publish("room:1", *[b"x" * 1_000] * 90))
    desk.clock.advance(2)
    reply = await client.subscribe("room:1", since=begin)
    assert reply.results[0].recovered_count == 90
    assert RATE - left(client) == 1 + (90_000 >> 12)


@pytest.mark.parametrize("positions_len", [10_000, 200], ids=["at once", "slice by slice"])
async def test_a_pattern_costs_the_channels_it_covers(
    make_desk: MakeDesk, positions_len: int
) -> None:
    """Else one that covers very many could be joined and left all the time."""
    limits = HubLimits(pattern_positions_len_max=positions_len)
    desk = make_desk(settings=SETTINGS, hub_limits=limits)
    client = await desk.connect()
    for n in range(600):
        client.session.hub.channel(f"room:{n}")
    reply = await client.ask(subscribe("hall:*", "room:*"), SubscribeReply)
    assert all(result.error is None for result in reply.results)
    assert RATE - left(client) == 1 + 600 // 20


@pytest.mark.parametrize(
    ("pattern", "tokens"),
    [("room:*:" + "x" * 100, 1 + 107 // 8), ("room:#:" + "x" * 100, 0), ("room:xx*", 0)],
)
async def test_a_pattern_that_has_to_be_tried_costs_its_length(
    make_desk: MakeDesk, pattern: str, tokens: int
) -> None:
    """Seen: ever new ones, each of which takes a millisecond to compile, cost next to nothing."""
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    assert (await client.subscribe(pattern)).results[0].error is None
    assert RATE - left(client) == 1 + tokens


@pytest.mark.parametrize("fails", [False, True])
async def test_a_change_of_a_document_costs_the_values_it_visits_also_if_it_fails(
    make_desk: MakeDesk, fails: bool
) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    await client.do(
        DocumentChangeRequest(
            id=1, channel="doc:1", operations=(Operation(op="add", path="/a", value=[0] * 1_000),)
        )
    )
    desk.clock.advance(2)
    copies = [Operation(op="copy", path=f"/{n}", source="/a") for n in range(4)]
    if fails:
        copies.append(Operation(op="test", path="/a", value=1))
    await client.do(DocumentChangeRequest(id=2, channel="doc:1", operations=tuple(copies)))
    if fails:
        assert client.take(ErrorEvent).code == Code.TEST_FAILED
    assert RATE - left(client) == 1 + (4 * 2 * 1_001 >> 8)


async def test_reading_a_large_document_costs_its_bytes(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    await client.ask(BIG, DocumentChangeReply)
    desk.clock.advance(2)
    for id in range(10):
        client.send(DocumentGetRequest(id=id + 1, channel="doc:1"))
    await desk.settle()
    assert RATE - left(client) == 10 * (1 + 9)
    assert len(client.take_all(DocumentGetReply)) == 10
    assert (
        await client.ask(DocumentGetRequest(id=99, channel="doc:1"), ErrorEvent)
    ).code == Code.RATE_LIMITED


async def test_a_page_of_history_costs_its_bytes(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    await client.do(publish("log", b"x" * 40_000, b"x" * 40_000))
    desk.clock.advance(2)
    page = await client.ask(HistoryRequest(id=1, channel="log"), HistoryReply)
    assert len(page.messages) == 2
    assert RATE - left(client) == 1 + 80_000 // 4_096


CLOSED = HubSettings(quotas=Quotas(session_messages_per_s=RATE))


async def with_grants(desk: Desk, patterns: Iterable[str]) -> Client:
    desk.doorman.know("shop", b"ann", Identity("ann", grants(*patterns)))
    client = await desk.connect(credentials=b"ann")
    client.inbox.clear()
    return client


@pytest.mark.parametrize("wanted", ["{}*" + "a" * 200, "{}" + "a" * 200], ids=["wide", "plain"])
async def test_what_grants_take_to_be_tried_is_charged_and_ends_a_request_that_takes_too_much(
    make_desk: MakeDesk, wanted: str
) -> None:
    """Seen: a hundred patterns against a hundred grants took 17 seconds, for eleven tokens."""
    desk = make_desk(settings=CLOSED)
    client = await with_grants(desk, (f"*{'a' * 120}b*{'a' * 100}{n}" for n in range(100)))
    names = [wanted.format(f"b{n}") for n in range(1_000)]
    results = (await client.ask(subscribe(*names), SubscribeReply)).results
    codes = [result.error.code for result in results if result.error is not None]
    denied = codes.index(Code.RATE_LIMITED)
    assert set(codes[:denied]) == {Code.SUBSCRIBE_DENIED}
    assert set(codes[denied:]) == {Code.RATE_LIMITED}
    assert left(client) < -RATE
    assert client.session.granted is not None
    one = 100 * 230 * 210
    # Half of it is compiling them, once.
    assert client.session.granted.effort < 100 * 131_072 + (2 * RATE + 1) * 131_072 + 2 * one


async def test_grants_that_can_be_looked_up_cost_nothing(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=CLOSED)
    client = await with_grants(desk, (f"room:{n}:*" for n in range(1_000)))
    client.session.bucket.owe(2 * RATE - 2)
    assert client.session.granted is not None
    desk.clock.advance(1)
    names = [f"room:{n}:#" for n in range(10)]
    results = (await client.ask(subscribe(*names), SubscribeReply)).results
    assert [result.error for result in results] == [None] * 10
    assert client.session.granted.effort == 0


async def test_names_that_grants_have_to_be_tried_for_cost_publishers_too(
    make_desk: MakeDesk,
) -> None:
    client = await with_grants(make_desk(settings=CLOSED), (f"*{n}:x" for n in range(1_000)))
    before = left(client)
    client.send(publish("y" * 200, b""))
    client.send(publish("y" * 200, b""))
    assert before - left(client) > 2 + 1_000


async def test_authenticating_anew_costs_by_what_is_looked_at_anew(make_desk: MakeDesk) -> None:
    """Seen: over and over with a thousand subscriptions, at a token each time."""
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    desk.doorman.know("shop", b"few", Identity("ann", grants("a:*")))
    many = grants(*(f"a:{n}" for n in range(200)))
    desk.doorman.know("shop", b"many", Identity("ann", many))
    for credentials, subscriptions_len, cost in (
        (b"few", 0, 1),
        (b"few", 500, 1 + 51),
        (b"many", 0, 1 + 51 + 20),
    ):
        if subscriptions_len:
            await client.subscribe(*(f"room:{n}" for n in range(subscriptions_len)))
        await desk.advance(10)
        before = left(client)
        await client.ask(AuthRequest(id=1, credentials=credentials), AuthReply)
        assert before - left(client) == cost
    client.session.bucket.owe(2 * RATE)
    error = await client.ask(AuthRequest(id=2, credentials=b"few"), ErrorEvent)
    assert error.code == Code.RATE_LIMITED


#: Each is tried for each name, and none of them helps.
USELESS = tuple(f"room:#:{n}" for n in range(500))
LONG = tuple(f"room:{'y' * 200}{n}" for n in range(40))
#: What that takes, in tokens.
TRIED = 40 * 500 * (128 + 10 * 200) // 131_072


async def with_long_names(desk: Desk) -> Client:
    """A session that holds them, and has paid for that."""
    client = await with_grants(desk, USELESS)
    for name in (LONG[0], *LONG):  # the first may only have the grants compiled, once per process
        await client.subscribe(name)
        desk.clock.advance(12)
    assert len(client.session.subscriptions) == len(LONG) + 1
    return client


async def test_authenticating_anew_costs_what_deciding_by_other_grants_takes(
    make_desk: MakeDesk,
) -> None:
    """Seen: 900 names against 1,000 grants took a second, for two hundred tokens, and many at once had it."""
    desk = make_desk(settings=SETTINGS)
    client = await with_long_names(desk)
    for n in range(4):
        other = Identity("ann", grants(*USELESS, f"other:{n}"))
        desk.doorman.know("shop", b"%d" % n, other)
        client.send(AuthRequest(id=n + 1, credentials=b"%d" % n))
    await desk.settle()
    assert client.take(AuthReply).id == 1
    assert [error.code for error in client.take_all(ErrorEvent)] == [Code.RATE_LIMITED] * 3
    assert client.take_all(AuthReply) == []
    assert left(client) < RATE - TRIED
    assert len(client.session.subscriptions) == len(LONG) + 1


async def test_authenticating_anew_with_the_same_grants_decides_nothing_again(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await with_long_names(desk)
    granted = client.session.granted
    assert granted is not None
    before, effort = left(client), granted.effort
    later = Identity("ann", grants(*USELESS), expires_ms=desk.clock.wall_ms() + 60_000)
    desk.doorman.know("shop", b"later", later)
    await client.ask(AuthRequest(id=1, credentials=b"later"), AuthReply)
    assert client.session.granted is granted
    assert granted.effort == effort
    assert before - left(client) == 1 + 5 + 50


@pytest.mark.parametrize("positions_len", [10_000, 20], ids=["at once", "slice by slice"])
async def test_a_pattern_costs_what_deciding_takes_for_the_channels_it_covers(
    make_desk: MakeDesk, positions_len: int
) -> None:
    limits = HubLimits(pattern_positions_len_max=positions_len)
    desk = make_desk(settings=SETTINGS, hub_limits=limits)
    client = await with_grants(desk, USELESS)
    for name in LONG:
        client.session.hub.channel(name)
    for name in ("room:short", "room:short*"):  # the grants are compiled, once
        await client.subscribe(name)
        desk.clock.advance(12)
    assert (await client.subscribe("room:*")).results[0].error is None
    assert RATE - left(client) >= 1 + TRIED


async def with_closed_channels(desk: Desk) -> tuple[Client, Serial]:
    """A session that has paid, and a place from before channels came and went, each with something."""
    client = await with_grants(desk, USELESS)
    for name in ("room:short", "room:short*"):  # the grants are compiled, once
        await client.subscribe(name)
        desk.clock.advance(12)
    began = client.session.hub.place()
    writer = await desk.connect()
    for name in LONG:
        await writer.do(publish(name, b"x"))
    desk.clock.advance(1)
    await client.session.hub.close_idle_channels()
    assert not set(LONG) & set(client.session.hub.channels)
    return client, began


AT_ONCE = HubLimits(channel_close_s=0.5)


async def test_greetings_cost_what_deciding_takes_and_wait_for_who_owes_for_it(
    make_desk: MakeDesk,
) -> None:
    """Seen: those of 200 channels were decided on in one turn, against 1,000 grants, for nothing."""
    rules = Rules(client_publish=True, retain=When.ALL)
    desk = make_desk(settings=SETTINGS, rules=rules, hub_limits=AT_ONCE)
    client, _ = await with_closed_channels(desk)
    granted = client.session.granted
    assert granted is not None
    client.inbox.clear()
    before = granted.effort
    client.send(subscribe("room:*"))
    assert granted.effort - before < 50 * 131_072  # the first slice
    await desk.advance(0.1, step_s=0.001)  # any number of slices
    some = len(client.payloads())
    assert 0 < some < len(LONG)
    assert granted.effort - before < (2 * RATE + 50) * 131_072
    assert left(client) < -RATE * 0.8
    await desk.advance(10)
    assert some + len(client.payloads()) == len(LONG)
    assert granted.effort - before >= TRIED * 131_072


async def test_looking_for_what_was_missed_costs_what_deciding_takes_and_ends_where_it_is_too_much(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=SETTINGS, hub_limits=AT_ONCE)
    client, began = await with_closed_channels(desk)
    granted = client.session.granted
    assert granted is not None
    before = granted.effort
    item = SubscribeItem(channel="room:*", positions={ALL_CHANNELS: began})
    reply = await client.ask(SubscribeRequest(id=1, items=(item,)), SubscribeReply)
    [error] = [result.error for result in reply.results]
    assert error is not None
    assert error.code == Code.RATE_LIMITED
    assert left(client) < -RATE
    assert granted.effort - before < (2 * RATE + 50) * 131_072


async def test_settings_that_change_cost_no_session_what_deciding_takes(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=SETTINGS)
    client = await with_long_names(desk)
    assert client.session.granted is not None
    for patterns in (client.session.granted._subscribe, client.session.granted._publish):
        patterns._memo.clear()
    before, effort = left(client), client.session.granted.effort
    await client.session.hub.apply(client.session.hub.state)
    assert client.session.granted.effort > effort
    assert left(client) == before


async def test_an_attempt_to_authenticate_that_fails_costs_as_one_request(
    make_desk: MakeDesk,
) -> None:
    client = await make_desk(settings=SETTINGS).connect()
    await client.subscribe(*(f"room:{n}" for n in range(100)))
    before = left(client)
    assert not (await client.ask(AuthRequest(id=1, credentials=b"?"), AuthReply)).success
    assert before - left(client) == 1


async def test_coming_back_costs_by_places_and_subscriptions(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=SETTINGS)
    desk.doorman.know("shop", b"ann", Identity("ann"))
    client = await desk.connect()
    await client.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await client.subscribe(*(f"room:{n}" for n in range(100)))
    await desk.advance(1)
    places = {f"room:{n}": Serial(1, 1) for n in range(150)}
    back = await desk.connect()
    key = client.take(RestoreKey).key
    await back.ask(RestoreRequest(id=1, key=key, positions=places), Restored)
    assert RATE - left(back) == 15 + 11


#: Tried in vain for each channel that opens, each to its end.
IN_VAIN = tuple(f"b*{'b' * 100}{n:03}*c" for n in range(500))
FRESH = tuple(f"{'b' * 200}{n:03}c" for n in range(60))
#: What that takes of a matcher for one channel, in tokens.
IN_VAIN_TOKENS = 500 * (1 + (106 * 204 >> 12)) / 200


async def with_patterns(desk: Desk) -> None:
    """A hub in which somebody holds them."""
    other = await desk.connect()
    for n in range(0, 500, 50):
        reply = await other.subscribe(*IN_VAIN[n : n + 50], id=n + 1)
        assert all(result.error is None for result in reply.results)
        desk.clock.advance(20)


@pytest.mark.parametrize("kind", ["publish", "subscribe", "presence"])
async def test_opening_channels_costs_what_finding_their_patterns_takes(
    make_desk: MakeDesk, kind: str
) -> None:
    """Seen: 240 names in one request held the loop for five seconds, for 40 tokens."""
    desk = make_desk(settings=SETTINGS)
    await with_patterns(desk)
    client = await desk.connect()
    if kind == "publish":
        await client.do(
            PublishRequest(
                items=tuple(PublishItem(channel=name, payload=b"") for name in FRESH[:20])
            )
        )
    elif kind == "subscribe":
        await client.subscribe(*FRESH[:20])
    else:
        for name in FRESH[:2]:
            await client.do(PresenceRequest(id=1, channel=name))
            desk.clock.advance(0.5)
    opened_len = len(client.session.hub.channels)
    assert opened_len == (2 if kind == "presence" else 20)
    assert left(client) < RATE - opened_len * IN_VAIN_TOKENS + (RATE // 2 if opened_len == 2 else 0)


UNLIMITED = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=0))


async def most_in_a_turn(desk: Desk) -> tuple[int, int]:
    """(the most channels that opened in one turn of the loop from now on, all of them)."""
    hub = desk.directory.hubs["shop"]
    counts = [0, len(hub.channels)]
    while len(desk.world.tasks) or len(counts) < 10:
        desk.clock.run_soon()
        await asyncio.sleep(0)
        counts.append(len(hub.channels))
    return max(after - before for before, after in pairwise(counts)), counts[-1]


#: What a turn may take by the bound on it, and the one with which it is exceeded.
IN_A_TURN = int(60 / IN_VAIN_TOKENS) + 2


@pytest.mark.parametrize("kind", ["publish", "one by one", "subscribe", "over HTTP"])
async def test_channels_open_some_in_a_turn_where_patterns_have_to_be_tried(
    make_desk: MakeDesk, kind: str
) -> None:
    desk = make_desk(settings=UNLIMITED)
    await with_patterns(desk)
    clients = [await desk.connect() for _ in range(3)]
    hub = clients[0].session.hub
    for n, client in enumerate(clients):
        fresh = FRESH[n * 20 : n * 20 + 20]
        items = tuple(PublishItem(channel=name, payload=b"x") for name in fresh)
        if kind == "publish":
            client.send(PublishRequest(id=1, items=items))
        elif kind == "one by one":
            for k, item in enumerate(items):
                client.send(PublishRequest(id=k + 1, items=(item,)))
        elif kind == "subscribe":
            client.send(subscribe(*fresh, id=1))
        else:
            work = publish_all(hub, items, Asker(), None, size_bytes=100)
            desk.world.tasks.spawn(work)
        client.send(Ping(id=99))
    most, total = await most_in_a_turn(desk)
    assert total == len(FRESH)
    assert most <= IN_A_TURN
    await desk.settle()
    for client in clients:
        answers = [
            event for event in client.inbox if isinstance(event, Ack | SubscribeReply | Pong)
        ]
        ids = {"one by one": [*range(1, 21), 99], "over HTTP": [99]}.get(kind, [1, 99])
        assert [answer.id for answer in answers] == ids, "in the order in which they were asked"


async def test_names_are_decided_on_some_in_a_turn_where_grants_have_to_be_tried(
    make_desk: MakeDesk,
) -> None:
    settings = HubSettings(quotas=Quotas(session_messages_per_s=0))
    desk = make_desk(settings=settings)
    client = await with_grants(desk, [*USELESS, "room:*x"])
    wanted = [f"room:{'y' * 200}{n}x" for n in range(200)]
    await client.subscribe(wanted[0])  # the grants are compiled, once
    granted = client.session.granted
    assert granted is not None
    before = granted.effort
    client.send(subscribe(*wanted[1:], id=1))
    efforts = [before, granted.effort]
    while len(desk.world.tasks):
        desk.clock.run_soon()
        await asyncio.sleep(0)
        efforts.append(granted.effort)
    [reply] = client.take_all(SubscribeReply)
    assert all(result.error is None for result in reply.results)
    assert efforts[-1] - before > 199 * 500 * 2_000
    assert max(b - a for a, b in pairwise(efforts)) < 75 * 131_072
    await desk.settle()
    assert granted.effort == efforts[-1], "nothing is decided twice"


async def test_what_a_pattern_looks_at_costs_also_if_it_covers_none_of_it(
    make_desk: MakeDesk,
) -> None:
    """Seen: patterns over 20,000 channels, subscribed to and given up over and over, for a token each."""
    desk = make_desk(settings=SETTINGS)
    client = await desk.connect()
    hub = client.session.hub
    for n in range(6_000):
        hub.channel(f"c:1:{n}")
    patterns = [f"c:*:zz{n}" for n in range(4)]
    reply = await client.subscribe(*patterns)
    errors = [result.error.code if result.error else None for result in reply.results]
    assert errors == [None, None, Code.RATE_LIMITED, Code.RATE_LIMITED]
    assert left(client) <= RATE - 2 * 2 * 6_000 * 2 / 200
    assert list(client.session.subscriptions) == patterns[:2]


async def test_patterns_that_have_to_be_compiled_are_some_in_a_turn(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_len = 0
    compile_pattern = names.compile_pattern

    def counted(pattern: str) -> re.Pattern[str]:
        nonlocal compiled_len
        compiled_len += 1
        return compile_pattern(pattern)

    monkeypatch.setattr(names, "compile_pattern", counted)
    desk = make_desk(settings=UNLIMITED)
    client = await desk.connect()
    client.send(subscribe(*(f"p{n}{'x' * 100}*:#:y" for n in range(50)), id=1))
    counts = [0, compiled_len]
    while len(desk.world.tasks):
        desk.clock.run_soon()
        await asyncio.sleep(0)
        counts.append(compiled_len)
    assert counts[-1] == 50
    assert max(after - before for before, after in pairwise(counts)) <= 6
    [reply] = client.take_all(SubscribeReply)
    assert all(result.error is None for result in reply.results)
