"""Live documents: the local copy is always a version the node had, and catches up by itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arauto.client import Client, State, Update
from arauto.codec.events import (
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentInfo,
    DocumentUpdated,
    ErrorEvent,
    Operation,
    SubscribeRequest,
    UnsubscribeReply,
)
from arauto.codec.unread import operations_of
from arauto.errors import ArautoError, Code
from arauto.features.document import patch as engine
from tests.unit.client.conftest import LoopClock, eventually
from tests.unit.client.fake_node import FakeNode, Peer, message
from tests.unit.client.test_client_connection import States

Make = Callable[..., Client]


class Documents:
    """The document side of a fake node: one document, changed with the node's own engine."""

    def __init__(self, node: FakeNode, value: Any = None, version: int = 0) -> None:
        self.node = node
        self.document = engine.Document(value)
        self.version = version
        self.echo = True
        self.gets = 0
        node.handlers[DocumentGetRequest] = self.on_get
        node.handlers[DocumentChangeRequest] = self.on_change
        node.handlers[SubscribeRequest] = self.on_subscribe

    def on_subscribe(self, peer: Peer, request: SubscribeRequest) -> None:
        self.node.on_subscribe(peer, request)
        peer.send(DocumentInfo(channel="doc:a", version=self.version))

    def on_get(self, peer: Peer, request: DocumentGetRequest) -> None:
        self.gets += 1
        peer.send(self.snapshot(request.id))

    def snapshot(self, id: int) -> DocumentGetReply:
        return DocumentGetReply(
            id=id, channel="doc:a", version=self.version, value=self.document.value
        )

    def on_change(self, peer: Peer, request: DocumentChangeRequest) -> None:
        try:
            update = self.change(*operations_of(request))
        except ArautoError as error:
            peer.send(ErrorEvent(id=request.id, code=int(error.code), message=error.message))
            return
        if self.echo:
            peer.send(update)
        peer.send(DocumentChangeReply(id=request.id, channel="doc:a", version=self.version))

    def change(self, *operations: Operation) -> DocumentUpdated:
        applied = engine.apply(self.document, operations)
        self.version += 1
        return DocumentUpdated(
            channel="doc:a",
            version=self.version,
            operations=applied.operations,
            user="eve",
            ts_ms=5,
        )


def add(path: str, value: Any) -> Operation:
    return Operation(op="add", path=path, value=value)


@pytest.fixture
def documents(node: FakeNode) -> Documents:
    return Documents(node, {"cards": []}, 3)


async def test_a_document_opens_with_its_value_and_version(
    make: Make, documents: Documents, flavour: str
) -> None:
    async with make(flavour=flavour) as client, client.document("doc:a") as document:
        assert (document.value, document.version) == ({"cards": []}, 3)
        assert document.get("/cards") == []
    assert documents.gets == 1


async def test_others_changes_reach_the_copy_and_the_updates(
    make: Make, node: FakeNode, documents: Documents, flavour: str
) -> None:
    async with make(flavour=flavour) as client, client.document("doc:a") as document:
        peer = await node.peer()
        before = document.value
        peer.send(documents.change(add("/cards/-", "one")), documents.change(add("/x", b"\x00")))
        updates = document.updates()
        first, second = await anext(updates), await anext(updates)
        assert isinstance(first, Update)
        assert (first.version, first.value, first.user) == (4, {"cards": ["one"]}, "eve")
        assert first.operations == (add("/cards/-", "one"),)
        assert second.value == document.value == {"cards": ["one"], "x": b"\x00"}
        assert before == {"cards": []}


@pytest.mark.parametrize("echo", [True, False])
async def test_after_a_change_the_copy_has_it(
    make: Make, node: FakeNode, clock: LoopClock, documents: Documents, echo: bool
) -> None:
    documents.echo = echo
    async with make() as client, client.document("doc:a") as document:
        changing = asyncio.ensure_future(
            document.change(
                [
                    {"op": "add", "path": "/a/b", "value": 1},
                    {"op": "copy", "path": "/c", "from": "/a"},
                ]
            )
        )
        await eventually(lambda: documents.version == 4)
        if not echo:
            await eventually(lambda: bool(document._waiters))
            clock.advance(1)
        assert await changing == 4
        assert document.value == {"cards": [], "a": {"b": 1}, "c": {"b": 1}}


async def test_a_change_through_a_document_that_is_not_open_waits_for_no_copy(
    make: Make, documents: Documents
) -> None:
    async with make() as client:
        document = client.document("doc:a")
        assert await document.change([add("/a", 1)]) == 4
        assert documents.gets == 0
        assert not document._waiters


async def test_a_document_that_was_made_ready_follows_like_an_open_one(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client:
        document = await client.document("doc:a").ready()
        assert (document.value, document.version) == ({"cards": []}, 3)
        await document.change([add("/a", 1)])
        assert document.value == {"cards": [], "a": 1}
        async with document:
            assert documents.gets == 1
        assert document.subscription.is_ended


async def test_a_refused_change_changes_nothing(make: Make, documents: Documents) -> None:
    async with make() as client, client.document("doc:a") as document:
        with pytest.raises(ArautoError) as caught:
            await document.change([{"op": "remove", "path": "/nothing"}])
        assert caught.value.code is Code.BAD_OPERATION
        assert (document.value, document.version) == ({"cards": []}, 3)


async def test_a_condition_on_the_version_travels(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client, client.document("doc:a") as document:
        peer = await node.peer()
        await document.change([add("/a", 1)], if_version=3)
        await document.change([add("/a", 2)])
        assert (await peer.expect(DocumentChangeRequest)).if_version == 3
        assert (await peer.expect(DocumentChangeRequest)).if_version == -1


@pytest.mark.parametrize("operation", [{"op": "add"}, {"path": "/a"}, {"op": 1, "path": "/a"}])
async def test_an_operation_without_its_parts_is_refused_here(
    make: Make, documents: Documents, operation: dict[str, Any]
) -> None:
    async with make() as client, client.document("doc:a") as document:
        with pytest.raises(ArautoError) as caught:
            await document.change([operation])
        assert caught.value.code is Code.BAD_OPERATION


async def test_a_missing_version_makes_the_copy_fetch_the_document_anew(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client, client.document("doc:a") as document:
        peer = await node.peer()
        documents.change(add("/lost", 1))
        peer.send(documents.change(add("/seen", 2)))
        update = await anext(document.updates())
        assert (update.version, update.operations) == (5, ())
        assert document.value == {"cards": [], "lost": 1, "seen": 2}


async def test_an_update_that_does_not_fit_makes_the_copy_fetch_the_document_anew(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client, client.document("doc:a") as document:
        peer = await node.peer()
        documents.change(add("/new", 1))
        astray = Operation(op="remove", path="/not/there")
        peer.send(DocumentUpdated(channel="doc:a", version=4, operations=(astray,)))
        await anext(document.updates())
        assert (document.version, document.value) == (4, {"cards": [], "new": 1})


async def test_updates_that_come_during_the_first_snapshot_are_not_lost(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    def slow(peer: Peer, request: DocumentGetRequest) -> None:
        old = documents.snapshot(request.id)
        old = DocumentGetReply(id=request.id, channel="doc:a", version=3, value={"cards": []})
        peer.send(documents.change(add("/x", 1)), old)

    node.handlers[DocumentGetRequest] = slow
    async with make() as client, client.document("doc:a") as document:
        assert (document.version, document.value) == (4, {"cards": [], "x": 1})


async def test_after_a_reconnect_the_copy_catches_up(
    make: Make, node: FakeNode, clock: LoopClock, documents: Documents
) -> None:
    states = States()
    async with make(on_state_change=states) as client, client.document("doc:a") as document:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        documents.change(add("/missed", 1))
        clock.advance(0)
        assert (await anext(document.updates())).version == 4
        assert document.value == {"cards": [], "missed": 1}


async def test_a_node_that_lost_changes_is_believed(
    make: Make, node: FakeNode, clock: LoopClock, documents: Documents
) -> None:
    states = States()
    async with make(on_state_change=states) as client, client.document("doc:a") as document:
        (await node.peer()).drop()
        await states.reach(State.WAITING)
        documents.document, documents.version = engine.Document({"old": True}), 1
        clock.advance(0)
        await anext(document.updates())
        assert (document.version, document.value) == (1, {"old": True})


async def test_a_reader_that_is_too_slow_skips_to_the_latest_version(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client, client.document("doc:a") as document:
        peer = await node.peer()
        for index in range(1_001):
            peer.send(documents.change(add("/n", index)))
        await eventually(lambda: document.version == 1_004)
        update = await anext(document.updates())
        assert (update.version, update.operations, update.value["n"]) == (1_004, (), 1_000)


async def test_updates_end_with_the_document_and_raise_what_ended_it(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client:
        async with client.document("doc:a") as document:
            pass
        assert [update async for update in document.updates()] == []
        async with client.document("doc:a") as document:
            error = ErrorEvent(code=2005, message="no more")
            (await node.peer()).send(UnsubscribeReply(channels=("doc:a",), error=error))
            with pytest.raises(ArautoError) as caught:
                await anext(document.updates())
        assert caught.value.code is Code.SUBSCRIBE_DENIED


async def test_plain_messages_travel_on_the_same_channel(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    async with make() as client, client.document("doc:a") as document:
        (await node.peer()).publish(message("doc:a", 1, b"hello"))
        assert (await anext(document.subscription)).payload == b"hello"


async def test_a_document_that_cannot_be_read_leaves_no_subscription_behind(
    make: Make, node: FakeNode, documents: Documents
) -> None:
    node.handlers[DocumentGetRequest] = lambda peer, request: peer.send(
        ErrorEvent(id=request.id, code=1013, message="not a document")
    )
    async with make() as client:
        for _ in range(2):
            with pytest.raises(ArautoError) as caught:
                async with client.document("doc:a"):
                    pass
            assert caught.value.code is Code.WRONG_CHANNEL_TYPE
