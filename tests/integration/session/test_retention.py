"""Recovery where stored messages are kept for a time only."""

from pathlib import Path

from arauto.codec.events import (
    Ack,
    HistoryReply,
    HistoryRequest,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from tests.integration.conftest import StartNode
from tests.integration.wire import Wire, connect


async def stored(wire: Wire, id: int, payload: bytes) -> Ack:
    item = PublishItem(channel="log", payload=payload)
    return await wire.ask(PublishRequest(id=id, items=(item,)), Ack)


async def test_messages_that_were_kept_too_short_are_not_recovered_in_silence(
    start_node: StartNode, tmp_path: Path
) -> None:
    """With `storeS`, what had expired was left out and the client told that it had everything."""
    node = await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)},
        hub={
            "defaults": {"defaultPublic": True},
            "defaultRules": {
                "clientPublish": True,
                "store": "all",
                "storeS": 0.05,
                "liveHistoryLen": 0,
            },
        },
    )
    wire = await connect(node.url)
    seen = (await stored(wire, 1, b"seen")).results[0].serial
    await stored(wire, 2, b"soon gone")
    while True:
        page = await wire.ask(HistoryRequest(id=3, channel="log"), HistoryReply)
        if not page.messages:
            break
    assert not page.complete
    await stored(wire, 4, b"still there")
    back = await connect(node.url)
    again = SubscribeRequest(id=1, items=(SubscribeItem(channel="log", since=seen),))
    assert not (await back.ask(again, SubscribeReply)).results[0].recovered
