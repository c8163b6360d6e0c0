"""A request takes tokens of the session's rate by its items and bytes, so that work is what is limited."""

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
    Request,
)
from arauto.codec.proto import ProtoCodec
from arauto.errors import ArautoError, Code
from arauto.settings import HubSettings, Quotas
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, publish, subscribe

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
