"""Pages of other origins get neither a WebSocket nor a stream nor a publication (T8)."""

import asyncio

import httpx
import msgspec
import pytest

from arauto.settings import HubSettings
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, hold_steady, opened

ALLOWED = "https://shop.example"

#: Origin, and whether a node that allows `ALLOWED` lets its pages in.
MATRIX = [
    (None, True),
    ("https://shop.example", True),
    ("https://SHOP.example:443", True),
    ("http://{own}", True),
    ("null", False),
    ("https://shop.example.evil.example", False),
    ("https://evil-shop.example", False),
    ("http://shop.example", False),
    ("https://shop.example:444", False),
    ("https://evil.example", False),
    ("http://127.0.0.1", False),
    ("http://localhost:{port}", False),
    ("file://", False),
    ("", False),
]


@pytest.fixture
async def guarded(start_node: StartNode) -> RunningNode:
    return await start_node(connection={"port": 0, "allowedOrigins": [ALLOWED]})


def spelled(origin: str | None, node: RunningNode) -> str | None:
    return origin and origin.format(own=f"127.0.0.1:{node.port}", port=node.port)


async def handshake(node: RunningNode, origin: str | None, hub: str = "shop") -> int:
    line = "" if origin is None else f"Origin: {origin}\r\n"
    async with opened(node) as raw:
        await raw.send(
            f"GET /v1/ws?hub={hub} HTTP/1.1\r\nHost: 127.0.0.1:{node.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
            f"{line}\r\n".encode()
        )
        async with asyncio.timeout(10):
            status = await raw.reader.readexactly(12)
    return int(status[9:])


async def stream(node: RunningNode, origin: str | None, hub: str = "shop") -> httpx.Response:
    headers = {} if origin is None else {"Origin": origin}
    url = f"{node.http_url}/v1/sse?hub={hub}&channel=news"
    async with (
        httpx.AsyncClient(timeout=10) as client,
        client.stream("GET", url, headers=headers) as answer,
    ):
        return answer


async def post(node: RunningNode, origin: str | None, hub: str = "shop") -> httpx.Response:
    headers = {} if origin is None else {"Origin": origin}
    body = {"messages": [{"channel": "news", "text": "x"}]}
    async with httpx.AsyncClient(timeout=10) as client:
        return await client.post(
            f"{node.http_url}/v1/publish?hub={hub}", json=body, headers=headers
        )


@pytest.mark.parametrize(("origin", "allowed"), MATRIX)
async def test_the_matrix_of_origins_over_every_gateway(
    guarded: RunningNode, origin: str | None, allowed: bool
) -> None:
    origin = spelled(origin, guarded)
    assert await handshake(guarded, origin) == (101 if allowed else 403)
    streamed = await stream(guarded, origin)
    assert streamed.status_code == (200 if allowed else 403)
    posted = await post(guarded, origin)
    assert posted.status_code == (200 if allowed else 403)
    for answer in (streamed, posted):
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
        assert "access-control-allow-credentials" not in answer.headers
    await hold_steady(guarded)


async def test_a_hub_may_allow_more_origins_also_before_it_is_open(start_node: StartNode) -> None:
    node = await start_node(connection={"port": 0})
    settings = HubSettings(default_public=True, allowed_origins=(ALLOWED,))
    for hub in ("one", "two", "three"):
        await node.node.storage.settings.put("hub", hub, "", msgspec.json.encode(settings))
    assert await handshake(node, ALLOWED, "one") == 101
    assert (await stream(node, ALLOWED, "two")).status_code == 200
    assert (await post(node, ALLOWED, "three")).status_code == 200
    assert await handshake(node, "https://evil.example", "one") == 403
    assert await handshake(node, ALLOWED, "another") == 403
    assert await handshake(node, ALLOWED, "bad%20name") == 403
    assert (await stream(node, ALLOWED, "another")).status_code == 403
    await hold_steady(node)


async def test_a_page_that_leaves_while_its_hub_opens_leaves_nothing_behind(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_node(connection={"port": 0})
    gate = asyncio.Event()
    load = node.node.storage.settings.load

    async def slow_load(hub: str):  # type: ignore[no-untyped-def]
        await gate.wait()
        return await load(hub)

    monkeypatch.setattr(node.node.storage.settings, "load", slow_load)
    tasks = [asyncio.ensure_future(handshake(node, ALLOWED)) for _ in range(3)]
    await hold_steady(node, 3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    gate.set()
    await hold_steady(node)


@pytest.mark.parametrize("path", ["/v1/publish?hub=shop", "/v1/sse?hub=shop&channel=news"])
async def test_a_browsers_question_beforehand_is_answered_and_opens_nothing(
    guarded: RunningNode, path: str
) -> None:
    async with httpx.AsyncClient(timeout=10) as client:
        yes = await client.options(guarded.http_url + path, headers={"Origin": ALLOWED})
        no = await client.options(
            guarded.http_url + path, headers={"Origin": "https://evil.example"}
        )
    assert yes.status_code == 204
    assert "authorization" in yes.headers["access-control-allow-headers"]
    assert no.status_code == 403
    hub = guarded.node.directory.hubs.get("shop")
    assert hub is None or not hub.sessions


async def test_a_stream_is_asked_for_with_get_only(guarded: RunningNode) -> None:
    async with httpx.AsyncClient(timeout=10) as client:
        for method in ("POST", "PUT", "DELETE", "HEAD"):
            answer = await client.request(method, f"{guarded.http_url}/v1/sse?hub=shop&channel=a")
            assert answer.status_code == 400
