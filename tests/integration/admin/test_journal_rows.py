"""Where publications without a session came from, and who subscribed: what the journal of a node says."""

import httpx
import pytest

from arauto.codec.events import (
    Ack,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.storage.base import JournalEntry, Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import connect


async def _rows(node: RunningNode, kind: Kind) -> list[JournalEntry]:
    journal = node.node.storage.journal
    await journal.flush()
    return [entry for _, entry in await journal.read(0, 1_000) if entry.kind is kind]


async def test_a_stored_message_without_a_session_has_an_origin(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop/rules/kept", {"public": True, "store": "all"})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/n", {"rules": "kept"})
    body = {"messages": [{"channel": "n:1", "text": "x"}]}
    await admin.ok("POST", "/v1/hubs/shop/publish", body)
    granted = {"public": True, "store": "all", "clientPublish": True}
    await admin.ok("PUT", "/v1/hubs/shop/rules/kept", granted)
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        response = await client.post("/v1/publish?hub=shop", json=body)
    assert response.status_code == 200
    wire = await connect(node.url)
    request = PublishRequest(id=1, items=(PublishItem(channel="n:1", payload=b"x"),))
    await wire.ask(request, Ack)
    rows = await _rows(node, Kind.MESSAGE)
    assert [row.origin for row in rows] == ["admin 127.0.0.1", "http 127.0.0.1", ""]
    assert [bool(row.session) for row in rows] == [False, False, True]


async def test_an_origin_reaches_no_subscriber_and_no_history(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop/rules/kept", {"public": True, "store": "all"})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/n", {"rules": "kept"})
    wire = await connect(node.url)
    await wire.ask(SubscribeRequest(id=1, items=(SubscribeItem(channel="n:1"),)), SubscribeReply)
    body = {"messages": [{"channel": "n:1", "text": "x"}]}
    await admin.ok("POST", "/v1/hubs/shop/publish", body)
    assert (await wire.next(Publication)).message.origin == ""
    history = await admin.get("/v1/hubs/shop/history", params={"channel": "n:1"})
    assert len(history.json()["messages"]) == 1
    assert "127.0.0.1" not in history.text


@pytest.mark.parametrize("enabled", [True, False])
async def test_subscriptions_are_recorded_unless_the_configuration_says_no(
    start_node: StartNode, enabled: bool
) -> None:
    node = await start_node(journal={"subscriptions": enabled})
    wire = await connect(node.url)
    await wire.ask(SubscribeRequest(id=1, items=(SubscribeItem(channel="a*"),)), SubscribeReply)
    rows = await _rows(node, Kind.SUBSCRIBE)
    assert [row.channel for row in rows] == ["a*"] * enabled
