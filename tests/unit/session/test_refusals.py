"""Refusals in the journal: who asked for what, why it was refused, and never more than the journal bears."""

import msgspec
import structlog

from arauto.codec.events import Ack, AuthReply, AuthRequest, ErrorEvent, HistoryRequest
from arauto.errors import Code, StorageError
from arauto.model import Identity
from arauto.session.environment import SessionLimits
from arauto.settings import Rules
from arauto.storage.base import JournalEntry, Kind
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, publish

CLOSED = Rules(client_publish=False)
PATIENT = SessionLimits(errors_max=0)


async def refusals(desk: Desk) -> list[JournalEntry]:
    await desk.settle()
    rows = await desk.storage.journal.read(0, 10_000)
    return [entry for _, entry in rows if entry.kind is Kind.ERROR]


def details(entry: JournalEntry) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(entry.payload)
    return found


async def test_a_refused_publication_is_recorded_with_who_where_and_why_but_not_what(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=CLOSED)
    desk.doorman.know("shop", b"pw", Identity(user="ana"))
    client = await desk.connect()
    await client.ask(AuthRequest(id=1, credentials=b"pw"), AuthReply)
    ack = await client.ask(publish("prices", b"secret bid", id=2), Ack)
    [row] = await refusals(desk)
    assert (row.hub, row.channel, row.user, row.session) == (
        "shop",
        "prices",
        "ana",
        client.session.id,
    )
    found = details(row)
    assert ack.results[0].error is not None
    assert found["code"] == ack.results[0].error.code
    assert found["request"] == "publish"
    assert (found["transport"], found["address"]) == ("test", "10.0.0.1")
    assert b"secret bid" not in msgspec.msgpack.encode(row)


async def test_refused_logins_subscriptions_and_reads_are_recorded_each_under_its_name(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(limits=PATIENT)
    client = await desk.connect()
    await client.ask(AuthRequest(id=1, credentials=b"wrong"), AuthReply)
    await client.subscribe("bad name\n")
    await client.ask(HistoryRequest(id=3, channel="bad name\n"), ErrorEvent)
    client.session.receive(b"\xff\xff")
    names = [details(row)["request"] for row in await refusals(desk)]
    assert names == ["auth", "subscribe", "history", ""]


async def test_a_flood_of_refusals_leaves_few_rows_and_the_next_row_tells_how_many_are_missing(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=CLOSED, limits=PATIENT)
    client, other = await desk.connect(), await desk.connect("garden")
    for _ in range(1_000):
        client.send(publish("prices", b"x"))
    before = await refusals(desk)
    assert len(before) == 50
    await other.do(publish("prices", b"x"))
    assert len(await refusals(desk)) == 51, "another hub's refusals are still recorded"
    await desk.advance(1)
    await client.do(publish("prices", b"x"))
    last = (await refusals(desk))[-1]
    assert details(last)["leftOut"] == 950


async def test_trouble_with_the_storage_is_counted_and_not_written_to_the_storage(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk()
    client = await desk.connect()
    client.session.refuse(StorageError(Code.STORAGE_FULL, "the disk is full"), 0)
    assert await refusals(desk) == []
    assert desk.world.env.metrics.hub("shop").refused[int(Code.STORAGE_FULL)] == 1


async def test_a_name_that_is_refused_leaves_little_in_the_journal_and_nothing_it_cannot_store(
    make_desk: MakeDesk,
) -> None:
    """Found by reading: the refused name itself went to the journal, a megabyte or a NUL included."""
    desk = make_desk(limits=PATIENT)
    client = await desk.connect()
    await client.ask(publish("x" * 60_000, b"x", id=1), Ack)
    await client.ask(publish("a\0b\n", b"x", id=2), Ack)
    await client.subscribe("weather:*:*:*:*:*:*:*:*:*:*:*")
    large, odd, pattern = [row.channel for row in await refusals(desk)]
    assert large == "x" * 100
    assert odd == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert pattern.startswith("weather:*")


async def test_the_log_gets_the_details_of_a_storage_failure_about_once_a_second_and_the_client_none(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk()
    client = await desk.connect()
    failure = StorageError(Code.STORAGE_FULL, "the disk is full: /srv/data (SQLITE_FULL: full)")
    with structlog.testing.capture_logs() as logs:
        for _ in range(10):
            client.session.refuse(failure, 7)
        await desk.advance(1)
        client.session.refuse(failure, 7)
    told = {event.message for event in client.take_all(ErrorEvent)}
    assert told == {"the storage is full; nothing was acknowledged"}
    lines = [line for line in logs if line["event"] == "storage refused a request"]
    assert [line["left_out"] for line in lines] == [0, 9]
    assert all("/srv/data" in line["reason"] for line in lines)
