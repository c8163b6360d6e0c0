"""A store in trouble: clients learn that it is, and nothing about the machine; operators learn why."""

import sqlite3
from pathlib import Path

import httpx
import pytest
import structlog

from arauto.codec.events import (
    Ack,
    DocumentGetRequest,
    ErrorEvent,
    HistoryRequest,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code, StorageError
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import connect

_CODES = [code for code in Code if 6000 <= code < 7000]


@pytest.fixture
async def broken_node(tmp_path: Path, start_node: StartNode) -> RunningNode:
    """Its database lost its tables while it runs, so that SQLite itself has something to say."""
    rules = {"clientPublish": True, "store": "all"}
    node = await start_node(
        storage={"kind": "sqlite", "dataDir": str(tmp_path / "secret-place")},
        hub={"defaults": {"defaultPublic": True}, "defaultRules": rules},
    )
    wire = await connect(node.url)
    item = PublishItem(channel="open", payload=b"x")
    assert (await wire.ask(PublishRequest(id=1, items=(item,)), Ack)).results[0].error is None
    await wire.close()
    [file] = (tmp_path / "secret-place").glob("*.db")
    with sqlite3.connect(file) as outside:
        for table in ("journal", "kv", "kv_list", "kv_item", "document", "setting"):
            outside.execute(f"ALTER TABLE {table} RENAME TO {table}_gone")
    outside.close()
    return node


def _is_plain(text: str) -> bool:
    return not any(word in text.lower() for word in ("secret-place", "sqlite", "table", "/", "sql"))


async def test_no_door_tells_a_stranger_paths_or_the_databases_words(
    broken_node: RunningNode,
) -> None:
    with structlog.testing.capture_logs() as logs:
        told = await _everything_a_stranger_is_told(broken_node)
    assert len(told) == 6
    assert [text for text in told if not _is_plain(text)] == []
    reasons = [line["reason"] for line in logs if line["event"] == "storage refused a request"]
    assert any("secret-place" in reason and "no such table" in reason for reason in reasons)


async def _everything_a_stranger_is_told(node: RunningNode) -> list[str]:
    wire = await connect(node.url)
    told = []
    for name in ("open", "new"):
        item = PublishItem(channel=name, payload=b"x")
        ack = await wire.ask(PublishRequest(id=1, items=(item,)), Ack)
        assert ack.results[0].error is not None
        told.append(ack.results[0].error)
    subscribe = SubscribeRequest(id=2, items=(SubscribeItem(channel="other"),))
    reply = await wire.ask(subscribe, SubscribeReply)
    assert reply.results[0].error is not None
    told.append(reply.results[0].error)
    told.append(await wire.ask(HistoryRequest(id=3, channel="open"), ErrorEvent))
    told.append(await wire.ask(DocumentGetRequest(id=4, channel="doc:a"), ErrorEvent))
    assert {error.code for error in told} <= set(map(int, _CODES))
    async with httpx.AsyncClient(base_url=node.http_url) as http:
        body = {"messages": [{"channel": "open", "data": 1}]}
        answer = await http.post("/v1/publish", params={"hub": "shop"}, json=body)
    assert '"code":60' in answer.text
    return [*(error.message for error in told), answer.text]


@pytest.mark.parametrize("code", _CODES, ids=lambda code: code.name)
def test_every_code_of_the_storage_has_a_sentence_of_its_own_for_clients(code: Code) -> None:
    error = StorageError(code, "the database failed: /srv/data (SQLITE_IOERR)")
    event = ErrorEvent.of(error)
    assert event.message
    assert "/srv" not in event.message
    assert "/srv" in str(error)
