"""What the node itself gets wrong has a number, a counter and a line in the log, over HTTP too."""

import httpx
import pytest
from structlog.testing import capture_logs

from arauto.codec.sse import StreamPositions
from arauto.errors import Code
from arauto.hub.directory import Directory
from tests.integration.conftest import RunningNode
from tests.integration.security.raw import KEY, hold_steady, opened
from tests.integration.session.test_sse import sessions_left

BODY = {"messages": [{"channel": "news", "text": "x"}]}
WAYS = [("POST", "/v1/publish?hub=shop", BODY), ("GET", "/v1/sse?hub=shop&channel=news", None)]


async def _mistake(*_: object, **__: object) -> None:
    raise RuntimeError("hunter2")


@pytest.mark.parametrize(("method", "path", "body"), WAYS, ids=["publish", "stream"])
async def test_a_request_that_fails_by_our_mistake_is_answered_with_a_number(
    node: RunningNode,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: object,
) -> None:
    monkeypatch.setattr(Directory, "look", _mistake)
    with capture_logs() as lines:
        async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
            answer = await client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (500, Code.SERVER_ERROR)
    assert "hunter2" not in answer.text
    assert node.node.metrics.total().refused == {Code.SERVER_ERROR: 1}
    assert [line["log_level"] for line in lines if "hunter2" in repr(line)] == ["error"]


async def test_a_stream_that_fails_by_our_mistake_ends_and_says_so_in_the_log(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistake(self: StreamPositions, data: bytes) -> bytes:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(StreamPositions, "rewrite", mistake)
    with capture_logs() as lines:
        async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
            answer = await client.get("/v1/sse?hub=shop&channel=news")
    assert (answer.status_code, answer.text) == (200, "")
    assert [line["log_level"] for line in lines if "hunter2" in repr(line)] == ["error"]
    await sessions_left(node, 0)


async def test_an_upgrade_that_fails_by_our_mistake_gives_its_place_back(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a page whose hub has to be asked whether it may: the connection once stayed, unread, for ever."""
    monkeypatch.setattr(Directory, "look", _mistake)
    request = (
        "GET /v1/ws?hub=shop HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {KEY}\r\n\r\n"
    )
    async with opened(node) as raw:
        await raw.send(request.encode())
        assert await raw.until_closed() == b""
        await hold_steady(node)
