"""Clients reach a node through nginx and HAProxy, set up word for word as the operations page says."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import msgspec
import pytest
from picows import WSInvalidStatusError, ws_connect

from arauto.client import Client
from arauto.codec.events import Ping, Pong, SessionInfo
from arauto.codec.json import JsonCodec
from arauto.errors import Code
from tests.integration.conftest import RunningNode, StartNode, start_node
from tests.integration.wire import Wire
from tests.interop.proxies import PROXIES, Proxy

__all__ = ["start_node"]

_PAGE = "https://live.example.com"

StartProxy = Callable[..., Awaitable[Proxy]]


@pytest.fixture(params=PROXIES)
async def start_proxy(request: pytest.FixtureRequest) -> AsyncIterator[StartProxy]:
    """Start a proxy with `await start_proxy(node)`; it ends with the test."""
    started: list[Proxy] = []

    async def start(node: RunningNode, patience: str = "75s") -> Proxy:
        proxy = Proxy(request.param, node.port, patience)
        started.append(proxy)
        await proxy.started()
        return proxy

    yield start
    for proxy in started:
        proxy.remove()


async def connect(proxy: Proxy, **headers: str) -> Wire:
    """A client without comforts, through the proxy."""
    extra = [("Sec-WebSocket-Protocol", "arauto.v1.json"), *headers.items()]
    _, wire = await ws_connect(
        lambda: Wire(JsonCodec()),
        f"{proxy.url}/v1/ws?hub=shop",
        ssl_context=proxy.tls,
        extra_headers=extra,
    )
    assert isinstance(wire, Wire)
    return wire


class Stream:
    """Reads server-sent events one by one."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.last_id = ""

    async def next(self, name: str) -> dict[str, object]:
        """The data of the next event of that name."""
        event = ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                event = value
            elif field == "data" and event == name:
                found: dict[str, object] = msgspec.json.decode(value)
                return found
        raise EOFError(name)


def http(proxy: Proxy) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=proxy.http_url, verify=proxy.tls, timeout=10)


async def test_a_websocket_client_publishes_and_receives(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    proxy = await start_proxy(await start_node())
    async with Client(proxy.url, hub="shop", ssl_context=proxy.tls) as client:
        stock = await client.subscribe("stock:42").ready()
        await client.publish("stock:42", {"qty": 3})
        message = await anext(aiter(stock))
    assert message.data == {"qty": 3}


async def test_events_of_a_stream_arrive_while_it_is_open(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """A proxy that buffers would hold them back until the stream ends, which it never does."""
    proxy = await start_proxy(await start_node())
    url = "/v1/sse?hub=shop&channel=stock:42"
    body = {"messages": [{"channel": "stock:42", "data": {"qty": 3}}]}
    async with http(proxy) as client, client.stream("GET", url) as response:
        events = Stream(response)
        await events.next("subscribe")
        (await client.post("/v1/publish?hub=shop", json=body)).raise_for_status()
        message = await events.next("publish")
    assert message["data"] == {"qty": 3}


async def test_a_stream_goes_on_where_it_broke_off(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    node = await start_node()
    proxy = await start_proxy(node)
    url = "/v1/sse?hub=shop&channel=stock:42"
    async with http(proxy) as client, Client(node.url, hub="shop") as publisher:
        async with client.stream("GET", url) as response:
            events = Stream(response)
            await events.next("subscribe")
            await publisher.publish("stock:42", 1)
            await events.next("publish")
        await publisher.publish("stock:42", 2)
        returning = {"Last-Event-ID": events.last_id}
        async with client.stream("GET", url, headers=returning) as response:
            events = Stream(response)
            [result] = msgspec.convert(
                (await events.next("subscribe"))["results"], list[dict[str, object]]
            )
            message = await events.next("publish")
    assert (result["recovered"], message["data"]) == (True, 2)


async def test_heartbeats_keep_a_silent_connection_open_beyond_the_proxys_patience(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    node = await start_node(session={"pingIntervalS": 1, "pongTimeoutS": 0.5})
    proxy = await start_proxy(node, patience="3s")
    wire = await connect(proxy)
    await wire.next(SessionInfo)
    for _ in range(4):
        ping = await wire.next(Ping)
        wire.send(Pong(id=ping.id))
    assert not wire.closed.is_set()
    await wire.close()


async def test_a_page_behind_a_tls_proxy_needs_its_origin_on_the_list(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """The node does not know under which name the proxy is reached, so the page is a stranger."""
    proxy = await start_proxy(await start_node())
    with pytest.raises(WSInvalidStatusError, match="403"):
        await connect(proxy, Origin=_PAGE)
    page = {"Origin": _PAGE, "Host": "live.example.com"}
    async with http(proxy) as client:
        refused = await client.get("/v1/sse?hub=shop&channel=stock:42", headers=page)
    assert (refused.status_code, refused.json()["code"]) == (403, Code.ORIGIN_DENIED)


async def test_a_page_whose_origin_is_on_the_list_is_let_in(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    proxy = await start_proxy(await start_node(connection={"port": 0, "allowedOrigins": [_PAGE]}))
    wire = await connect(proxy, Origin=_PAGE)
    assert (await wire.next(SessionInfo)).hub == "shop"
    await wire.close()
    async with http(proxy) as client:
        url = "/v1/sse?hub=shop&channel=stock:42"
        async with client.stream("GET", url, headers={"Origin": _PAGE}) as response:
            assert response.status_code == 200
            assert response.headers["access-control-allow-origin"] == _PAGE


async def test_clients_and_pages_of_the_proxys_own_name_are_let_in_once_it_is_named(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    node = await start_node(connection={"port": 0, "allowedHosts": ["live.example.com"]})
    proxy = await start_proxy(node)
    url = "/v1/sse?hub=shop&channel=stock:42"
    async with http(proxy) as client:
        for headers in ({"Origin": _PAGE}, {}):
            own = {"Host": "live.example.com", **headers}
            async with client.stream("GET", url, headers=own) as response:
                assert response.status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/openapi.json", "/v1"])
async def test_nothing_but_the_client_api_is_shown(
    start_node: StartNode, start_proxy: StartProxy, path: str
) -> None:
    proxy = await start_proxy(await start_node())
    async with http(proxy) as client:
        assert (await client.get(path)).status_code in (301, 403, 404)
