"""What holds for any bytes on the client port before a session exists. Shared by fuzz target and tests.

The first byte says how the rest is cut into pieces, as a network might; the pieces are fed to the port's
HTTP protocol through a transport that only takes notes. Whatever comes: nothing is raised, what is answered
is whole HTTP, limits hold for what reaches the application, and nothing stays behind.
"""

import asyncio
import atexit
import functools
import random
import re
from collections.abc import Iterator
from typing import Any

import httptools
import uvicorn
from uvicorn.server import ServerState

from arauto.errors import Code
from arauto.gateways.guard import Admission, GuardedHttp, HttpLimits, Upgrade, response
from fuzz.codec_laws import within_a_second

__all__ = ["LIMITS", "Outcome", "check_http", "feed"]

#: Small, so that short inputs reach them.
LIMITS = HttpLimits(header_count_max=8, header_bytes_max=256, body_bytes_max=512)

_PIECE_MAX = 40
#: Turns of the event loop after which an application that has what it needs is done.
_TURNS = 12

_STATUS_LINE = re.compile(rb"HTTP/1\.1 \d{3} ")
_ANSWERS = frozenset({204})
_REFUSALS = frozenset({400, 408, 413, 431, 503})


class _Transport(asyncio.Transport):
    """Takes notes. Like a real one it forgets what is written after it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)})
        self.written = b""
        self.closed = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:
            self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def is_reading(self) -> bool:
        return not self.paused

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Outcome:
    """What became of one connection."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.refused: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.upgrades: list[Upgrade] = []
        self.closed = False

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application that reads the body and answers with 204."""
        self.requests.append(scope)
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def upgrade(self, request: Upgrade) -> bytes | None:
        """An upgrade handler that accepts on /ws and refuses elsewhere."""
        self.upgrades.append(request)
        if request.target.startswith(b"/ws"):
            return None
        return response(404, Code.HANDSHAKE_REFUSED, "not here")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _pieces(data: bytes, how: int) -> Iterator[bytes]:
    if not how:
        yield data
        return
    chance = random.Random(how)
    at = 0
    while at < len(data):
        size = chance.randint(1, _PIECE_MAX)
        yield data[at : at + size]
        at += size


def feed(data: bytes, how: int = 0) -> Outcome:
    """Let a connection receive the data, then end it; return what happened.

    Raises:
        AssertionError: something was left behind, or an answer is not HTTP.
    """
    return _loop().run_until_complete(_feed(data, how))


async def _feed(data: bytes, how: int) -> Outcome:
    outcome = Outcome()
    # As the port sets it up.
    config = uvicorn.Config(
        outcome.app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        interface="asgi3",
    )
    state, admission, transport = ServerState(), Admission(10, 10), _Transport()
    protocol = GuardedHttp(
        config, state, LIMITS, admission, outcome.upgrade, outcome.refused.append
    )
    protocol.connection_made(transport)
    for piece in _pieces(data, how):
        if transport.closed or outcome.upgrades:
            break
        protocol.data_received(piece)
        if how % 2:
            # Half of the inputs give the application a chance to answer between two pieces.
            await _turns()
    await _turns()
    if protocol._deadline is not None:
        protocol._too_slow()
    if outcome.upgrades and not transport.closed:
        outcome.upgrades[0].leave()
    else:
        protocol.connection_lost(None)
    await _turns()
    outcome.closed = transport.closed
    assert admission.count == 0
    assert not admission.by_address
    assert not state.connections
    assert not state.tasks, "an application is left waiting"
    assert protocol._deadline is None
    assert protocol.timeout_keep_alive_task is None
    outcome.statuses = _statuses(transport.written)
    assert len(outcome.refused) >= sum(status in _REFUSALS for status in outcome.statuses)
    return outcome


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def _statuses(written: bytes) -> list[int]:
    """Read what was answered as a client would."""
    statuses: list[int] = []

    class Reader:
        def on_message_complete(self) -> None:
            statuses.append(parser.get_status_code())

    parser = httptools.HttpResponseParser(Reader())
    if written:
        parser.feed_data(written)
    assert len(_STATUS_LINE.findall(written)) == len(statuses), "an answer is not whole"
    return [status for status in statuses if status != 100]


@within_a_second
def check_http(data: bytes) -> None:
    """Any bytes, cut anyhow."""
    how, rest = (data[0], data[1:]) if data else (0, b"")
    outcome = feed(rest, how)
    *answers, last = outcome.statuses or [204]
    assert set(answers) <= _ANSWERS, "something follows a refusal"
    assert last in _ANSWERS or (outcome.closed and last in _REFUSALS | {404}), last
    for scope in outcome.requests:
        _check_headers(scope["headers"], len(scope["raw_path"]) + len(scope["query_string"]))
    for upgrade in outcome.upgrades:
        _check_headers(upgrade.headers, len(upgrade.target))
    assert all(len(body) <= LIMITS.body_bytes_max for body in outcome.bodies)


def _check_headers(headers: list[tuple[bytes, bytes]], target_len: int) -> None:
    assert len(headers) <= LIMITS.header_count_max
    size = sum(len(name) + len(value) for name, value in headers) + target_len
    assert size <= LIMITS.header_bytes_max, f"{size} bytes of headers reached the application"
    for name, value in headers:
        assert not set(b"\r\n\0") & set(name + value)
