"""Publishing over the client port's HTTP API: `POST /v1/publish?hub=…`."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest

from arauto.codec.events import Publication, SubscribeItem, SubscribeReply, SubscribeRequest
from arauto.errors import Code
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode
from tests.integration.wire import connect

PATH = "/v1/publish?hub=shop"
SECRET = "shared-by-issuer-and-node-32-bytes"


@pytest.fixture
async def client(node: RunningNode) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        yield client


async def test_messages_are_published_and_each_has_its_outcome(
    node: RunningNode, client: httpx.AsyncClient
) -> None:
    wire = await connect(node.url)
    await wire.ask(SubscribeRequest(id=1, items=(SubscribeItem(channel="a"),)), SubscribeReply)
    messages = [{"channel": "a", "data": [1]}, {"channel": "b*", "text": "x"}]
    response = await client.post(PATH, json={"messages": messages})
    assert response.status_code == 200
    assert set(response.json()) == {"results"}
    good, bad = response.json()["results"]
    assert good["serial"]["offset"] == 1
    assert bad["error"]["code"] == Code.BAD_CHANNEL_NAME
    assert (await wire.next(Publication)).message.payload == b"[1]"


async def test_a_token_decides_where_one_may_publish(
    node: RunningNode, admin: Admin, client: httpx.AsyncClient
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {"jwt": {"algorithm": "HS256", "secret": SECRET}})
    await admin.ok("PUT", "/v1/hubs/shop/rules/strict", {"clientPublish": False})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/news", {"rules": "strict"})
    now_s = node.node.clock.wall_ms() // 1_000
    grants = {"channels": [{"channel": "news:1", "publish": True}]}
    claims = {"sub": "ann", "aud": "shop", "iat": now_s, "exp": now_s + 60, "grants": grants}
    bearer = {"Authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}
    body = {"messages": [{"channel": f"news:{n}", "text": "x"} for n in (1, 2)]}
    results = (await client.post(PATH, json=body, headers=bearer)).json()["results"]
    assert "serial" in results[0]
    assert results[1]["error"]["code"] == Code.PUBLISH_DENIED
    wrong = await client.post(PATH, json=body, headers={"Authorization": "Bearer x.y.z"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, Code.TOKEN_INVALID)


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        (PATH, {}, 400, "messages"),
        (PATH, {"event": "publish", "messages": []}, 400, "messages"),
        (PATH, {"messages": [{"text": "x"}]}, 400, "messages[0].channel"),
        (PATH, {"messages": [{"channel": "a", "text": "x"}] * 1_001}, 413, "messages"),
        ("/v1/publish", {"messages": [{"channel": "a", "text": "x"}]}, 400, "hub"),
        ("/v1/publish?hub=a%20b", {"messages": [{"channel": "a", "text": "x"}]}, 400, "hub"),
    ],
)
async def test_bad_requests_are_refused_by_field_and_make_no_hub(
    node: RunningNode, client: httpx.AsyncClient, path: str, body: Any, status: int, field: str
) -> None:
    response = await client.post(path, json=body)
    assert (response.status_code, response.json()["field"]) == (status, field)
    assert node.node.directory.hubs == {}


async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    for content in (b"", b"{", b"\xff", b'{"messages":[{"channel":"a","data":"\xff"}]}', b"null"):
        response = await client.post(PATH, content=content)
        assert response.status_code == 400
