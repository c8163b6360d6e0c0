"""A node keeps what it acknowledged, on every backend it can be configured with."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from arauto.codec.events import (
    Ack,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    HistoryReply,
    HistoryRequest,
    Operation,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.model import Serial
from tests.integration.conftest import StartNode
from tests.integration.wire import connect
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer

STORE_ALL = {
    "defaults": {"defaultPublic": True},
    "defaultRules": {"clientPublish": True, "store": "all"},
}


def backend(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    storage = {"kind": "sqlite", "dataDir": str(tmp_path)}
    config: dict[str, Any] = {"hub": STORE_ALL, "storage": storage}
    if name.startswith("postgres"):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        database = f"node_{abs(hash(tmp_path))}"
        asyncio.run(_create(server.url(), database))
        login = {"host": str(server.directory), "user": "arauto", "sslMode": "disable"}
        config["storage"] = {"kind": "postgres", "postgres": login | {"database": database}}
    if name.endswith("redis"):
        redis: RedisServer = request.getfixturevalue("redis_server")
        config["keyValue"] = {"kind": "redis"}
        config["redis"] = {"address": redis.url}
    return config


async def _create(url: str, database: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f'CREATE DATABASE "{database}"')
    await connection.close()


@pytest.fixture(params=["sqlite", "sqlite+redis", "postgres", "postgres+redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return backend(request.param, tmp_path, request)


async def test_a_restarted_node_has_every_acknowledged_message_change_and_retained_value(
    kept: dict[str, Any], start_node: StartNode
) -> None:
    first = await start_node(**kept)
    wire = await connect(first.url)
    items = tuple(PublishItem(channel="orders", payload=b"%d" % n) for n in range(50))
    ack = await wire.ask(PublishRequest(id=1, items=items), Ack)
    serials = [result.serial for result in ack.results]
    assert all(serials)
    change = DocumentChangeRequest(
        id=2,
        channel="doc:board",
        operations=(Operation(op="add", path="/a/b", value=b"\x00\xff"),),
    )
    assert (await wire.ask(change, DocumentChangeReply)).version == 1
    retained = PublishItem(channel="price", payload=b"9.99", retain=True)
    await wire.ask(PublishRequest(id=3, items=(retained,)), Ack)
    await first.node.stop()

    second = await start_node(**kept)
    back = await connect(second.url)
    page = await back.ask(HistoryRequest(id=1, channel="orders", limit=100), HistoryReply)
    assert [m.payload for m in page.messages] == [b"%d" % n for n in range(50)]
    assert [m.serial for m in page.messages] == serials
    got = await back.ask(DocumentGetRequest(id=2, channel="doc:board"), DocumentGetReply)
    assert (got.version, got.value) == (1, {"a": {"b": b"\x00\xff"}})
    item = SubscribeItem(channel="price")
    await back.ask(SubscribeRequest(id=3, items=(item,)), SubscribeReply)
    assert await back.messages(1) == [b"9.99"]


async def test_a_subscriber_recovers_across_a_restart_from_the_store(
    kept: dict[str, Any], start_node: StartNode
) -> None:
    first = await start_node(**kept)
    wire = await connect(first.url)
    items = tuple(PublishItem(channel="orders", payload=b"%d" % n) for n in range(300))
    ack = await wire.ask(PublishRequest(id=1, items=items), Ack)
    seen = ack.results[9].serial
    assert seen is not None
    await first.node.stop()

    second = await start_node(**kept)
    back = await connect(second.url)
    again = SubscribeItem(channel="orders", since=Serial(seen.epoch, seen.offset))
    reply = await back.ask(SubscribeRequest(id=1, items=(again,)), SubscribeReply)
    assert reply.results[0].recovered
    assert await back.messages(290) == [b"%d" % n for n in range(10, 300)]
    more = PublishItem(channel="orders", payload=b"next")
    ack = await back.ask(PublishRequest(id=2, items=(more,)), Ack)
    assert ack.results[0].serial == Serial(seen.epoch, 301)
