"""Small bytes that want to become large ones (threat T9): nothing a client sends is ever inflated."""

import gzip
import zlib

import pytest

from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode
from tests.integration.security.raw import (
    KEY,
    frame,
    hold_steady,
    opened,
    resident_bytes,
    upgraded,
    witness,
)

_ZEROS = b"\0" * 1_048_576
_GROWTH_BYTES_MAX = 20_000_000


def deflated(mebibytes: int) -> bytes:
    """Zeros without header or end, as in a frame of permessage-deflate."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b"".join(squeeze.compress(_ZEROS) for _ in range(mebibytes))
    return data + squeeze.flush(zlib.Z_SYNC_FLUSH)[:-4]


BOMB = deflated(200)


async def test_compression_is_offered_by_clients_and_never_accepted(node: RunningNode) -> None:
    offer = "permessage-deflate; client_max_window_bits; server_no_context_takeover"
    async with opened(node) as raw:
        await raw.send(
            f"GET /v1/ws?hub=shop HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
            f"Sec-WebSocket-Protocol: arauto.v1.proto\r\nSec-WebSocket-Extensions: {offer}\r\n\r\n".encode()
        )
        head = await raw.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-extensions" not in head.lower()


@pytest.mark.parametrize("flavour", ["arauto.v1.proto", "arauto.v1.json"])
async def test_a_frame_marked_as_compressed_costs_its_connection_and_no_memory(
    node: RunningNode, flavour: str
) -> None:
    assert len(BOMB) < 250_000
    async with witness(node):
        before = resident_bytes()
        for _ in range(20):
            async with upgraded(node, flavour) as raw:
                await raw.send(frame(BOMB, rsv=0b100))
                assert await raw.close_code() == 1002
        assert resident_bytes() - before < _GROWTH_BYTES_MAX
    await hold_steady(node)


async def test_a_compressed_fragment_is_no_better(node: RunningNode) -> None:
    async with witness(node), upgraded(node) as raw:
        await raw.send(frame(BOMB[:1_000], rsv=0b100, fin=False) + frame(BOMB[1_000:], 0x0))
        assert await raw.close_code() == 1002


async def test_a_compressed_body_is_read_as_it_is_and_refused(node: RunningNode) -> None:
    body = gzip.compress(_ZEROS * 200, 9)
    async with witness(node):
        before = resident_bytes()
        for _ in range(10):
            async with opened(node) as raw:
                await raw.send(
                    b"POST /v1/publish?hub=shop HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                    b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
                )
                answer = await raw.until_closed()
                assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), answer
        assert resident_bytes() - before < _GROWTH_BYTES_MAX


async def test_the_admin_port_inflates_nothing_either(node: RunningNode) -> None:
    body = gzip.compress(_ZEROS * 50, 9)
    before = resident_bytes()
    headers = {"content-encoding": "gzip"}
    async with Admin(node.node) as admin:
        for _ in range(10):
            response = await admin.post("/v1/hubs/shop/publish", content=body, headers=headers)
            assert response.status_code in (400, 413)
    assert resident_bytes() - before < _GROWTH_BYTES_MAX
