"""The HTTP front: limits before allocation, deadlines, and no request that leaves anything behind."""

import asyncio
import re

import pytest

from arauto.errors import Code
from arauto.gateways.guard import HttpLimits
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, hold_steady, opened, resident_bytes, witness
from tests.integration.wire import connect

UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
WITH_KEY = UPGRADE + b"Sec-WebSocket-Key: " + KEY.encode() + b"\r\n"


def get(target: bytes, headers: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"


def post(headers: bytes, body: bytes = b"") -> bytes:
    head = b"POST /v1/publish?hub=shop HTTP/1.1\r\nHost: localhost\r\n"
    return head + headers + b"\r\n" + body


MANY_LARGE = b"".join(b"X-%d: %b\r\n" % (n, b"y" * 1_000) for n in range(95))
MANY_SMALL = b"".join(b"X-%d: y\r\n" % n for n in range(10_000))
CHUNKED = b"Transfer-Encoding: chunked\r\n"
WS = b"/v1/ws?hub=shop"

#: What is wrong with it: the request, and the statuses that may answer it.
BAD_REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", {400}),
    "no method": (b"/ HTTP/1.1\r\n\r\n", {400}),
    "an old version": (b"GET / HTTP/0.9\r\n\r\n", {400, 404}),
    "headers of 95 kB at once": (get(b"/healthz", MANY_LARGE), {400, 431}),
    "headers of 30 kB in one piece": (get(b"/healthz", MANY_LARGE[:30_000] + b"\r\n"), {400, 431}),
    "one header of 60 kB": (get(b"/healthz", b"X: " + b"y" * 60_000 + b"\r\n"), {400, 431}),
    "a long cookie": (get(WS, WITH_KEY + b"Cookie: " + b"y" * 60_000 + b"\r\n"), {400, 431}),
    "10,000 headers": (get(b"/healthz", MANY_SMALL), {400, 431}),
    "a URL of 100 kB": (get(b"/healthz?" + b"x" * 100_000), {400, 431}),
    "a body of 1 GB": (post(b"Content-Length: 1000000000\r\n"), {413}),
    "a length that is no number": (post(b"Content-Length: many\r\n"), {400}),
    "two lengths": (post(b"Content-Length: 3\r\nContent-Length: 9\r\n", b"abc"), {400}),
    "a length and chunks": (post(b"Content-Length: 3\r\n" + CHUNKED, b"3\r\nabc\r\n"), {400}),
    "an upgrade without a key": (get(WS, UPGRADE), {400}),
    "an upgrade with a bad key": (get(WS, UPGRADE + b"Sec-WebSocket-Key: x\r\n"), {400}),
    "an upgrade of an old version": (get(WS, WITH_KEY.replace(b"13", b"8")), {426}),
    "an upgrade elsewhere": (get(b"/v1/other", WITH_KEY), {404}),
    "an upgrade to a broken address": (get(b"//[/v1/ws", WITH_KEY), {400, 404}),
    "an upgrade to h2c": (get(WS, b"Upgrade: h2c\r\nConnection: Upgrade\r\n"), {400, 404}),
    "no subprotocol we know": (get(WS, WITH_KEY + b"Sec-WebSocket-Protocol: chat\r\n"), {400}),
    "too many query fields": (get(b"/v1/ws?" + b"a=1&" * 50, WITH_KEY), {400}),
    "CONNECT": (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n", {400, 404}),
    "a path upwards": (get(b"/../../etc/passwd"), {400, 404}),
    "an encoded path upwards": (get(b"/%2e%2e/%2e%2e/etc/passwd"), {400, 404}),
    "another method": (post(b"Content-Length: 0\r\n").replace(b"POST", b"PUT"), {400, 405}),
}

#: The public numbers that may come with a status of the guard's own.
NUMBERS: dict[int, set[int]] = {
    400: {Code.PROTOCOL_VIOLATION, Code.HANDSHAKE_REFUSED, Code.BAD_FIELD},
    408: {Code.REQUEST_TOO_SLOW},
    413: {Code.REQUEST_TOO_LARGE},
    431: {Code.REQUEST_TOO_LARGE},
    503: {Code.OVERLOADED},
}


def code_of(answer: bytes) -> int:
    """The number in the body of the first answer, which may come in chunks."""
    found = re.search(rb'"code":(\d+)', answer)
    assert found is not None, answer
    return int(found[1])


@pytest.mark.parametrize(("request_bytes", "statuses"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
async def test_a_bad_request_is_refused_and_leaves_nothing_behind(
    node: RunningNode, request_bytes: bytes, statuses: set[int]
) -> None:
    async with witness(node):
        for count in range(1, 4):
            async with opened(node) as raw:
                await raw.send(request_bytes)
                raw.writer.write_eof()
                answer = await raw.until_closed()
            assert answer[:9] == b"HTTP/1.1 ", answer[:100]
            status = int(answer[9:12])
            assert status in statuses, answer[:200]
            assert code_of(answer) in NUMBERS.get(status, set(Code)), answer
            assert node.node.metrics.total().refused == {code_of(answer): count}
        await hold_steady(node, 1)


async def test_a_body_without_end_is_cut_at_the_limit(start_node: StartNode) -> None:
    node = await start_node(connection={"port": 0, "http": {"bodyBytesMax": 10_000}})
    async with witness(node), opened(node) as raw:
        await raw.send(
            b"POST /v1/publish?hub=shop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(30):
            await raw.send(b"400\r\n" + b"x" * 1_024 + b"\r\n")
        answer = await raw.until_closed()
        assert answer[9:12] in (b"413", b"431")
        assert code_of(answer) == Code.REQUEST_TOO_LARGE


async def test_memory_stays_bounded_under_oversized_requests(node: RunningNode) -> None:
    """T10, T11: refused before anything is set aside for them."""
    async with witness(node):
        await _attack(node)
        before = resident_bytes()
        for _ in range(5):
            await _attack(node)
        assert resident_bytes() - before < 10_000_000


async def _attack(node: RunningNode) -> None:
    for request_bytes, _ in list(BAD_REQUESTS.values())[3:10]:
        async with opened(node) as raw:
            await raw.send(request_bytes)
            await raw.until_closed()


async def test_half_requests_are_closed_at_the_deadline_and_keep_nobody_out(
    start_node: StartNode,
) -> None:
    """T13: 200 clients that never finish their request, and one that does."""
    node = await start_node(connection={"port": 0, "http": {"requestTimeoutS": 1.5}})
    slow = [await asyncio.open_connection("127.0.0.1", node.port) for _ in range(200)]
    halves = [
        b"",
        b"GET /v1/ws",
        b"GET /v1/ws?hub=shop HTTP/1.1\r\nHost: localhost\r\n",
        get(b"/")[:-2],
    ]
    for number, (_, writer) in enumerate(slow):
        writer.write(halves[number % len(halves)])
    async with asyncio.timeout(1):
        good = await connect(node.url)
    await good.close()
    async with asyncio.timeout(8):
        for reader, _ in slow:
            answer = await reader.read(-1)
            if answer:
                assert b" 408 " in answer[:20]
                assert code_of(answer) == Code.REQUEST_TOO_SLOW
    assert node.node.metrics.total().refused == {Code.REQUEST_TOO_SLOW: 200}
    for _, writer in slow:
        writer.close()
    await hold_steady(node)


async def test_one_byte_at_a_time_does_not_move_the_deadline(start_node: StartNode) -> None:
    node = await start_node(connection={"port": 0, "http": {"requestTimeoutS": 1}})
    request = get(b"/healthz", b"X-Slow: " + b"y" * 200 + b"\r\n")
    async with opened(node) as raw:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        for byte in request:
            raw.writer.write(bytes((byte,)))
            try:
                await asyncio.wait_for(raw.reader.readexactly(1), 0.05)
                break
            except TimeoutError:
                continue
            except (asyncio.IncompleteReadError, ConnectionError):
                break
        assert loop.time() - started_s < 4


async def test_connections_are_limited_in_all_and_per_address(start_node: StartNode) -> None:
    for limit in ({"maxConnections": 3}, {"connectionsPerIpMax": 3}):
        node = await start_node(connection={"port": 0, **limit})
        wires = [await connect(node.url) for _ in range(3)]
        async with opened(node) as raw:
            answer = await raw.until_closed()
            assert b" 503 " in answer[:20]
            assert code_of(answer) == Code.OVERLOADED
            assert b"Retry-After" in answer
            assert node.node.metrics.total().refused == {Code.OVERLOADED: 1}
        await wires.pop().close()
        await hold_steady(node, 2)
        wires.append(await connect(node.url))
        for wire in wires:
            await wire.close()
        await hold_steady(node)
        assert node.node.port.admission.by_address == {}


async def test_of_thousands_of_requests_in_one_piece_few_are_begun_and_those_are_answered(
    node: RunningNode,
) -> None:
    """Found by looking: six thousand of them held everybody up for two seconds."""
    most = HttpLimits().pipelined_max
    async with witness(node), opened(node) as raw:
        for _ in range(2):
            await raw.send(get(b"/healthz") * most)
            answers = b""
            async with asyncio.timeout(10):
                while answers.count(b"HTTP/1.1 200 ") < most:
                    answers += await raw.reader.read(65_536)
        await raw.send(get(b"/healthz") * 6_000)
        answers = await raw.until_closed()
        assert answers.count(b"HTTP/1.1 200 ") == answers.count(b"HTTP/1.1 ") == most
    await hold_steady(node)


@pytest.mark.parametrize(
    "offers",
    [["arauto.v1.json", "chat"], ["chat", "arauto.v1.json"], ["chat, other", "arauto.v1.json"]],
)
async def test_subprotocols_offered_in_several_headers_are_one_list(
    node: RunningNode, offers: list[str]
) -> None:
    lines = "".join(f"Sec-WebSocket-Protocol: {offer}\r\n" for offer in offers).encode()
    async with opened(node) as raw:
        await raw.send(get(WS, WITH_KEY + lines))
        head = await raw.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Protocol: arauto.v1.json\r\n" in head
