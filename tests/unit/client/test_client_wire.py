"""Below the records: fragments, limits, TLS, and what a broken peer does to one connection."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from picows import WSMsgType, ws_create_server

from arauto.client import Client, State, Tuning
from arauto.client.supervisor import websocket_url
from arauto.codec.events import Publication, PublishRequest
from arauto.errors import ArautoError, Code
from tests.unit.client.conftest import LoopClock
from tests.unit.client.fake_node import FakeNode, Peer, message
from tests.unit.client.test_client_connection import States
from tests.unit.codec.newer import NEWER_EVENTS

Make = Callable[..., Client]


def _send_in_pieces(peer: Peer, data: bytes, count: int) -> None:
    assert peer.transport is not None
    size = -(-len(data) // count)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    whole = WSMsgType.TEXT if peer.codec.is_text else WSMsgType.BINARY
    for index, piece in enumerate(pieces):
        kind = whole if index == 0 else WSMsgType.CONTINUATION
        peer.transport.send(kind, piece, fin=index == len(pieces) - 1)
        peer.transport.send_ping(b"between")


@pytest.mark.parametrize("count", [2, 3, 50])
async def test_a_message_in_fragments_is_put_together(
    make: Make, node: FakeNode, flavour: str, count: int
) -> None:
    async with make(flavour=flavour) as client:
        peer = await node.peer()
        subscription = await client.subscribe("c").ready()
        for offset in (1, 2):
            event = Publication(message=message("c", offset, b"x" * 500))
            _send_in_pieces(peer, peer.codec.encode_event(event), count)
        received = [await anext(subscription) for _ in range(2)]
        assert [(m.serial.offset, len(m.payload)) for m in received] == [(1, 500), (2, 500)]


async def _is_dropped(client: Client, states: States, clock: LoopClock) -> None:
    await states.reach(State.WAITING)
    clock.advance(0)
    await states.reach(State.CONNECTED, 2)
    await client.publish("c", 1)


async def test_fragments_beyond_the_limit_cost_the_connection(
    make: Make, node: FakeNode, clock: LoopClock
) -> None:
    states = States()
    tuning = Tuning(receive_bytes_max=1_000)
    async with make(on_state_change=states, tuning=tuning) as client:
        peer = await node.peer()
        _send_in_pieces(peer, b"x" * 3_000, 6)
        await _is_dropped(client, states, clock)


@pytest.mark.parametrize(
    "frames",
    [
        [(WSMsgType.CONTINUATION, True)],
        [(WSMsgType.BINARY, False), (WSMsgType.BINARY, True)],
        [(WSMsgType.TEXT, True)],
    ],
)
async def test_broken_framing_costs_the_connection(
    make: Make, node: FakeNode, clock: LoopClock, frames: list[tuple[WSMsgType, bool]]
) -> None:
    states = States()
    async with make(on_state_change=states) as client:
        peer = await node.peer()
        assert peer.transport is not None
        for kind, fin in frames:
            peer.transport.send(kind, b"x", fin=fin)
        await _is_dropped(client, states, clock)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://h:1", "ws://h:1/v1/ws?hub=shop"),
        ("wss://h/", "wss://h/v1/ws?hub=shop"),
        ("ws://h/behind/proxy", "ws://h/behind/proxy?hub=shop"),
        ("ws://h?region=eu", "ws://h/v1/ws?region=eu&hub=shop"),
        ("ws://[::1]:8080", "ws://[::1]:8080/v1/ws?hub=shop"),
    ],
)
def test_the_hub_goes_into_the_address(url: str, expected: str) -> None:
    assert websocket_url(url, "shop") == expected


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody but its holder trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "node.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + built.public_bytes(serialization.Encoding.PEM)
    )
    return path


async def _start_tls(node: FakeNode, certificate: Path) -> tuple[asyncio.Server, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await ws_create_server(node._accept, "127.0.0.1", 0, ssl=context)
    return server, f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_node_behind_tls_is_trusted_by_its_certificate(
    node: FakeNode, certificate: Path
) -> None:
    server, url = await _start_tls(node, certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with Client(url, hub="shop", ssl_context=trusting) as client:
        subscription = await client.subscribe("c").ready()
        (await node.peer()).publish(message("c", 1))
        assert (await anext(subscription)).serial.offset == 1
        await client.publish("c", b"x" * 100_000)
    server.close()
    await server.wait_closed()


async def test_a_certificate_nobody_trusts_is_refused_and_not_tried_again(
    node: FakeNode, certificate: Path
) -> None:
    server, url = await _start_tls(node, certificate)
    client = Client(url, hub="shop")
    with pytest.raises(ArautoError) as caught:
        await client.connect()
    assert (caught.value.code, client.state) == (Code.HANDSHAKE_REFUSED, State.FAILED)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("name", NEWER_EVENTS)
async def test_what_a_newer_node_says_more_costs_no_connection(
    make: Make, node: FakeNode, flavour: str, name: str
) -> None:
    _, (proto, text) = NEWER_EVENTS[name]
    async with make(flavour=flavour) as client:
        peer = await node.peer()
        peer.send_raw(text if peer.codec.is_text else proto)
        await client.publish("c", 1)
        assert client.state is State.CONNECTED
    assert peer.count(PublishRequest) == 1
