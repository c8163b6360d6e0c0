"""Who gets in to the admin port, and what attackers get."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from arauto.errors import ArautoError, Code
from arauto.node import Node
from tests.integration.admin.conftest import TOKEN, Admin
from tests.integration.conftest import RunningNode, StartNode, make_config

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def stranger(node: RunningNode) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token."""
    url = f"http://127.0.0.1:{node.node.admin_port.port}"
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        yield client


async def send_raw(node: RunningNode, data: bytes) -> bytes:
    """Send bytes and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.node.admin_port.port)
    writer.write(data)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


# --- the token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Basic {TOKEN}",
        f"Token {TOKEN}",
        TOKEN,
        "Bearer " + "x" * 10_000,
        "Bearer \xff\xfe",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/node"),
        ("GET", "/metrics"),
        ("PUT", "/v1/hubs/shop"),
        ("GET", "/nothing/here"),
        ("OPTIONS", "/v1/hubs"),
        ("GET", "/healthz/"),
        ("GET", "/openapi.json/x"),
    ],
)
async def test_without_the_right_token_everything_is_401(
    stranger: httpx.AsyncClient, authorization: str | None, method: str, path: str
) -> None:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    response = await stranger.request(method, path, headers=headers)
    assert (response.status_code, response.json()["code"]) == (401, Code.ADMIN_DENIED)
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_request_with_two_authorizations_is_refused_as_it_could_be_taken_for_two_things(
    node: RunningNode,
) -> None:
    request = (
        f"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )
    assert b" 400 " in await send_raw(node, request.encode())


async def test_health_and_description_are_for_everyone(stranger: httpx.AsyncClient) -> None:
    health = await stranger.get("/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert (await stranger.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_whatever_can_be_got_can_be_asked_about(
    node: RunningNode, stranger: httpx.AsyncClient
) -> None:
    response = await stranger.head("/healthz")
    assert (response.status_code, response.content) == (200, b"")
    assert (await stranger.head("/v1/node")).status_code == 401
    for method, status in (("HEAD", b"200"), ("TRACE", b"405"), ("PATCH", b"405")):
        request = (
            f"{method} /v1/node HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        )
        answer = await send_raw(node, request.encode() + b"Connection: close\r\n\r\n")
        assert answer.split(b" ", 2)[1] == status


async def test_the_scheme_is_read_in_any_case(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/v1/node", headers={"Authorization": f"bEARER {TOKEN}"})
    assert response.status_code == 200


async def test_answers_are_neither_cached_nor_guessed_at(admin: Admin) -> None:
    for path in ("/healthz", "/v1/node", "/nothing"):
        headers = (await admin.get(path)).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


async def test_refusals_are_counted(node: RunningNode, stranger: httpx.AsyncClient) -> None:
    for _ in range(3):
        await stranger.get("/v1/node")
    assert node.node.metrics.node.refused[Code.ADMIN_DENIED] == 3


async def test_a_session_token_is_no_admin_token(
    node: RunningNode, stranger: httpx.AsyncClient
) -> None:
    from arauto.model import Identity

    now_ms = node.node.clock.wall_ms()
    identity = Identity("admin", issued_ms=now_ms)
    token, _ = node.node.sessions.authenticator.issue_token("shop", "session", identity)
    response = await stranger.get("/v1/node", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 401


async def test_a_node_without_a_token_makes_one_up_for_each_run(start_node: StartNode) -> None:
    first = (await start_node(admin={"port": 0, "token": ""})).node
    second = (await start_node(admin={"port": 0, "token": ""})).node
    assert len(first.admin_token) >= 32
    assert first.admin_token != second.admin_token
    assert first.admin_token in first.generated_secrets
    async with Admin(first, first.admin_token) as admin:
        await admin.ok("GET", "/v1/node")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"admin": {"token": ""}}, "admin.token"),
        ({"admin": {"token": TOKEN}}, "auth.session.secret"),
    ],
)
async def test_in_production_no_secret_is_made_up(
    changes: dict[str, dict[str, str]], field: str
) -> None:
    config = make_config(node={"mode": "production"}, **changes)
    with pytest.raises(ArautoError) as caught:
        Node(config)
    assert (caught.value.code, caught.value.field) == (Code.BAD_CONFIG, field)


# --- hosts and origins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4040", 200),
        ("127.0.0.1", 200),
        ("localhost:9000", 200),
        ("[::1]:4040", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("evil.example:4040", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil.example:127.0.0.1", 403),
        ("[evil.example]", 403),
        ("0.0.0.0:4040", 403),
        ("", 403),
        ("127.0.0.1, evil.example", 403),
    ],
)
async def test_a_port_on_loopback_answers_only_to_its_own_name(
    node: RunningNode, host: str, status: int
) -> None:
    request = f"GET /v1/node HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
    answer = await send_raw(node, request.encode() + b"Connection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] == str(status).encode()


async def test_a_proxys_name_can_be_allowed(start_node: StartNode) -> None:
    node = await start_node(admin={"port": 0, "token": TOKEN, "allowedHosts": ["Admin.Example"]})
    async with Admin(node.node) as admin:
        for host, status in (("admin.example", 200), ("other.example", 403)):
            response = await admin.get("/v1/node", headers={"Host": host})
            assert response.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:4040", 200),
        ("https://127.0.0.1:4040", 200),
        ("http://127.0.0.1:4041", 403),
        ("http://127.0.0.1", 403),
        ("http://localhost:4040", 403),
        ("https://evil.example", 403),
        ("http://127.0.0.1:4040.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://127.0.0.1:4040", 403),
        ("127.0.0.1:4040", 403),
    ],
)
async def test_web_pages_of_other_addresses_are_refused_even_with_the_token(
    admin: Admin, origin: str, status: int
) -> None:
    for path in ("/v1/node", "/healthz"):
        headers = {"Host": "127.0.0.1:4040", "Origin": origin}
        response = await admin.get(path, headers=headers)
        assert response.status_code == status
        assert "access-control-allow-origin" not in response.headers


async def test_a_preflight_of_another_page_gets_no_leave(stranger: httpx.AsyncClient) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    response = await stranger.options("/v1/hubs/shop", headers=headers)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control")]


# --- attacks ---------------------------------------------------------------------------------------


async def test_ten_thousand_headers_are_refused_and_cost_only_their_sender(
    node: RunningNode, admin: Admin
) -> None:
    flood = b"".join(b"X-%d: x\r\n" % number for number in range(10_000))
    answer = await send_raw(node, b"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\n" + flood)
    assert answer.split(b" ", 2)[1:2] in ([b"400"], [b"431"])
    await admin.ok("GET", "/v1/node")


async def test_a_body_over_the_limit_is_refused_before_it_is_read(
    node: RunningNode, admin: Admin
) -> None:
    head = (
        f"PUT /v1/hubs/shop HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 1073741824\r\n\r\n"
    )
    assert b" 413 " in await send_raw(node, head.encode())
    chunked = head.replace("Content-Length: 1073741824", "Transfer-Encoding: chunked").encode()
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    # Whoever goes on sending may lose the answer with the connection.
    answer = await send_raw(node, chunked + chunk * 5)
    assert answer == b"" or b" 413 " in answer
    await admin.ok("GET", "/v1/node")


async def test_a_deeply_nested_body_is_refused(admin: Admin) -> None:
    for body in (b"[" * 200_000, b'{"quotas":' * 100_000, b'{"messages":[{"channel":"a","data":'):
        for method, path in (("PUT", "/v1/hubs/shop"), ("POST", "/v1/hubs/shop/publish")):
            response = await admin.request(method, path, content=body)
            assert response.status_code == 400
    for depth, field in ((200, "messages[0].data"), (50_000, "body")):
        nested = b"[" * depth + b"]" * depth
        deep = b'{"messages":[{"channel":"a","data":' + nested + b"}]}"
        response = await admin.post("/v1/hubs/shop/publish", content=deep)
        assert (response.status_code, response.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/hubs/../node",
        "/v1/hubs/%2e%2e/rules",
        "/v1/hubs/..%2fnode",
        "/v1/hubs/shop%00x",
        "/v1/hubs/shop%0a",
        "/v1/hubs/sho%70",
        "/v1/hubs/shop%2Frules%2Fchat",
        "/v1/hubs//rules",
        "/v1//hubs/shop",
        "//v1/hubs/shop",
        "/v1/hubs/shop/",
        "/v1/h%75bs/shop",
        "/v1/hubs/%ff%fe",
        "/v1/hubs/%c0%ae",
        "/v1/hubs/\uff0573hop",
        "/v1/hubs/SHOP",
        "/v1/hubs/shop%",
        "/v1/hubs/shop;x=1",
        "/v1/hubs/shop%20",
        "/v1/hubs/*",
    ],
)
async def test_no_spelling_of_a_path_reaches_another_hub(
    node: RunningNode, admin: Admin, path: str
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {"quotas": {"sessionsMax": 7}})
    await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    answer = await send_raw(node, request.encode() + b"Connection: close\r\n\r\n")
    status = answer.split(b" ", 2)[1]
    if path == "/v1/hubs/sho%70":  # the same name, spelt otherwise, as RFC 3986 has it
        assert status == b"200"
        return
    assert status in (b"400", b"404")
    assert b"sessionsMax" not in answer


async def test_the_hub_of_the_path_is_the_only_one_a_request_touches(
    node: RunningNode, admin: Admin
) -> None:
    """Threat T3: no body, parameter or name smuggles in a second hub."""
    await admin.ok("PUT", "/v1/hubs/mine/rules/chat", {})
    for method, path, body in (
        ("PUT", "/v1/hubs/mine", {"name": "theirs"}),
        ("PUT", "/v1/hubs/mine", {"hub": "theirs"}),
        ("PUT", "/v1/hubs/mine?hub=theirs", {}),
        ("PUT", "/v1/hubs/mine/rules/chat?hub=theirs", {}),
        ("PUT", "/v1/hubs/mine/rules/theirs%2Fchat", {}),
        ("PUT", "/v1/hubs/mine/namespaces/room", {"rules": "theirs/chat"}),
        ("PUT", "/v1/hubs/mine/namespaces/room", {"rules": "chat", "hub": "theirs"}),
        ("DELETE", "/v1/hubs/mine/rules/chat?id=other", None),
    ):
        assert (await admin.refused(method, path, body))[0] == 400, (method, path)
    names = [item["name"] for item in (await admin.ok("GET", "/v1/hubs"))["items"]]
    assert names == ["mine"]


async def test_a_websocket_is_not_offered_here(node: RunningNode) -> None:
    request = (
        "GET /v1/ws?hub=shop HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert b" 404 " in await send_raw(node, request.encode())


async def test_garbage_costs_only_its_own_connection(node: RunningNode, admin: Admin) -> None:
    for data in (b"\x00" * 1_000, b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        await send_raw(node, data)
    await admin.ok("GET", "/v1/node")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=1&limit=2", "limit"),
        ("limit=", "limit"),
        ("limit=x", "limit"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=a%20b", "hub"),
        ("after=%00", "hub"),
        ("after=%ff", "query"),
        ("unknown=1", "query"),
        ("&".join(f"a{n}=1" for n in range(1_000)), "query"),
    ],
)
async def test_bad_parameters_are_refused_by_name(admin: Admin, query: str, field: str) -> None:
    response = await admin.get(f"/v1/hubs?{query}")
    assert (response.status_code, response.json()["field"]) == (400, field)
