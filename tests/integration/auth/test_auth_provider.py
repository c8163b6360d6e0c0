"""The HTTP auth provider against real services: a good one, every kind of bad one, and the example."""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt as pyjwt
import pytest
import structlog
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from arauto.clock import SystemClock
from arauto.entropy import SystemEntropy
from arauto.errors import ArautoError, Code
from arauto.grants import GrantSet
from arauto.model import Grant, Grants, Identity
from arauto.session.auth.addresses import AddressPolicy
from arauto.session.auth.authenticator import Authenticator
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.outbound import OutboundClient
from arauto.session.auth.provider import HttpAuthProvider
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import SessionTokens
from arauto.settings import AuthProvider, HubSettings, JwtSettings
from tests.integration.auth.auth_servers import (
    Answer,
    bytes_of,
    repeating,
    response,
    serving,
    silent,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "auth_service.py"


@asynccontextmanager
async def calling() -> AsyncIterator[OutboundClient]:
    client = OutboundClient(
        AddressPolicy(allow_private=True), tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    try:
        yield client
    finally:
        await client.aclose()


async def ask(url: str, credentials: bytes = b"alice:wonderland", **options: Any) -> Identity:
    async with calling() as client:
        provider = HttpAuthProvider(AuthProvider(url=url, **options), client, SystemClock())
        return await provider.authenticate("shop", "s-1", credentials, "192.0.2.7")


async def ask_server(answer: Answer, **options: Any) -> Identity:
    async with serving(answer) as server:
        return await ask(server.url, **options)


def says(**answer: Any) -> Answer:
    return response(json.dumps(answer).encode())


GOOD = {"success": True, "user": "alice"}


async def test_a_full_answer_becomes_an_identity() -> None:
    before_ms = SystemClock().wall_ms()
    identity = await ask_server(
        says(
            **GOOD,
            extra={"role": "buyer"},
            channels=[{"channel": "a:*", "publish": True}, {"channel": "b", "subscribe": True}],
            rpcs=["math:*"],
            expires_in_s=60,
        )
    )
    assert identity.user == "alice"
    assert identity.extra == {"role": "buyer"}
    assert identity.grants == Grants(
        channels=(Grant("a:*", publish=True), Grant("b", subscribe=True)), rpcs=("math:*",)
    )
    assert before_ms <= identity.issued_ms <= SystemClock().wall_ms()
    assert identity.expires_ms == identity.issued_ms + 60_000


async def test_the_least_answer_becomes_an_identity_without_grants() -> None:
    identity = await ask_server(says(**GOOD))
    assert (identity.user, identity.grants, identity.expires_ms) == ("alice", Grants(), 0)


async def test_the_service_is_asked_as_documented() -> None:
    async with serving(says(**GOOD)) as server:
        await ask(server.url, b"\x00\xffopaque", headers={"Authorization": "Bearer k", "X-A": ""})
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /auth HTTP/1.1"
    lower = [line.lower() for line in lines]
    assert b"content-type: application/json" in lower
    assert b"authorization: bearer k" in lower
    assert json.loads(body) == {
        "hub": "shop",
        "session": "s-1",
        "credentials": base64.b64encode(b"\x00\xffopaque").decode(),
        "address": "192.0.2.7",
    }


@pytest.mark.parametrize(
    "answer",
    [
        says(success=False),
        says(success=False, user="alice", channels=[{"channel": "*", "publish": True}]),
        response(b"", "401 Unauthorized"),
        response(b"<html>", "403 Forbidden", "text/html"),
        response(json.dumps(GOOD).encode(), "403 Forbidden"),
    ],
    ids=["false", "false with grants", "401", "403", "403 with success"],
)
async def test_a_refusal_is_a_refusal_whatever_else_the_answer_says(answer: Answer) -> None:
    with pytest.raises(ArautoError) as caught:
        await ask_server(answer)
    assert caught.value.code is Code.AUTH_FAILED
    assert str(caught.value) == "[2001 AUTH_FAILED] the credentials were refused (credentials)"


UNUSABLE: dict[str, Answer] = {
    "empty": response(b""),
    "no JSON": response(b"yes"),
    "null": response(b"null"),
    "list": response(b"[true]"),
    "not UTF-8": response(b'{"success":true,"user":"\xff"}'),
    "deep": response(b'{"success":' + b"[" * 30_000),
    "trailing data": response(json.dumps(GOOD).encode() + b"{}"),
    "success missing": says(user="alice"),
    "success as text": says(success="true", user="alice"),
    "success as number": says(success=1, user="alice"),
    "unknown field": says(**GOOD, admin=True),
    "user missing": says(success=True),
    "user null": says(success=True, user=None),
    "user number": says(success=True, user=7),
    "user empty": says(success=True, user=""),
    "user wildcard": says(success=True, user="a*"),
    "user with control character": says(success=True, user="a\nb"),
    "user too long": says(success=True, user="x" * 129),
    "extra number": says(**GOOD, extra={"a": 1}),
    "extra too many": says(**GOOD, extra={str(n): "" for n in range(33)}),
    "extra too large": says(**GOOD, extra={"a": "x" * 5_000}),
    "channels object": says(**GOOD, channels={"a": True}),
    "channels text": says(**GOOD, channels=["a"]),
    "channel missing": says(**GOOD, channels=[{"publish": True}]),
    "channel malformed": says(**GOOD, channels=[{"channel": "a b", "publish": True}]),
    "channel unknown field": says(**GOOD, channels=[{"channel": "a", "write": True}]),
    "too many channels": says(**GOOD, channels=[{"channel": "a"}] * 1_001),
    "rpcs number": says(**GOOD, rpcs=[1]),
    "rpcs malformed": says(**GOOD, rpcs=["a#"]),
    "expires negative": says(**GOOD, expires_in_s=-1),
    "expires zero": says(**GOOD, expires_in_s=0),
    "expires text": says(**GOOD, expires_in_s="60"),
    "expires in 100 years": says(**GOOD, expires_in_s=3_200_000_000),
    "expires overflow": response(b'{"success":true,"user":"a","expires_in_s":1e999}'),
    "text/html": response(json.dumps(GOOD).encode(), content_type="text/html"),
    "no content type": bytes_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "201": response(json.dumps(GOOD).encode(), "201 Created"),
    "204": bytes_of(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "400": response(b"{}", "400 Bad Request"),
    "404": response(b"{}", "404 Not Found"),
    "500 with success": response(json.dumps(GOOD).encode(), "500 Oops"),
    "redirect": response(b"", "302 Found", "text/plain", "Location: http://127.0.0.1:1/"),
    "too large": response(b" " * 70_000),
    "silent": silent,
    "drips": repeating(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n",
        0.01,
    ),
    "closes": bytes_of(b""),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_answer_that_cannot_be_used_lets_nobody_in_and_leaks_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """T24: what the client sent and what the service is told stays out of errors and logs."""
    caplog.set_level("DEBUG")
    with structlog.testing.capture_logs() as logs, pytest.raises(ArautoError) as caught:
        await ask_server(
            UNUSABLE[name],
            credentials=b"planted-credential",
            headers={"Authorization": "Bearer planted-key"},
            timeout_s=0.3 if name in ("silent", "drips") else 5.0,
        )
    error = caught.value
    assert error.code is Code.AUTH_UNAVAILABLE
    assert str(error) == "[2002 AUTH_UNAVAILABLE] the hub's authentication service did not answer"
    assert error.retryable
    assert any(line["log_level"] == "warning" and line["hub"] == "shop" for line in logs)
    everything = "\n".join([repr(error), repr(error.__cause__), str(logs), caplog.text])
    encoded = base64.b64encode(b"planted-credential").decode()
    for secret in ("planted-credential", "planted-key", encoded):
        assert secret not in everything


async def test_a_service_that_is_down_is_unavailable() -> None:
    async with serving(silent) as server:
        url = server.url
    with pytest.raises(ArautoError) as caught:
        await ask(url)
    assert caught.value.code is Code.AUTH_UNAVAILABLE


async def test_the_nodes_deadline_bounds_a_hubs_own() -> None:
    async with serving(silent) as server, calling() as client:
        settings = AuthProvider(url=server.url, timeout_s=60)
        provider = HttpAuthProvider(settings, client, SystemClock(), timeout_max_s=0.2)
        with pytest.raises(ArautoError) as caught:
            await asyncio.wait_for(provider.authenticate("shop", "s", b"x", ""), 10)
    assert caught.value.code is Code.AUTH_UNAVAILABLE


async def _service(scope: Any, receive: Any, send: Any) -> None:
    """A little ASGI service: the credentials are the user's name."""
    body = b""
    while True:
        part = await receive()
        body += part["body"]
        if not part.get("more_body"):
            break
    user = base64.b64decode(json.loads(body)["credentials"]).decode()
    answer = json.dumps({"success": user != "mallory", "user": user}).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer[:5], "more_body": True})
    await send({"type": "http.response.body", "body": answer[5:]})


@asynccontextmanager
async def uvicorn_service() -> AsyncIterator[str]:
    config = uvicorn.Config(_service, port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    started = asyncio.Event()
    startup = server.startup

    async def announced(*args: Any, **named: Any) -> None:
        await startup(*args, **named)
        started.set()

    server.startup = announced  # type: ignore[method-assign]
    task = asyncio.create_task(server._serve())
    await started.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        await task


async def test_many_logins_at_once_each_get_their_own_identity() -> None:
    """T27: no answer reaches the wrong client."""
    async with uvicorn_service() as url, calling() as client:
        provider = HttpAuthProvider(AuthProvider(url=url), client, SystemClock())

        async def login(name: str) -> str:
            return (await provider.authenticate(name, "s", name.encode(), "")).user

        names = [f"user-{n}" for n in range(100)]
        assert await asyncio.gather(*(login(name) for name in names)) == names
        with pytest.raises(ArautoError) as caught:
            await login("mallory")
        assert caught.value.code is Code.AUTH_FAILED


@asynccontextmanager
async def example_service() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        "0",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield line.removeprefix("listening on ").strip()
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def authenticating() -> AsyncIterator[Authenticator]:
    """Put together as a node does it."""
    clock = SystemClock()
    revocations = Revocations(clock)
    async with calling() as client:
        authenticator = Authenticator(
            clock=clock,
            tokens=SessionTokens(
                secret="n" * 32, clock=clock, entropy=SystemEntropy(), revocations=revocations
            ),
            jwt=JwtVerifier(clock=clock, revocations=revocations, fetch=client.get),
            revocations=revocations,
            make_provider=lambda settings: HttpAuthProvider(settings, client, clock),
        )
        yield authenticator
        authenticator.close()


async def test_the_example_service_lets_alice_in_and_her_token_lets_her_in_again() -> None:
    async with example_service() as url, authenticating() as authenticator:
        key = {"Authorization": "Bearer demo-key"}
        hub = HubSettings(auth_provider=AuthProvider(url=url, headers=key))
        alice = await authenticator.authenticate("shop", hub, "s-1", b"alice:wonderland")
        assert (alice.user, alice.extra) == ("alice", {"hub": "shop"})
        grants = GrantSet(alice.grants)
        assert grants.may_subscribe("stock:#")
        assert grants.may_publish("orders:alice:1")
        assert not grants.may_publish("orders:bob:1")
        for wrong in (b"alice:", b"alice:x", b"nobody:", b":", b"\xff\xfe", b"x"):
            with pytest.raises(ArautoError) as caught:
                await authenticator.authenticate("shop", hub, "s-1", wrong)
            assert caught.value.code is Code.AUTH_FAILED

        token, _ = authenticator.issue_token("shop", "s-1", alice)
        again = await authenticator.authenticate("shop", HubSettings(), "s-2", token.encode())
        assert (again.user, again.grants, again.extra) == ("alice", alice.grants, alice.extra)
        with pytest.raises(ArautoError) as caught:
            await authenticator.authenticate("bank", hub, "s-2", token.encode())
        assert caught.value.code is Code.TOKEN_INVALID


async def test_the_example_service_refuses_a_node_without_its_key() -> None:
    async with example_service() as url:
        with pytest.raises(ArautoError) as caught:
            await ask(url)
        assert caught.value.code is Code.AUTH_FAILED


async def test_keys_are_fetched_from_a_url_and_a_token_cannot_name_another() -> None:
    """T6, CVE-2026-32301: only the operator's URL is ever asked, and only for a possible token."""
    key = Ed25519PrivateKey.generate()
    public = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")
    entry = {"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": public}
    now_s = SystemClock().wall_ms() // 1_000
    claims = {"aud": "shop", "sub": "alice", "iat": now_s, "exp": now_s + 60}

    def token(**headers: Any) -> bytes:
        return pyjwt.encode(claims, key, "EdDSA", headers={"kid": "k1", **headers}).encode()

    async with (
        serving(response(json.dumps({"keys": [entry]}).encode())) as issuer,
        serving(response(b"{}")) as evil,
        authenticating() as authenticator,
    ):
        hub = HubSettings(jwt=JwtSettings(jwks_url=issuer.url))
        for name in ("jku", "x5u"):
            with pytest.raises(ArautoError) as caught:
                await authenticator.authenticate("shop", hub, "s", token(**{name: evil.url}))
            assert caught.value.code is Code.TOKEN_INVALID
        with pytest.raises(ArautoError):
            await authenticator.authenticate("shop", hub, "s", token(kid=evil.url))
        identity = await authenticator.authenticate("shop", hub, "s", token())
        assert identity.user == "alice"
        assert evil.connections == 0
        assert issuer.connections == 1
