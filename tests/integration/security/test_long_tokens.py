"""A token that is too long is refused at every door, and never taken for no token at all."""

import httpx
import jwt
import pytest

from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, opened

SECRET = "long-enough-to-be-a-secret-of-32-bytes"
CLAIMS = {"sub": "ana", "aud": "shop", "exp": 4_000_000_000, "extra": {"pad": "x" * 7_000}}
TOO_LONG = jwt.encode(CLAIMS, SECRET, algorithm="HS256")
OPAQUE = "z" * 9_000
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: arauto.v1.json\r\n"
)

pytestmark = pytest.mark.parametrize("token", [TOO_LONG, OPAQUE], ids=["jwt", "opaque"])


@pytest.fixture
async def open_node(start_node: StartNode) -> RunningNode:
    """A node where a stranger without a token would be let in."""
    return await start_node(hub={"defaults": {"defaultPublic": True}})


@pytest.mark.parametrize("where", ["header", "query"])
async def test_sse_refuses_it(open_node: RunningNode, token: str, where: str) -> None:
    params = {"hub": "shop", "channel": "a"} | ({"token": token} if where == "query" else {})
    headers = {"Authorization": f"Bearer {token}"} if where == "header" else {}
    async with (
        httpx.AsyncClient(base_url=open_node.http_url, timeout=10) as http,
        http.stream("GET", "/v1/sse", params=params, headers=headers) as answer,
    ):
        assert answer.status_code == 401


@pytest.mark.parametrize("where", ["header", "query"])
async def test_websocket_refuses_it(open_node: RunningNode, token: str, where: str) -> None:
    query = f"&token={token}" if where == "query" else ""
    bearer = f"Authorization: Bearer {token}\r\n" if where == "header" else ""
    async with opened(open_node) as raw:
        host = f"127.0.0.1:{open_node.port}"
        head = f"GET /v1/ws?hub=shop{query} HTTP/1.1\r\nHost: {host}\r\n{UPGRADE}{bearer}\r\n"
        await raw.send(head.encode())
        assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        _, first = await raw.frame()
        assert b'"code":200' in first
        assert await raw.close_code() == 4506


async def test_http_publish_refuses_it(open_node: RunningNode, token: str) -> None:
    body = {"messages": [{"channel": "a", "data": 1}]}
    async with httpx.AsyncClient(base_url=open_node.http_url, timeout=10) as http:
        bearer = {"Authorization": f"Bearer {token}"}
        answer = await http.post("/v1/publish?hub=shop", json=body, headers=bearer)
    assert answer.status_code == 401
