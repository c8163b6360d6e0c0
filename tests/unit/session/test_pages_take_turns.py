"""Pages of history, of one session or of many, take turns: so much is encoded in one turn of the loop."""

import asyncio
from itertools import pairwise

import pytest

from arauto.codec.events import ErrorEvent, HistoryReply, HistoryRequest, Ping, Pong
from arauto.errors import Code
from arauto.hub.history import read_history as read_page
from arauto.session import pages
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, publish

FREE = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=0))
OPEN = Rules(public=True, client_publish=True, live_history_len=100)
ASKED = 8


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    desk = make_desk(settings=FREE, rules=OPEN)
    writer = await desk.connect()
    await writer.do(publish("log", *[b"x" * 60_000] * 65))  # nearly what a page may have
    await writer.do(publish("small", b"x"))
    return desk


def ask(client: Client, channel: str = "log", count: int = ASKED) -> None:
    for n in range(count):
        client.send(HistoryRequest(id=n + 1, channel=channel))


async def read(desk: Desk) -> None:
    """Let what was asked for be read, in this turn of the clock."""
    for _ in range(20):
        await asyncio.sleep(0)


async def sent_by_turn(desk: Desk, clients: list[Client]) -> list[int]:
    """How many pages are sent in each turn until there is nothing more."""
    counts = [0]
    while len(desk.env.pages) or desk.clock.pending_soon:
        await read(desk)
        counts.append(sum(client.session.hub.counters.messages_out for client in clients[:1]))
        desk.clock.run_turn()
        counts.append(sum(client.session.hub.counters.messages_out for client in clients[:1]))
    return [after - before for before, after in pairwise(counts[1:])]


@pytest.mark.parametrize("sessions", [1, 3])
async def test_large_pages_that_are_asked_for_together_are_sent_one_in_a_turn(
    desk: Desk, sessions: int
) -> None:
    """Seen: eight pages, which one session may ask for at once, held the loop for 150 ms."""
    clients = [await desk.connect() for _ in range(sessions)]
    for client in clients:
        ask(client)
    by_turn = await sent_by_turn(desk, clients)
    assert max(by_turn) == 1
    for client in clients:
        assert sorted(page.id for page in client.take_all(HistoryReply)) == list(range(1, 9))
        assert client.session.history_requests == 0
    assert len(desk.env.pages) == 0


async def test_small_pages_of_many_do_not_wait_for_each_other(desk: Desk) -> None:
    clients = [await desk.connect() for _ in range(8)]
    before = clients[0].session.hub.counters.messages_out
    for client in clients:
        ask(client, "small", 1)
    await read(desk)
    assert clients[0].session.hub.counters.messages_out - before == 8
    await desk.settle()


async def test_a_page_is_sent_when_the_connection_has_taken_the_one_before(desk: Desk) -> None:
    """Else who asks for eight would be sent away as a slow reader."""
    client = await desk.connect()
    real = client.write

    def write(data: bytes) -> None:
        real(data)
        if len(data) > 1_000_000:
            client.session.outbox.pause()

    client.session.outbox.write = write
    ask(client)
    for n in range(ASKED):
        await desk.settle()
        assert [page.id for page in client.take_all(HistoryReply)] == [n + 1]
        assert desk.env.pages.held_len == 0
        client.session.outbox.resume()
    assert client.closed_with is None
    assert len(desk.env.pages) == 0


async def test_a_page_that_finds_the_connection_full_is_read_again_later(desk: Desk) -> None:
    client = await desk.connect()
    desk.env.large_work.admits(1)  # in this turn something large was done
    ask(client, count=1)
    await read(desk)
    assert desk.env.pages.held_len == 1
    client.session.outbox.pause()
    await desk.settle()
    assert client.take_all(HistoryReply) == []
    assert desk.env.pages.held_len == 0
    client.session.outbox.resume()
    await desk.settle()
    assert client.take(HistoryReply).id == 1
    assert client.session.history_requests == 0


async def test_small_requests_do_not_wait_behind_pages(desk: Desk) -> None:
    client = await desk.connect()
    desk.env.large_work.admits(1)  # in this turn something large was done
    ask(client)
    await read(desk)
    assert len(desk.env.large_work)
    client.send(Ping(id=1))
    client.session.outbox.flush()
    assert client.take(Pong).id == 1
    await desk.settle()


async def test_sessions_take_turns_a_page_each(desk: Desk) -> None:
    greedy = [await desk.connect() for _ in range(20)]
    late = await desk.connect()
    for client in greedy:
        ask(client)
    ask(late, count=1)
    order: list[Client] = []
    while len(desk.env.pages) or desk.clock.pending_soon:
        await read(desk)
        desk.clock.run_turn()
        for client in (*greedy, late):
            order += [client] * len(client.take_all(HistoryReply))
    assert len(order) == 20 * ASKED + 1
    # Behind one of each that was there before, and those that came back while these were held.
    assert order.index(late) <= len(greedy) + pages._AT_ONCE


async def test_a_session_that_ends_leaves_nothing_of_what_it_asked_for(desk: Desk) -> None:
    clients = [await desk.connect() for _ in range(20)]
    for client in clients:
        ask(client)
    await read(desk)
    assert desk.env.pages.held_len == pages._AT_ONCE
    for client in clients:
        client.session.disconnect(Code.FORCED_LOGOUT, "sent away")
    assert len(desk.env.pages) == 0
    before = clients[0].session.hub.counters.messages_out
    await desk.settle()
    assert desk.env.pages.held_len == 0
    assert clients[0].session.hub.counters.messages_out == before


async def test_who_may_read_no_more_when_its_page_has_its_turn_is_refused(desk: Desk) -> None:
    client = await desk.connect()
    ask(client, count=3)
    await read(desk)
    await desk.set("hub", "shop", "shop", HubSettings(default_public=False))
    codes = {error.code for error in client.take_all(ErrorEvent)}
    assert codes <= {Code.ANONYMOUS_DENIED, Code.SUBSCRIBE_DENIED, Code.UNAUTHENTICATED}
    assert len(desk.env.pages) == 0


async def test_no_more_pages_are_read_than_are_held(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast the store is, and however many ask: what was read is in memory until it is sent."""
    desk = make_desk(settings=FREE, rules=OPEN)
    clients = [await desk.connect() for _ in range(20)]
    gate, reading = asyncio.Event(), 0

    async def read_history(*args: object, **named: object) -> object:
        nonlocal reading
        reading += 1
        await gate.wait()
        return await read_page(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(pages, "read_history", read_history)
    for client in clients:
        ask(client)
    await read(desk)
    assert reading == pages._AT_ONCE
    gate.set()
    await desk.settle()
    assert reading == 20 * ASKED
    assert all(len(client.take_all(HistoryReply)) == ASKED for client in clients)
