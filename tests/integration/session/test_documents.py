"""Documents through sessions: six operations, all or nothing, two clients that agree, and a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arauto.client.patch import apply
from arauto.codec.events import (
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentInfo,
    DocumentUpdated,
    ErrorEvent,
    Operation,
)
from arauto.errors import Code
from arauto.settings import NamespaceSettings, Rules
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.session.talk import FLAVOURS, publish, subscribed
from tests.integration.wire import Wire, connect


def op(kind: str, path: str, value: Any = None, source: str = "") -> Operation:
    return Operation(op=kind, path=path, value=value, source=source)


async def change(wire: Wire, *operations: Operation, id: int = 1, if_version: int = -1) -> int:
    request = DocumentChangeRequest(
        id=id, channel="doc:1", operations=operations, if_version=if_version
    )
    return (await wire.ask(request, DocumentChangeReply)).version


async def refused(wire: Wire, *operations: Operation, if_version: int = -1) -> ErrorEvent:
    request = DocumentChangeRequest(
        id=8, channel="doc:1", operations=operations, if_version=if_version
    )
    return await wire.ask(request, ErrorEvent)


async def read(wire: Wire) -> tuple[int, Any]:
    reply = await wire.ask(DocumentGetRequest(id=7, channel="doc:1"), DocumentGetReply)
    return reply.version, reply.value


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_all_six_operations_and_binary_values(node: RunningNode, flavour: str) -> None:
    wire = await connect(node.url, flavour=flavour)
    await change(wire, op("add", "/a/b/c", 1))  # missing parents are made
    await change(wire, op("replace", "/a/b/c", [1, 2, 3]))
    await change(wire, op("copy", "/copy", source="/a/b"))
    await change(wire, op("move", "/moved", source="/a/b/c"))
    await change(wire, op("test", "/moved", [1, 2, 3]), op("add", "/moved/-", b"\x00\xff"))
    version = await change(wire, op("remove", "/moved/0"))
    assert version == 6
    wanted = {"a": {"b": {}}, "copy": {"c": [1, 2, 3]}, "moved": [2, 3, b"\x00\xff"]}
    assert await read(wire) == (6, wanted)
    await wire.close()


async def test_a_request_applies_whole_or_not_at_all(node: RunningNode) -> None:
    wire, reader = await connect(node.url), await connect(node.url)
    await subscribed(reader, "doc:1")
    await change(wire, op("add", "/stock", 5))
    error = await refused(wire, op("replace", "/stock", 4), op("test", "/stock", 99))
    assert error.code == Code.TEST_FAILED
    error = await refused(wire, op("replace", "/stock", 4), op("remove", "/nothing"))
    assert error.code == Code.BAD_OPERATION
    error = await refused(wire, op("replace", "/stock", 4), if_version=7)
    assert error.code == Code.VERSION_MISMATCH
    assert await read(wire) == (1, {"stock": 5})
    assert await change(wire, op("replace", "/stock", 4), if_version=1) == 2
    updates = [await reader.next(DocumentUpdated) for _ in range(2)]
    assert [update.version for update in updates] == [1, 2]
    assert not [event for event in reader.events if isinstance(event, DocumentUpdated)]
    for each in (wire, reader):
        await each.close()


async def test_a_subscriber_learns_the_version_and_then_every_change(node: RunningNode) -> None:
    wire, late = await connect(node.url), await connect(node.url)
    for number in range(3):
        await change(wire, op("add", f"/n{number}", number))
    await subscribed(late, "doc:*")
    info = await late.next(DocumentInfo)
    assert (info.channel, info.version) == ("doc:1", 3)
    version, value = await read(late)
    await change(wire, op("remove", "/n0"))
    update = await late.next(DocumentUpdated)
    assert update.version == version + 1
    assert [(each.op, each.path) for each in update.operations] == [("remove", "/n0")]
    assert apply(value, update.operations) == {"n1": 1, "n2": 2}
    wire.send(publish("doc:1", b"and plain messages too"))
    assert await late.messages(1) == [b"and plain messages too"]
    for each in (wire, late):
        await each.close()


async def test_two_clients_that_write_at_once_end_up_with_the_same(node: RunningNode) -> None:
    writers = [await connect(node.url, flavour=flavour) for flavour in FLAVOURS]
    for wire in writers:
        await subscribed(wire, "doc:1")
    for number in range(50):
        for who, wire in enumerate(writers):
            operation = op("add", f"/w{who}/-", number) if number else op("add", f"/w{who}", [])
            wire.send(DocumentChangeRequest(channel="doc:1", operations=(operation,)))
    copies = []
    for wire in writers:
        value: Any = {}
        versions = []
        for _ in range(100):
            update = await wire.next(DocumentUpdated)
            versions.append(update.version)
            value = apply(value, update.operations)
        assert versions == list(range(1, 101))
        copies.append(value)
    assert copies[0] == copies[1] == (await read(writers[0]))[1]
    assert copies[0] == {"w0": list(range(1, 50)), "w1": list(range(1, 50))}
    for wire in writers:
        await wire.close()


async def test_who_may_only_read_may_not_change(node: RunningNode) -> None:
    await node.set("rules", "shop", "readable", Rules(public=True, client_publish=False))
    await node.set("namespace", "shop", "doc", NamespaceSettings(rules="readable"))
    wire = await connect(node.url)
    error = await refused(wire, op("add", "/a", 1))
    assert (error.code, error.field) == (Code.PUBLISH_DENIED, "channel")
    assert await read(wire) == (0, {})
    await wire.close()


async def test_strict_documents_create_no_parents(node: RunningNode) -> None:
    strict = Rules(public=True, client_publish=True, document_strict=True)
    await node.set("rules", "shop", "strict", strict)
    await node.set("namespace", "shop", "doc", NamespaceSettings(rules="strict"))
    wire = await connect(node.url)
    assert (await refused(wire, op("add", "/a/b", 1))).code == Code.BAD_OPERATION
    assert await change(wire, op("add", "/a", {}), op("add", "/a/b", 1)) == 1
    await wire.close()


async def test_a_document_may_not_outgrow_its_limit(start_node: StartNode) -> None:
    node = await start_node(limits={"documentBytesMax": 5_000})
    wire = await connect(node.url)
    await change(wire, op("add", "/a", "x" * 2_000))
    error = await refused(wire, op("add", "/b", "x" * 4_000))
    assert error.code == Code.DOCUMENT_TOO_LARGE
    assert (await read(wire))[0] == 1
    await wire.close()


async def test_every_acknowledged_change_is_there_after_a_restart(
    start_node: StartNode, tmp_path: Path
) -> None:
    storage = {"kind": "sqlite", "dataDir": str(tmp_path / "data")}
    node = await start_node(storage=storage)
    wire = await connect(node.url)
    for number in range(30):
        await change(wire, op("add", f"/n{number}", b"%d" % number), id=number + 1)
    value = {f"n{number}": b"%d" % number for number in range(30)}
    await wire.close()
    await node.node.stop()
    for turn in range(2):
        again = await start_node(storage=storage)
        back = await connect(again.url)
        assert await read(back) == (30 + turn, value)
        value["turn"] = b"%d" % turn
        assert (
            await change(back, op("add", "/turn", b"%d" % turn), if_version=30 + turn) == 31 + turn
        )
        await back.close()
        await again.node.stop()


async def test_readers_and_writers_of_many_documents_do_not_wait_for_each_other(
    node: RunningNode,
) -> None:
    wires = [await connect(node.url) for _ in range(5)]

    async def work(number: int, wire: Wire) -> int:
        for turn in range(10):
            request = DocumentChangeRequest(
                id=turn + 1,
                channel=f"doc:{number}",
                operations=(op("add", f"/k{turn}", turn),),
            )
            await wire.ask(request, DocumentChangeReply)
        got = await wire.ask(DocumentGetRequest(id=99, channel=f"doc:{number}"), DocumentGetReply)
        return got.version

    assert await asyncio.gather(*(work(n, wire) for n, wire in enumerate(wires))) == [10] * 5
    for wire in wires:
        await wire.close()
