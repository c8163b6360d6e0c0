"""Whoever is refused before there is a session is on record with the hub that they asked for."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import msgspec
import pytest

from arauto.codec.events import ErrorEvent, SessionInfo
from arauto.errors import Code
from arauto.storage.base import JournalEntry, Kind
from tests.integration.conftest import RunningNode
from tests.integration.wire import connect

BODY = {"messages": [{"channel": "news", "text": "x"}]}
BEARER = {"Authorization": "Bearer x.y.z"}


async def publish(node: RunningNode, hub: str) -> None:
    await ask(node, "POST", f"/v1/publish?hub={hub}", BODY)


async def stream(node: RunningNode, hub: str) -> None:
    await ask(node, "GET", f"/v1/sse?hub={hub}&channel=news")


async def look_at_rule(node: RunningNode, hub: str) -> None:
    await ask(node, "GET", f"/v1/correlations/r?hub={hub}")


async def join(node: RunningNode, hub: str) -> None:
    wire = await connect(node.url, hub=hub, token="x.y.z")
    await wire.next(ErrorEvent)
    await wire.close()


async def ask(node: RunningNode, method: str, path: str, body: object = None) -> None:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        answer = await client.request(method, path, json=body, headers=BEARER)
        assert answer.json()["code"] in (Code.AUTH_FAILED, Code.TOKEN_INVALID)


async def refusals(node: RunningNode, count: int) -> list[JournalEntry]:
    """The first refusals on record, when there are so many."""
    async with asyncio.timeout(10):
        while True:
            rows = await node.node.storage.journal.read(0, 1_000)
            found = [entry for _, entry in rows if entry.kind is Kind.ERROR]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("attempt", [publish, stream, look_at_rule, join])
async def test_a_bad_token_is_on_record_with_its_hub_however_it_came(
    node: RunningNode, attempt: Callable[[RunningNode, str], Awaitable[None]]
) -> None:
    wire = await connect(node.url, hub="shop")
    await wire.next(SessionInfo)
    await attempt(node, "shop")
    await attempt(node, "made-up")
    known, unknown = await refusals(node, 2)
    assert known.hub == "shop"
    assert unknown.hub == "", "a name that anybody can make up is no tenant"
    details = msgspec.json.decode(known.payload)
    assert details["code"] in (Code.AUTH_FAILED, Code.TOKEN_INVALID)
    assert details["address"] == "127.0.0.1"
    assert node.node.metrics.hub("shop").refused == {details["code"]: 1}
    await wire.close()
