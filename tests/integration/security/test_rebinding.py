"""A page whose name was made to lead here gets nothing: no socket, no stream, no publication (T8)."""

import asyncio

import pytest

from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, hold_steady, opened

OPEN = "0.0.0.0"
BODY = '{"messages":[{"channel":"news","text":"x"}]}'
LINES = {
    "socket": (
        "GET /v1/ws?hub=shop",
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {KEY}\r\n",
        "",
    ),
    "stream": ("GET /v1/sse?hub=shop&channel=news", "", ""),
    "publication": ("POST /v1/publish?hub=shop", f"Content-Length: {len(BODY)}\r\n", BODY),
    "rule": ("GET /v1/correlations/x?hub=shop", "", ""),
    "question": ("OPTIONS /v1/publish?hub=shop", "", ""),
    "health": ("GET /healthz", "", ""),
}
REQUESTS = pytest.mark.parametrize("request_lines", LINES.values(), ids=LINES)


async def answer(
    node: RunningNode, lines: tuple[str, str, str], host: str | None, origin: str | None
) -> tuple[int, str]:
    """The status, and all that was read until then."""
    line, headers, body = lines
    if host is not None:
        headers += f"Host: {host}\r\n"
    if origin is not None:
        headers += f"Origin: {origin}\r\n"
    version = "HTTP/1.1" if host is not None or "websocket" in headers else "HTTP/1.0"
    async with opened(node) as raw:
        await raw.send(f"{line} {version}\r\n{headers}\r\n{body}".encode())
        async with asyncio.timeout(10):
            head = (await raw.reader.readuntil(b"\r\n\r\n")).decode()
            told = await raw.reader.readuntil(b"}") if head[9:12] == "403" else b""
    return int(head[9:12]), told.decode()


def is_refused(got: tuple[int, str]) -> bool:
    return got[0] == 403 and '"code":2009' in got[1]


@REQUESTS
async def test_a_page_of_a_name_that_leads_to_loopback_gets_nothing(
    node: RunningNode, request_lines: tuple[str, str, str]
) -> None:
    host = f"evil.example:{node.port}"
    for origin in (f"http://{host}", None):
        got = await answer(node, request_lines, host, origin)
        assert is_refused(got)
        assert "connection.allowedHosts" in got[1]
    assert "shop" not in node.node.directory.hubs
    await hold_steady(node)


@REQUESTS
async def test_pages_and_programs_that_name_the_address_are_let_in(
    node: RunningNode, request_lines: tuple[str, str, str]
) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{node.port}"
        for origin in (f"http://{host}", None):
            assert not is_refused(await answer(node, request_lines, host, origin))
    # An old health check names nothing at all, which no browser does.
    assert not is_refused(await answer(node, request_lines, None, None))


@REQUESTS
@pytest.mark.parametrize("bound", ["127.0.0.1", OPEN])
async def test_a_configured_name_is_the_nodes_own_also_behind_tls(
    start_node: StartNode, request_lines: tuple[str, str, str], bound: str
) -> None:
    settings = {"port": 0, "host": bound, "allowedHosts": ["live.example.com"]}
    node = await start_node(connection=settings)
    for origin in ("https://live.example.com", "http://live.example.com", None):
        assert not is_refused(await answer(node, request_lines, "live.example.com", origin))
    assert is_refused(await answer(node, request_lines, "live.example.com", "https://evil.example"))
    for origin in ("http://evil.example", "https://live.example.com", None):
        assert is_refused(await answer(node, request_lines, "evil.example", origin))


@REQUESTS
async def test_a_page_on_the_list_needs_no_second_setting(
    start_node: StartNode, request_lines: tuple[str, str, str]
) -> None:
    page = "https://live.example.com"
    node = await start_node(connection={"port": 0, "allowedOrigins": [page]})
    for origin in (page, None):
        assert not is_refused(await answer(node, request_lines, "live.example.com", origin))


@REQUESTS
async def test_an_open_port_takes_programs_by_any_name_and_no_page_that_only_names_itself(
    start_node: StartNode, request_lines: tuple[str, str, str]
) -> None:
    node = await start_node(connection={"port": 0, "host": OPEN})
    host = f"evil.example:{node.port}"
    assert not is_refused(await answer(node, request_lines, host, None))
    got = await answer(node, request_lines, host, f"http://{host}")
    assert is_refused(got)
    assert "connection.allowedHosts" in got[1]
    for own in (f"192.168.1.20:{node.port}", f"127.0.0.1:{node.port}"):
        assert not is_refused(await answer(node, request_lines, own, f"http://{own}"))


@REQUESTS
@pytest.mark.parametrize("first", ["evil.example", "localhost"])
async def test_a_request_for_two_hosts_is_for_none(
    node: RunningNode, request_lines: tuple[str, str, str], first: str
) -> None:
    line, headers, body = request_lines
    for second in ("localhost", "evil.example"):
        two = (line, f"{headers}hOST: {first}\r\n", body)
        assert (await answer(node, two, second, None))[0] == 400
    assert "shop" not in node.node.directory.hubs
    await hold_steady(node)
