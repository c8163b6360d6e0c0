"""A publisher whose acknowledgements were lost with the node may send everything again."""

from pathlib import Path
from typing import Any

from arauto.codec.events import Ack, HistoryReply, HistoryRequest, PublishItem, PublishRequest
from tests.integration.conftest import StartNode
from tests.integration.wire import connect

COUNT = 700


def stored(tmp_path: Path, **rules: Any) -> dict[str, Any]:
    """A configuration with a live history much shorter than what is published."""
    rules = {"clientPublish": True, "store": "all", "liveHistoryLen": 10, **rules}
    hub = {"defaults": {"defaultPublic": True}, "defaultRules": rules}
    return {"storage": {"kind": "sqlite", "dataDir": str(tmp_path)}, "hub": hub}


def request(id: int) -> PublishRequest:
    items = [
        PublishItem(channel="orders", payload=b"%d" % n, idempotency_key=f"k{n}")
        for n in range(COUNT)
    ]
    return PublishRequest(id=id, items=tuple(items))


async def test_every_key_of_the_window_is_known_after_a_restart_not_just_the_latest(
    tmp_path: Path, start_node: StartNode
) -> None:
    first = await start_node(**stored(tmp_path))
    wire = await connect(first.url)
    before = await wire.ask(request(1), Ack)
    await first.node.stop()

    second = await start_node(**stored(tmp_path))
    back = await connect(second.url)
    after = await back.ask(request(1), Ack)
    assert all(result.duplicate for result in after.results)
    assert [r.serial for r in after.results] == [r.serial for r in before.results]
    newest = await back.ask(HistoryRequest(id=2, channel="orders", limit=1), HistoryReply)
    assert newest.messages[0].payload == b"0"


async def test_a_key_whose_time_is_over_is_not_brought_back(
    tmp_path: Path, start_node: StartNode
) -> None:
    first = await start_node(**stored(tmp_path, idempotencyS=0))
    wire = await connect(first.url)
    await wire.ask(request(1), Ack)
    await first.node.stop()

    second = await start_node(**stored(tmp_path, idempotencyS=0))
    back = await connect(second.url)
    after = await back.ask(request(1), Ack)
    assert not any(result.duplicate for result in after.results)


async def test_keys_of_stored_messages_hold_where_nothing_is_stored_any_more(
    tmp_path: Path, start_node: StartNode
) -> None:
    first = await start_node(**stored(tmp_path))
    wire = await connect(first.url)
    before = await wire.ask(request(1), Ack)
    await first.node.stop()

    second = await start_node(**stored(tmp_path, store="never"))
    back = await connect(second.url)
    after = await back.ask(request(1), Ack)
    assert all(result.duplicate for result in after.results)
    assert [r.serial for r in after.results] == [r.serial for r in before.results]
