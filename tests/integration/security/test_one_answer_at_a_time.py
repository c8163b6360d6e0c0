"""On one socket answers come one after another: nothing is written into one that is under way."""

import asyncio
import re

import msgspec
import pytest

from arauto.model import TEXT
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, Raw, frame, hold_steady, opened, witness
from tests.integration.session.talk import publish
from tests.integration.wire import Wire, connect

BODY = b'{"messages":[{"channel":"news","text":"x"}]}'
POST = b"POST /v1/publish?hub=shop HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
STREAM = b"GET /v1/sse?hub=shop&channel=news HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASKS = (
    b"GET /v1/ws?hub=shop HTTP/1.1\r\nHost: localhost\r\nUpgrade: %b\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY.encode() + b"\r\n"
    b"Sec-WebSocket-Protocol: arauto.v1.json\r\n%b\r\n"
)
UPGRADE = ASKS % (b"websocket", b"")
PING = b'{"event":"ping","id":7}'

#: What a client may send while something else is being answered, none of which has an answer of its own then.
INTRUDERS = {
    "an upgrade": UPGRADE,
    "two upgrades": UPGRADE + UPGRADE,
    "an upgrade to something else": ASKS % (b"h2c", b""),
    "no HTTP": b"\x00\x01\x02\r\n\r\n",
    "a body over the limit": POST.replace(b"Content-Length: ", b"Content-Length: 99999999"),
    "headers over the limit": b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
}


def heads(data: bytes) -> list[int]:
    """The statuses of all answers in it, wherever they stand."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", data)]


async def until(raw: Raw, mark: bytes) -> bytes:
    async with asyncio.timeout(15):
        return await raw.reader.readuntil(mark)


async def say(wire: Wire, text: bytes) -> None:
    wire.send(publish("news", text, content_type=TEXT))


@pytest.mark.parametrize("intruder", INTRUDERS.values(), ids=INTRUDERS)
@pytest.mark.parametrize("together", [True, False])
async def test_a_stream_goes_on_undisturbed_whatever_else_its_client_sends(
    node: RunningNode, intruder: bytes, together: bool
) -> None:
    wire = await connect(node.url)
    async with opened(node) as raw:
        if together:
            await raw.send(STREAM + intruder)
            came = await until(raw, b"event: subscribe\n")
        else:
            await raw.send(STREAM)
            came = await until(raw, b"event: subscribe\n")
            await raw.send(intruder)
        # Two, so that what the intruder brought about stands between them at the latest.
        for text in (b"first", b"second"):
            await say(wire, text)
            came += await until(raw, b'"text":"%b"' % text)
        assert heads(came) == [200]
        assert b"\x81" not in came
    await hold_steady(node, 1)
    await wire.close()


@pytest.mark.parametrize(
    "behind", [STREAM, POST, POST.replace(b"Content-Length: ", b"Content-Length: 9999999"), UPGRADE]
)
async def test_a_stream_with_something_behind_it_ends_when_its_client_leaves(
    node: RunningNode, behind: bytes
) -> None:
    async with opened(node) as raw:
        await raw.send(STREAM + behind)
        await until(raw, b"event: subscribe\n")
    async with asyncio.timeout(15):
        while node.node.sse.connections:  # noqa: ASYNC110 - it does not tell
            await asyncio.sleep(0.01)
    await hold_steady(node)


async def test_a_stream_that_ends_after_an_intruder_ends_its_connection(node: RunningNode) -> None:
    async with opened(node) as raw:
        await raw.send(STREAM + UPGRADE)
        await until(raw, b"event: subscribe\n")
        for connection in list(node.node.sse.connections):
            connection.end()
        rest = await raw.until_closed()
    assert heads(rest) == []
    assert rest.endswith(b"0\r\n\r\n")
    await hold_steady(node)


async def test_half_a_request_behind_a_stream_does_not_end_it_at_the_deadline(
    start_node: StartNode,
) -> None:
    node = await start_node(connection={"port": 0, "http": {"requestTimeoutS": 0.2}})
    wire = await connect(node.url)
    async with opened(node) as raw:
        await raw.send(STREAM)
        came = await until(raw, b"event: subscribe\n")
        await raw.send(b"GET /healthz HT")
        # The deadline of who comes later is over later.
        async with opened(node) as idle:
            await idle.send(b"GET /hea")
            assert heads(await idle.until_closed()) == [408]
        await say(wire, b"still here")
        came += await until(raw, b"still here")
    assert heads(came) == [200]
    await wire.close()


@pytest.mark.parametrize("intruder", INTRUDERS.values(), ids=INTRUDERS)
async def test_a_publication_is_answered_before_what_follows_it_ends_the_connection(
    node: RunningNode, intruder: bytes
) -> None:
    async with witness(node):
        async with opened(node) as raw:
            await raw.send(POST + POST + intruder)
            answer = await raw.until_closed()
        assert heads(answer) == [200, 200]
        assert answer.count(b'"serial"') == 2
        await hold_steady(node, 1)


async def test_an_upgrade_after_a_whole_answer_is_taken(node: RunningNode) -> None:
    async with opened(node) as raw:
        await raw.send(POST)
        await until(raw, b'"serial"')
        await raw.send(UPGRADE)
        await until(raw, b"HTTP/1.1 101 ")
        await until(raw, b"\r\n\r\n")
        opcode, payload = await raw.frame()
    assert (opcode, msgspec.json.decode(payload)["event"]) == (1, "session_info")
    await hold_steady(node)


async def answer_to_ping(raw: Raw) -> dict[str, object]:
    await until(raw, b"\r\n\r\n")
    while True:
        _, payload = await raw.frame()
        event: dict[str, object] = msgspec.json.decode(payload)
        if event["event"] == "pong":
            return event


@pytest.mark.parametrize("known", [True, False], ids=["an open hub", "a hub to be opened"])
async def test_frames_that_come_with_the_upgrade_are_read_in_order(
    node: RunningNode, known: bool
) -> None:
    wire = await connect(node.url, hub="shop" if known else "other")
    ping = frame(PING, 0x1)
    async with opened(node) as raw:
        await raw.send(UPGRADE + ping[:5])
        await raw.send(ping[5:])
        assert (await answer_to_ping(raw))["id"] == 7
    await hold_steady(node, 1)
    await wire.close()


async def test_frames_that_come_before_a_page_is_known_to_be_welcome_are_read(
    node: RunningNode,
) -> None:
    await node.node.storage.settings.put(
        "hub", "shop", "", b'{"allowedOrigins":["https://a.example"],"defaultPublic":true}'
    )
    async with opened(node) as raw:
        await raw.send(ASKS % (b"websocket", b"Origin: https://a.example\r\n") + frame(PING, 0x1))
        assert (await answer_to_ping(raw))["id"] == 7
    await hold_steady(node)


async def test_a_second_upgrade_in_the_same_piece_is_no_frame_and_ends_the_connection(
    node: RunningNode,
) -> None:
    async with witness(node):
        async with opened(node) as raw:
            await raw.send(UPGRADE + UPGRADE)
            assert (await until(raw, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await raw.close_code() == 1002
        await hold_steady(node, 1)


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_an_upgrade_with_a_body_is_refused(node: RunningNode, body: bytes) -> None:
    """Else its body would be read as frames."""
    async with opened(node) as raw:
        await raw.send(ASKS % (b"websocket", body) + b"hello")
        assert heads(await raw.until_closed()) == [400]
    await hold_steady(node)


async def test_a_publication_that_asks_for_another_protocol_is_refused_and_not_published(
    node: RunningNode,
) -> None:
    wire = await connect(node.url)
    upgrade = b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length"
    async with opened(node) as raw:
        await raw.send(POST.replace(b"Content-Length", upgrade))
        assert heads(await raw.until_closed()) == [400]
    hub = node.node.directory.hubs["shop"]
    assert "news" not in hub.channels
    await wire.close()


async def test_a_request_that_was_answered_early_gets_no_second_answer(node: RunningNode) -> None:
    """Its body goes over the limit when it has already been told that there is nothing here."""
    head = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with opened(node) as raw:
        await raw.send(head)
        came = await until(raw, b'"field":"path"}')
        await raw.send((b"80000\r\n" + b"x" * 0x80000 + b"\r\n") * 3)
        came += await raw.until_closed()
    assert heads(came) == [404]
    await hold_steady(node)
