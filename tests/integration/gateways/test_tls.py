"""TLS on the client port: WebSocket, SSE and HTTP alike."""

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from picows import ws_connect

from arauto.codec.events import (
    Ack,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.codec.proto import ProtoCodec
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import Wire


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "arauto test")])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


@pytest.fixture
async def secure_node(start_node: StartNode, certificate: tuple[Path, Path]) -> RunningNode:
    cert_file, key_file = certificate
    tls = {"certFile": str(cert_file), "keyFile": str(key_file)}
    return await start_node(connection={"port": 0, "tls": tls})


async def test_messages_flow_over_wss_also_when_they_are_many_and_large(
    secure_node: RunningNode, certificate: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=str(certificate[0]))
    _, wire = await ws_connect(
        lambda: Wire(ProtoCodec()),
        f"wss://127.0.0.1:{secure_node.port}/v1/ws?hub=shop",
        ssl_context=context,
        extra_headers=[("Sec-WebSocket-Protocol", "arauto.v1.proto")],
    )
    assert isinstance(wire, Wire)
    items = (SubscribeItem(channel="big"),)
    await wire.ask(SubscribeRequest(id=1, items=items), SubscribeReply)
    payloads = [bytes([n]) * 50_000 for n in range(20)]
    published = tuple(PublishItem(channel="big", payload=p) for p in payloads)
    ack = await wire.ask(PublishRequest(id=2, items=published), Ack)
    assert all(result.error is None for result in ack.results)
    assert await wire.messages(20) == payloads


async def test_read_buffers_are_had_small_again_over_wss_too(
    start_node: StartNode, certificate: tuple[Path, Path]
) -> None:
    cert_file, key_file = certificate
    tls = {"certFile": str(cert_file), "keyFile": str(key_file)}
    ws = {"readBuffersBytesMax": 200_000}
    node = await start_node(connection={"port": 0, "tls": tls, "ws": ws})
    wires = []
    for _ in range(5):
        _, wire = await ws_connect(
            lambda: Wire(ProtoCodec()),
            f"wss://127.0.0.1:{node.port}/v1/ws?hub=shop",
            ssl_context=ssl.create_default_context(cafile=str(cert_file)),
            extra_headers=[("Sec-WebSocket-Protocol", "arauto.v1.proto")],
        )
        assert isinstance(wire, Wire)
        wires.append(wire)
    items = (PublishItem(channel="big", payload=b"x" * 50_000),)
    for id in range(1, 4):
        for wire in wires:
            await wire.ask(PublishRequest(id=id, items=items), Ack)
    buffers = node.node.websocket.buffers
    assert buffers.shrunk >= 10
    assert buffers.cut_off == 0


async def test_whoever_begins_a_handshake_and_stops_has_as_long_as_for_a_request(
    start_node: StartNode, certificate: tuple[Path, Path]
) -> None:
    """It was a minute, and no limit of connections counted it."""
    cert_file, key_file = certificate
    tls = {"certFile": str(cert_file), "keyFile": str(key_file)}
    node = await start_node(
        connection={"port": 0, "tls": tls, "http": {"requestTimeoutS": 0.2}},
    )
    silent, writing = [await asyncio.open_connection("127.0.0.1", node.port) for _ in range(2)]
    writing[1].write(b"\x16\x03\x01\x02\x00\x01\x00\x01")
    async with asyncio.timeout(20):
        for reader, writer in (silent, writing):
            assert await reader.read() == b""
            writer.close()


async def test_https_answers_and_plain_http_does_not(
    secure_node: RunningNode, certificate: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=str(certificate[0]))
    async with httpx.AsyncClient(verify=context) as client:
        answer = await client.get(f"https://127.0.0.1:{secure_node.port}/healthz")
        assert answer.json() == {"status": "ok"}
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://127.0.0.1:{secure_node.port}/healthz")


async def test_a_request_that_had_to_wait_is_answered_over_wss(
    start_node: StartNode, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    """Over TLS, a transport told to stop at an empty buffer took every buffer for full and went silent."""
    cert_file, key_file = certificate
    node = await start_node(
        connection={"port": 0, "tls": {"certFile": str(cert_file), "keyFile": str(key_file)}},
        storage={"kind": "sqlite", "dataDir": str(tmp_path / "data")},
        hub={
            "defaults": {"defaultPublic": True},
            "defaultRules": {"clientPublish": True, "store": "all"},
        },
    )
    _, wire = await ws_connect(
        lambda: Wire(ProtoCodec()),
        f"wss://127.0.0.1:{node.port}/v1/ws?hub=never-opened-before",
        ssl_context=ssl.create_default_context(cafile=str(cert_file)),
        extra_headers=[("Sec-WebSocket-Protocol", "arauto.v1.proto")],
    )
    assert isinstance(wire, Wire)
    items = (SubscribeItem(channel="stored"),)
    await wire.ask(SubscribeRequest(id=1, items=items), SubscribeReply)
    for n in range(3):
        item = PublishItem(channel="stored", payload=b"%d" % n)
        await wire.ask(PublishRequest(id=2 + n, items=(item,)), Ack)
    assert await wire.messages(3) == [b"0", b"1", b"2"]
