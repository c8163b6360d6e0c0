"""Who keeps sending bad requests is sent away; who merely meets a store in trouble is not."""

from pathlib import Path

import pytest

from arauto.codec.events import (
    Ack,
    DocumentChangeRequest,
    ErrorEvent,
    Operation,
    Ping,
    Pong,
    PublishItem,
    PublishRequest,
    Request,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code
from tests.integration.conftest import StartNode
from tests.integration.wire import Wire, connect

MANY = 150
BAD = PublishRequest(items=(PublishItem(channel="", payload=b""),))


async def still_there(wire: Wire) -> bool:
    return await wire.ask(Ping(id=MANY + 1), Pong) is not None


async def test_a_store_in_trouble_sends_nobody_away(tmp_path: Path, start_node: StartNode) -> None:
    rules = {"clientPublish": True, "store": "all"}
    node = await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)},
        hub={"defaults": {"defaultPublic": True}, "defaultRules": rules},
    )
    wire = await connect(node.url)
    operations = (Operation(op="add", path="/a", value=1),)
    change = DocumentChangeRequest(channel="doc:a", operations=operations)
    wire.send(change)
    assert await still_there(wire)
    await node.node.storage.close()

    for n in range(1, MANY):
        wire.send(DocumentChangeRequest(id=n, channel="doc:a", operations=operations))
        refused = await wire.next(ErrorEvent)
        assert (refused.id, refused.code) == (n, Code.STORAGE_UNAVAILABLE)
    for n in range(1, MANY):
        # Channels that cannot even be opened.
        item = PublishItem(channel=f"a{n}", payload=b"x")
        ack = await wire.ask(PublishRequest(id=n, items=(item,)), Ack)
        assert ack.results[0].error is not None
        assert ack.results[0].error.code == Code.STORAGE_UNAVAILABLE
        items = (SubscribeItem(channel=f"a{n}"),)
        reply = await wire.ask(SubscribeRequest(id=n, items=items), SubscribeReply)
        assert reply.results[0].error is not None
    assert await still_there(wire)


@pytest.mark.parametrize("request_", [BAD, SubscribeRequest(items=(SubscribeItem(channel=""),))])
async def test_who_sends_only_bad_requests_is_sent_away(
    start_node: StartNode, request_: Request
) -> None:
    node = await start_node(session={"errorsMax": 10})
    wire = await connect(node.url)
    for _ in range(11):
        wire.send(request_)
    await wire.next(ErrorEvent, lambda event: event.code == Code.TOO_MANY_ERRORS)
    await wire.closed.wait()
    assert wire.close_code == 4507


async def test_a_limit_of_zero_means_none(start_node: StartNode) -> None:
    node = await start_node(session={"errorsMax": 0})
    wire = await connect(node.url)
    for _ in range(MANY):
        wire.send(BAD)
    assert await still_there(wire)
