"""The outbound client on real sockets: bounds, redirects, rebinding, TLS names, no secrets in logs."""

import asyncio
import datetime
import gzip
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from arauto.errors import ArautoError, Code
from arauto.session.auth.addresses import AddressPolicy
from arauto.session.auth.outbound import (
    PER_HUB_MAX,
    RESPONSE_BYTES_MAX,
    OutboundClient,
    OutboundError,
)
from arauto.session.auth.resolver import Resolver
from tests.integration.auth.auth_servers import (
    Answer,
    ScriptedResolver,
    bytes_of,
    repeating,
    response,
    serving,
    silent,
)

LOOPBACK = AddressPolicy(allow_private=True)


@asynccontextmanager
async def calling(
    policy: AddressPolicy = LOOPBACK,
    resolver: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[OutboundClient]:
    client = OutboundClient(
        policy, resolver=resolver, tls=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    try:
        yield client
    finally:
        await client.aclose()


async def reason(call: Awaitable[object]) -> str:
    with pytest.raises(OutboundError) as caught:
        await call
    assert caught.value.code is Code.AUTH_UNAVAILABLE
    return caught.value.reason


async def test_an_ordinary_answer_comes_back_whole() -> None:
    answer = response(b'{"a":1}', "200 OK", "Application/JSON; charset=utf-8")
    async with serving(answer) as server, calling() as client:
        got = await client.request(
            "shop", "POST", server.url, headers={"x-key": "k"}, body=b"hello"
        )
    assert (got.status, got.content_type, got.body) == (200, "application/json", b'{"a":1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /auth http/1.1"
    assert f"host: 127.0.0.1:{server.port}".encode() in lines
    assert {b"x-key: k", b"accept-encoding: identity", b"connection: close"} <= set(lines)
    assert body == b"hello"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"

MISBEHAVIOUR: dict[str, tuple[Answer, str]] = {
    "silent": (silent, "timeout"),
    "closes at once": (bytes_of(b""), "protocol"),
    "half a status line": (bytes_of(b"HTTP/1.1 20"), "protocol"),
    "not HTTP": (bytes_of(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "protocol"),
    "HTTP/2 preface": (bytes_of(b"\0\0\x12\x04\0\0\0\0\0" * 4), "protocol"),
    "headers without end": (repeating(OK, b"X-A: b\r\n"), "protocol"),
    "one header of 200 kB": (bytes_of(OK + b"X: " + b"a" * 200_000 + b"\r\n\r\n"), "protocol"),
    "informational answers without end": (
        repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),
        "timeout",
    ),
    "headers one byte at a time": (repeating(OK, b"a", 0.01), "timeout"),
    "says it is too large": (
        bytes_of(OK + b"Content-Length: 65537\r\n\r\n"),
        "too-large",
    ),
    "says it is enormous": (
        bytes_of(OK + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n"),
        "too-large",
    ),
    "too large in chunks": (repeating(CHUNKED, b"4000\r\n" + b"x" * 0x4000 + b"\r\n"), "too-large"),
    "too large until closed": (repeating(OK + b"\r\n", b"x" * 8_192), "too-large"),
    "one chunk declared as 2^60": (
        repeating(CHUNKED + b"1000000000000000\r\n", b"x" * 8_192),
        "too-large",
    ),
    "drips chunks": (repeating(CHUNKED, b"1\r\nx\r\n", 0.01), "timeout"),
    "stops in the middle": (bytes_of(OK + b"Content-Length: 10\r\n\r\nabc"), "protocol"),
    "bad chunk size": (bytes_of(CHUNKED + b"zz\r\n"), "protocol"),
    "negative length": (bytes_of(OK + b"Content-Length: -1\r\n\r\n"), "protocol"),
    "two lengths": (
        bytes_of(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
        "protocol",
    ),
    "compressed": (
        response(
            gzip.compress(b"x" * 10_000_000),
            "200 OK",
            "application/json",
            "Content-Encoding: gzip",
        ),
        "encoding",
    ),
    "switches protocols": (
        bytes_of(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        "protocol",
    ),
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
async def test_a_misbehaving_server_costs_a_bounded_time_and_an_error(name: str) -> None:
    answer, expected = MISBEHAVIOUR[name]
    timeout_s = 0.3 if expected == "timeout" else 10.0
    async with serving(answer) as server, calling() as client:
        call = client.request("shop", "GET", server.url, timeout_s=timeout_s)
        assert await asyncio.wait_for(reason(call), 15) == expected
        assert client.pending == 0


async def test_an_answer_of_exactly_the_allowed_size_is_taken() -> None:
    async with serving(response(b"x" * RESPONSE_BYTES_MAX)) as server, calling() as client:
        assert len((await client.request("shop", "GET", server.url)).body) == RESPONSE_BYTES_MAX


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    async with serving(response()) as inner:
        redirect = response(b"", f"{status} Moved", "text/plain", f"Location: {inner.url}")
        async with serving(redirect) as server, calling() as client:
            assert await reason(client.request("shop", "GET", server.url)) == "redirect"
    assert inner.connections == 0


async def test_a_closed_port_is_reported_at_once() -> None:
    async with serving(silent) as server:
        url = server.url
    async with calling() as client:
        assert await reason(client.request("shop", "GET", url)) == "connect"


async def test_only_a_200_is_a_key_set() -> None:
    for status in ("204 No Content", "404 Not Found", "500 Oops"):
        async with serving(response(b"", status)) as server, calling() as client:
            assert await reason(client.get("shop", server.url)) == "status"
    async with serving(response(b"keys")) as server, calling() as client:
        assert await client.get("shop", server.url) == b"keys"


async def test_a_dns_answer_that_changes_after_the_check_changes_nothing() -> None:
    """T6, rebinding: the name is resolved once, and what was checked is what is connected to."""
    policy = AddressPolicy(["127.0.0.1/32"])
    resolver = ScriptedResolver(["127.0.0.1"], ["127.0.0.2"])
    async with (
        serving(response(b"good")) as good,
        serving(response(b"evil"), host="127.0.0.2", port=good.port) as evil,
        calling(policy, resolver) as client,
    ):
        # The name exists nowhere but in this resolver: any second look-up would fail.
        url = f"http://auth.test:{good.port}/"
        assert (await client.request("shop", "GET", url)).body == b"good"
        assert resolver.asked == [("auth.test", good.port)]
        assert f"host: auth.test:{good.port}".encode() in good.requests[0].lower()
        assert await reason(client.request("shop", "GET", url)) == "address-refused"
        assert evil.connections == 0


async def test_the_next_address_is_tried_when_the_first_is_dead() -> None:
    resolver = ScriptedResolver(["127.0.0.9", "127.0.0.1"])
    async with serving(response(b"here")) as server, calling(resolver=resolver) as client:
        url = f"http://auth.test:{server.port}/"
        assert (await client.request("shop", "GET", url)).body == b"here"
    assert len(resolver.asked) == 1


async def test_a_request_that_was_received_is_never_sent_twice() -> None:
    resolver = ScriptedResolver(["127.0.0.1", "127.0.0.1"])
    async with serving(bytes_of(b"")) as server, calling(resolver=resolver) as client:
        url = f"http://auth.test:{server.port}/"
        assert await reason(client.request("shop", "POST", url, body=b"x")) == "protocol"
        assert len(server.requests) == 1


async def test_a_name_that_does_not_resolve_is_reported() -> None:
    resolver = ScriptedResolver(OSError("no such name"))
    async with calling(resolver=resolver) as client:
        assert await reason(client.request("shop", "GET", "http://auth.test/")) == "resolve"


async def test_the_systems_resolver_finds_loopback() -> None:
    async with serving(response(b"here")) as server, calling() as client:
        url = f"http://localhost:{server.port}/"
        assert (await client.request("shop", "GET", url)).body == b"here"


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(response(b"proxy")) as proxy, serving(response(b"direct")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with calling() as client:
            assert (await client.request("shop", "GET", server.url)).body == b"direct"
    assert proxy.connections == 0


async def test_headers_that_say_where_a_message_ends_cannot_be_set() -> None:
    evil = {
        "Host": "evil",
        "Content-Length": "0",
        "Transfer-Encoding": "chunked",
        "Connection": "x",
    }
    async with serving(response()) as server, calling() as client:
        await client.request("shop", "POST", server.url, headers=evil, body=b"hello")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b"hello"
    assert head.lower().count(b"\r\nhost:") == 1
    assert b"evil" not in head
    assert b"chunked" not in head


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0", "\u20ac"])
async def test_a_header_value_that_breaks_out_of_its_line_is_not_sent(value: str) -> None:
    async with serving(response()) as server, calling() as client:
        call = client.request("shop", "GET", server.url, headers={"x": value})
        assert await reason(call) in ("protocol", "request")
    assert server.requests == []


async def test_one_hubs_slow_provider_does_not_hold_up_another_hub() -> None:
    async with (
        serving(silent) as slow,
        serving(response(b"quick")) as quick,
        calling() as client,
    ):
        waiting = [
            asyncio.ensure_future(client.request("shop", "GET", slow.url, timeout_s=30))
            for _ in range(PER_HUB_MAX)
        ]
        await slow.arrived.wait()
        with pytest.raises(ArautoError) as caught:
            await client.request("shop", "GET", quick.url)
        assert caught.value.code is Code.TOO_MANY_PENDING
        assert caught.value.retryable
        assert (await client.request("bank", "GET", quick.url)).body == b"quick"
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(outcome, asyncio.CancelledError)
            for outcome in await asyncio.gather(*waiting, return_exceptions=True)
        )
        assert client.pending == 0
        assert (await client.request("shop", "GET", quick.url)).body == b"quick"


class Authority:
    """A certificate authority of our own, for names that exist only in these tests."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
        self.certificate = self._sign(self.name, self.key, [], True)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, names: list[str], ca: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        authority_key = self.key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), False)
        )
        if names:
            alternatives: list[x509.GeneralName] = [
                x509.IPAddress(ipaddress.ip_address(n)) if n[0].isdigit() else x509.DNSName(n)
                for n in names
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        else:
            usage = x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            )
            builder = builder.add_extension(usage, True)
        return builder.sign(self.key, hashes.SHA256())

    def server_context(self, folder: Path, *names: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        file = folder / "server.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + self._sign(subject, key, list(names), False).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def client_context(self) -> ssl.SSLContext:
        data = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=data)


async def test_tls_checks_the_name_although_an_address_is_connected_to(tmp_path: Path) -> None:
    authority = Authority()
    server_tls = authority.server_context(tmp_path, "auth.test", "127.0.0.1")
    names: list[str | None] = []
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)
    resolver = ScriptedResolver(["127.0.0.1"])
    async with (
        serving(response(b"safe"), tls=server_tls) as server,
        calling(resolver=resolver, tls=authority.client_context()) as client,
    ):
        url = f"https://auth.test:{server.port}/"
        assert (await client.request("shop", "GET", url)).body == b"safe"
        assert names == ["auth.test"]
        other = f"https://other.test:{server.port}/"
        assert await reason(client.request("shop", "GET", other)) == "connect"
        by_address = f"https://127.0.0.1:{server.port}/"
        assert (await client.request("shop", "GET", by_address)).body == b"safe"
        assert len(server.requests) == 2


async def test_two_names_at_one_address_never_share_a_connection(tmp_path: Path) -> None:
    """A kept connection would carry one hub's request under the other's TLS name."""
    authority = Authority()
    server_tls = authority.server_context(tmp_path, "one.test", "two.test")
    resolver = ScriptedResolver(["127.0.0.1"])
    keep = response(b"x", "200 OK", "text/plain", "Connection: keep-alive")
    async with (
        serving(keep, tls=server_tls) as server,
        calling(resolver=resolver, tls=authority.client_context()) as client,
    ):
        for name in ("one", "two", "one"):
            await client.request(name, "GET", f"https://{name}.test:{server.port}/")
        assert server.connections == 3


async def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    server_tls = Authority().server_context(tmp_path, "auth.test")
    resolver = ScriptedResolver(["127.0.0.1"])
    async with (
        serving(response(), tls=server_tls) as server,
        calling(resolver=resolver, tls=Authority().client_context()) as client,
    ):
        url = f"https://auth.test:{server.port}/"
        assert await reason(client.request("shop", "GET", url)) == "connect"
        assert server.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        response(b"{}", "500 planted-answer"),
        response(b"planted-answer"),
        bytes_of(b"planted-answer\r\n\r\n"),
        response(b"", "302 Found", "text/plain", "Location: http://planted-answer/"),
        silent,
    ],
    ids=["500", "200", "not HTTP", "redirect", "silent"],
)
async def test_neither_logs_nor_errors_hold_what_was_sent(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    """T24, with every library's debug log on."""
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    with structlog.testing.capture_logs() as logs:
        async with serving(answer) as server, calling() as client:
            try:
                await client.request(
                    "shop",
                    "POST",
                    server.url + "?key=planted-query",
                    headers={"authorization": "Bearer planted-header"},
                    body=b"planted-body",
                    timeout_s=0.2,
                )
            except ArautoError as error:
                texts = [repr(error), str(error), repr(error.__cause__)]
    everything = "\n".join([*texts, str(logs), caplog.text])
    for secret in ("planted-query", "planted-header", "planted-body"):
        assert secret not in everything
    assert "planted-answer" not in "\n".join([*texts, str(logs)])


async def test_a_failure_names_the_hub_and_a_reason_in_the_log() -> None:
    async with serving(bytes_of(b"")) as server, calling() as client:
        with structlog.testing.capture_logs() as logs:
            await reason(client.request("shop", "GET", server.url))
    assert [(line["event"], line["hub"], line["reason"]) for line in logs] == [
        ("outbound call failed", "shop", "protocol")
    ]
