"""A document is encoded once for its version and format, however many ask, and nobody waits for that."""

import asyncio
from typing import Any

import msgspec
import pytest

from arauto.codec.events import (
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentUpdated,
    ErrorEvent,
    Operation,
    Ping,
    Pong,
)
from arauto.errors import Code
from arauto.hub.encodings import Encodings
from arauto.hub.environment import HubLimits
from arauto.settings import HubSettings, NamespaceSettings, Quotas, Rules
from tests.unit.session.desk import Client, Desk

FREE = HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=0))
ROWS = {f"row{n}": {"n": n, "pad": "x" * 100} for n in range(300)}
GET = DocumentGetRequest(id=5, channel="doc:1")


async def put(client: Client, value: Any) -> int:
    request = DocumentChangeRequest(
        id=1, channel="doc:1", operations=(Operation(op="add", path="/a", value=value),)
    )
    return (await client.ask(request, DocumentChangeReply)).version


def encodings(desk: Desk) -> Encodings:
    return desk.world.env.encodings


async def test_readers_of_a_version_share_one_encoding() -> None:
    desk = Desk(settings=FREE)
    clients = [await desk.connect() for _ in range(5)]
    await put(clients[0], ROWS)
    for client in clients:
        client.send(GET)
    await desk.settle()
    clients[0].send(GET)
    await desk.settle()
    for client in clients:
        for reply in client.take_all(DocumentGetReply):
            assert (reply.version, reply.value) == (1, {"a": ROWS})
    assert encodings(desk).made == 1
    await desk.close()


async def test_a_change_makes_what_was_encoded_void() -> None:
    desk = Desk(settings=FREE)
    client = await desk.connect()
    await put(client, ROWS)
    await client.ask(GET, DocumentGetReply)
    assert encodings(desk).size_bytes > 30_000
    await put(client, "small")
    assert encodings(desk).size_bytes == 0
    reply = await client.ask(GET, DocumentGetReply)
    assert (reply.version, reply.value) == (2, {"a": "small"})
    await desk.close()


async def test_a_change_while_it_is_encoded_is_not_in_it_and_not_lost() -> None:
    desk = Desk(settings=FREE)
    client = await desk.connect()
    await put(client, ROWS)
    await client.subscribe("doc:1")
    other = await desk.connect()
    client.send(GET)
    other.send(GET)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await put(client, "new")
    await desk.settle()
    # The subscriber heard of the change before the older document came: it hears of it again.
    kinds = (DocumentGetReply, DocumentUpdated)
    seen = [(type(e), e.version) for e in client.inbox if isinstance(e, kinds)]
    assert seen[-2:] == [(DocumentGetReply, 1), (DocumentUpdated, 2)]
    assert client.take(DocumentGetReply).value == {"a": ROWS}
    assert other.take(DocumentGetReply).value == {"a": ROWS}
    assert other.take_all(DocumentUpdated) == []
    reply = await client.ask(GET, DocumentGetReply)
    assert (reply.version, reply.value) == (2, {"a": "new"})
    await desk.close()


async def test_a_document_that_closes_leaves_nothing_encoded() -> None:
    desk = Desk(settings=FREE)
    client = await desk.connect()
    await put(client, ROWS)
    await client.ask(GET, DocumentGetReply)
    assert encodings(desk).size_bytes
    await desk.close()
    assert encodings(desk).size_bytes == 0


async def test_others_are_served_while_a_large_document_is_encoded() -> None:
    desk = Desk(settings=FREE)
    reader, other = await desk.connect(), await desk.connect()
    await put(reader, ROWS)
    reader.send(GET)
    for _ in range(5):
        await asyncio.sleep(0)
    other.send(Ping(id=9))
    desk.clock.run_soon()
    assert other.take(Pong).id == 9
    assert reader.take_all(DocumentGetReply) == []
    await desk.settle()
    assert reader.take(DocumentGetReply).version == 1
    await desk.close()


async def test_so_many_may_wait_for_a_document_and_no_more() -> None:
    desk = Desk(settings=FREE, hub_limits=HubLimits(pending_per_channel_max=3))
    client = await desk.connect()
    await put(client, ROWS)
    for number in range(5):
        client.send(DocumentGetRequest(id=number + 10, channel="doc:1"))
    await desk.settle()
    assert len(client.take_all(DocumentGetReply)) == 3
    assert [e.code for e in client.take_all(ErrorEvent)] == [Code.TOO_MANY_PENDING] * 2
    await desk.close()


@pytest.mark.parametrize("again", ["a", "b"])
def test_what_is_kept_is_bounded_and_the_least_used_goes(again: str) -> None:
    kept = Encodings(bytes_max=250)
    kept.keep("a", "json", b"x" * 100)
    kept.keep("b", "json", b"x" * 100)
    assert kept.find(again, "json") is not None
    kept.keep("c", "json", b"x" * 100)
    gone = "b" if again == "a" else "a"
    assert kept.find(gone, "json") is None
    assert kept.find(again, "json") is not None
    assert (kept.size_bytes, kept.evicted) == (200, 1)
    kept.keep("c", "proto", b"x" * 300)
    assert kept.find("c", "proto") is None
    kept.drop("c")
    assert kept.size_bytes == 100


async def test_who_lost_the_right_to_read_while_it_waited_is_refused() -> None:
    """Seen: who had asked before a channel became private was given what was written after that."""
    desk = Desk(settings=FREE)
    client, stranger = await desk.connect(), await desk.connect()
    await put(client, ROWS)
    async with encodings(desk).making:
        stranger.send(GET)
        closed, of_documents = Rules(public=False), NamespaceSettings(rules="closed")
        settings = desk.storage.settings
        await settings.put("rules", "shop", "closed", msgspec.json.encode(closed))
        await settings.put("namespace", "shop", "doc", msgspec.json.encode(of_documents))
        await desk.directory.refresh("shop")
    await desk.settle()
    told = stranger.take(ErrorEvent, lambda error: error.id == GET.id)
    assert told.code == Code.SUBSCRIBE_DENIED
    assert not stranger.take_all(DocumentGetReply)
    await desk.close()
