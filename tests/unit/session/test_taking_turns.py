"""Large requests, of one session or of many, take turns: so much is done in one turn of the loop."""

import asyncio
from itertools import pairwise

import pytest

from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Ping,
    Pong,
    PublishRequest,
    Request,
    SubscribeReply,
)
from arauto.codec.proto import ProtoCodec
from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.session import held, large_work
from arauto.session.session import Session
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, publish, subscribe

OPEN = Rules(public=True, client_publish=True)
BATCH = [b""] * 1_000
#: On the wire, of one batch.
BATCH_BYTES = len(ProtoCodec().encode_request(publish("room:1", *BATCH)))
IN_A_TURN = large_work._TURN_BYTES // BATCH_BYTES


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    quotas = Quotas(session_messages_per_s=0)
    return make_desk(settings=HubSettings(default_public=True, quotas=quotas), rules=OPEN)


def published(desk: Desk, channel: str = "room:1") -> int:
    found = desk.directory.hubs["shop"].channels.get(channel)
    return found.serial.offset if found is not None else 0


async def crowd(desk: Desk, size: int) -> list[Client]:
    return [await desk.connect() for _ in range(size)]


def turns(desk: Desk) -> list[int]:
    """How many messages are published in each turn of the loop until nothing is left to do."""
    counts = [0, published(desk)]
    while desk.clock.pending_soon:
        desk.clock.run_turn()
        counts.append(published(desk))
    return [after - before for before, after in pairwise(counts)]


def is_empty(desk: Desk) -> bool:
    """Whether nobody stands in line, and nothing is kept of anybody."""
    line = desk.env.large_work
    return not len(line) and not line.sessions() and not line._pool.shares


@pytest.mark.parametrize("connections", [1, 10])
async def test_batches_that_come_together_are_carried_out_some_in_a_turn(
    desk: Desk, connections: int
) -> None:
    """Seen: eight batches of a thousand messages held the loop for 140 ms, of one connection as of eight."""
    clients = await crowd(desk, connections)
    for n in range(20):
        clients[n % connections].send(publish("room:1", *BATCH, id=n + 1))
    by_turn = turns(desk)
    assert sum(by_turn) == 20_000
    assert max(by_turn) == IN_A_TURN * 1_000
    assert len([count for count in by_turn if count]) == -(-20 // IN_A_TURN)
    assert sum(len(client.take_all(Ack)) for client in clients) == 20
    assert is_empty(desk)


async def test_a_request_above_what_is_done_in_a_turn_has_a_turn_of_its_own(desk: Desk) -> None:
    clients = await crowd(desk, 3)
    for client in clients:
        client.send(publish("room:1", b"x" * (large_work._TURN_BYTES + 1)))
        client.send(publish("room:1", b"x" * 5_000))
    assert max(turns(desk)) <= 3
    assert published(desk) == 6
    assert is_empty(desk)


async def test_a_session_s_requests_are_carried_out_in_their_order(desk: Desk) -> None:
    client, reader = await desk.connect(), await desk.connect()
    await reader.subscribe("room:1")
    large = [bytes([n]) * 20_000 for n in range(6)]
    for n, payload in enumerate(large):
        client.send(publish("room:1", payload, id=2 * n + 1))
        client.send(publish("room:1", b"small", id=2 * n + 2))
    assert not client.is_read()
    await desk.settle()
    assert client.is_read()
    assert reader.payloads() == [each for payload in large for each in (payload, b"small")]
    assert [ack.id for ack in client.take_all(Ack)] == list(range(1, 13))
    assert is_empty(desk)


async def test_who_waits_for_its_turn_is_read_no_further_until_then(desk: Desk) -> None:
    clients = await crowd(desk, 2 * IN_A_TURN)
    for client in clients:
        client.send(publish("room:1", *BATCH))
    assert [client.is_read() for client in clients] == [True] * IN_A_TURN + [False] * IN_A_TURN
    while len(desk.env.large_work):
        desk.clock.run_turn()
    assert all(client.is_read() for client in clients)


async def test_small_requests_do_not_wait_behind_the_large_ones_of_others(desk: Desk) -> None:
    clients = await crowd(desk, 20)
    other = await desk.connect()
    for client in clients:
        client.send(publish("room:1", *BATCH))
    assert len(desk.env.large_work)
    other.send(Ping(id=1))
    other.send(publish("room:2", b"x", id=2))
    other.send(subscribe("room:2", id=3))
    other.session.outbox.flush()
    answers = other.take(Pong), other.take(Ack), other.take(SubscribeReply)
    assert [answer.id for answer in answers] == [1, 2, 3]
    assert other.is_read()
    await desk.settle()


async def test_nobody_goes_before_those_who_stand_in_line(desk: Desk) -> None:
    clients = await crowd(desk, 3)
    reader = await desk.connect()
    await reader.subscribe("room:1")
    for n, client in enumerate(clients):
        client.send(publish("room:1", b"%d" % n + b"x" * 20_000))
    late = await desk.connect()  # lets some turns go by
    late.send(publish("room:1", b"3" + b"x" * 20_000))
    late.send(publish("room:1", b"4" + b"x" * 5_000))
    await desk.settle()
    assert [payload[:1] for payload in reader.payloads()] == [b"0", b"1", b"2", b"3", b"4"]


async def test_what_is_large_and_waits_behind_another_request_takes_its_turn_too(
    desk: Desk,
) -> None:
    desk.doorman.gate = asyncio.Event()
    desk.doorman.know("shop", b"ann", Identity(user="ann"))
    clients = await crowd(desk, 20)
    for client in clients:
        client.send(AuthRequest(id=1, credentials=b"ann"))
        client.send(publish("room:1", *BATCH, id=2))
        client.send(publish("room:1", b"small", id=3))
    await desk.doorman.asked.wait()
    assert published(desk) == 0
    desk.doorman.gate.set()
    by_turn = [0]
    while not is_empty(desk) or published(desk) < 20_020:
        await asyncio.sleep(0)  # what waited for something goes on
        by_turn.append(published(desk))
        desk.clock.run_turn()
        by_turn.append(published(desk))
    by_turn = [after - before for before, after in pairwise(by_turn)]
    assert max(by_turn) <= IN_A_TURN * 1_001
    await desk.settle()
    for client in clients:
        assert client.take(AuthReply).success
        assert [ack.id for ack in client.take_all(Ack)] == [2, 3]
        assert client.is_read()
    assert is_empty(desk)


async def test_who_cannot_pay_when_its_turn_has_come_is_refused_unread(
    make_desk: MakeDesk,
) -> None:
    quotas = Quotas(session_messages_per_s=50)
    desk = make_desk(settings=HubSettings(default_public=True, quotas=quotas), rules=OPEN)
    client = await desk.connect()
    decoded = 0

    def decode(data: bytes) -> Request:
        nonlocal decoded
        decoded += 1
        return ProtoCodec().decode_request(data)

    client.session._decode = decode
    before = client.session.hub.counters.messages_in
    (await desk.connect()).send(publish("room:1", b"x" * 32_000))
    for n in range(3):
        client.send(publish("room:1", *BATCH, id=n + 1))
    assert decoded == 0
    await desk.settle()
    assert client.take(Ack).id == 1
    errors = client.take_all(ErrorEvent)
    assert [(error.id, error.code) for error in errors] == [
        (2, Code.RATE_LIMITED),
        (3, Code.RATE_LIMITED),
    ]
    assert decoded == 1
    assert client.session.hub.counters.messages_in - before == 4
    assert is_empty(desk)


async def test_a_session_that_ends_in_line_leaves_nothing_there(desk: Desk) -> None:
    clients = await crowd(desk, 20)
    for client in clients:
        client.send(publish("room:1", *BATCH))
        client.send(publish("room:1", *BATCH))
    gone = clients[-1]
    gone.session.disconnect(Code.FORCED_LOGOUT, "sent away")
    assert gone.session not in desk.env.large_work
    assert gone.session not in desk.env.large_work.sessions()
    await desk.settle()
    assert published(desk) == 38_000
    assert is_empty(desk)


async def test_what_was_sent_before_the_connection_was_lost_is_carried_out(desk: Desk) -> None:
    """Who publishes without asking for an answer may leave as soon as everything is sent."""
    client = await desk.connect()
    for n in range(4):
        client.send(publish("room:1", bytes([n]) * 30_000))
        client.send(publish("room:1", b"small"))
    client.session.lost(Code.CONNECTION_LOST)
    assert not client.session.has_ended()
    client.session.lost(Code.CONNECTION_LOST)
    await desk.settle()
    assert published(desk) == 8
    assert client.session.has_ended()
    assert is_empty(desk)


async def test_a_node_that_stops_lets_those_go_that_were_lost_in_line(desk: Desk) -> None:
    clients = await crowd(desk, 20)
    for client in clients:
        client.send(publish("room:1", *BATCH))
        client.session.lost(Code.CONNECTION_LOST)
    desk.env.stop()
    assert all(client.session.has_ended() for client in clients)
    assert is_empty(desk)


async def test_a_hub_that_closes_leaves_nothing_in_line(desk: Desk) -> None:
    clients = await crowd(desk, 20)
    for client in clients:
        client.send(publish("room:1", *BATCH))
    clients[-1].session.lost(Code.CONNECTION_LOST)
    await desk.directory.hubs["shop"].close()
    assert all(client.session.has_ended() for client in clients)
    assert is_empty(desk)


async def test_a_mistake_of_ours_costs_only_the_session_whose_request_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = await crowd(desk, 8)
    real = held._take

    def take(session: Session, data: bytes) -> None:
        if session is clients[-1].session:
            raise RuntimeError("a planted mistake")
        real(session, data)

    monkeypatch.setattr(held, "_take", take)
    for client in reversed(clients[:-1]):
        client.send(publish("room:1", *BATCH))
    clients[-1].send(publish("room:1", *BATCH))
    for client in clients[:3]:
        client.send(publish("room:1", *BATCH))
    await desk.settle()
    assert [client.closed_with for client in clients] == [None] * 7 + [Code.SERVER_ERROR]
    assert published(desk) == 10_000
    assert is_empty(desk)


async def test_what_waits_is_bounded_and_no_hub_has_more_than_it_leaves(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.env.large_work._pool.limit_bytes = 400_000
    client, other = await desk.connect(), await desk.connect("mall")
    large = publish("room:1", b"x" * 60_000, id=7)
    for _ in range(6):
        client.send(large)
    other.send(large)
    await desk.settle()
    refused = client.take_all(ErrorEvent)
    assert {(error.id, error.code, error.retryable) for error in refused} == {
        (7, Code.TOO_MANY_PENDING, True)
    }
    assert len(refused) == 2
    assert len(client.take_all(Ack)) == 4
    assert other.take(Ack).id == 7
    assert client.session.errors == 0
    assert is_empty(desk)


async def test_what_cannot_be_read_is_refused_when_its_turn_has_come(desk: Desk) -> None:
    client = await desk.connect()
    client.send(publish("room:1", b"x" * 32_000))
    client.session.receive(b"\xff" * 20_000)
    assert client.take_all(ErrorEvent) == []
    await desk.settle()
    with pytest.raises(ArautoError) as found:
        ProtoCodec().decode_request(b"\xff" * 20_000)
    assert client.take(ErrorEvent).code == found.value.code
    assert client.is_read()


async def test_a_request_below_the_threshold_asks_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await desk.connect()
    small = publish("room:1", b"x" * 4_000)
    assert type(small) is PublishRequest

    def never(*args: object) -> None:
        raise AssertionError("a small request was taken for a large one")

    monkeypatch.setattr(held, "receive_large", never)
    for _ in range(100):
        client.send(small)
    assert published(desk) == 100
