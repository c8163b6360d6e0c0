"""An echo server on the real WebSocket framing, for conformance suites.

`python -m arauto.testing.echo_server --port N` listens on loopback and echoes every message, on any path.
"""

import argparse
import asyncio

import uvloop
from picows import WSMsgType

from arauto.clock import SystemClock
from arauto.codec.websocket import frame
from arauto.errors import Code
from arauto.gateways.buffers import ReadBuffers
from arauto.gateways.framing import FramedConnection
from arauto.gateways.guard import Admission, HttpLimits, Upgrade
from arauto.gateways.port import Port
from arauto.gateways.reader import take_over
from arauto.limits import FRAGMENTS_LEN_MAX

__all__ = ["main", "serve_echo"]

_MESSAGE_BYTES_MAX = 32 * 1024 * 1024


class _Echo(FramedConnection):
    __slots__ = ()

    def on_message(self, kind: WSMsgType, data: bytes) -> None:
        self.write(frame(data, kind.value))


async def serve_echo(port: int) -> Port:
    """Start echoing; returns the open port."""
    clock = SystemClock()
    buffers = ReadBuffers()

    def upgrade(request: Upgrade) -> None:
        take_over(
            request,
            dict(request.headers),
            "",
            _Echo(
                clock,
                message_bytes_max=_MESSAGE_BYTES_MAX,
                fragments_max=FRAGMENTS_LEN_MAX,
                leave=request.leave,
            ),
            buffers,
            read_buffer_bytes=65_536,
            message_bytes_max=_MESSAGE_BYTES_MAX,
        )

    server = Port(
        _nothing,
        limits=HttpLimits(),
        admission=Admission(),
        upgrade=upgrade,
        count=_nobody_counts,
        keep_alive_s=5,
    )
    await server.listen("127.0.0.1", port)
    return server


def _nobody_counts(code: Code) -> None:
    """Nobody looks."""


async def _nothing(scope: object, receive: object, send: object) -> None:
    raise RuntimeError("the echo server answers WebSocket only")


async def _run(port: int) -> None:
    server = await serve_echo(port)
    print(f"echoing on ws://127.0.0.1:{server.port}/", flush=True)  # noqa: T201 - this is its output
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Echo WebSocket messages on loopback.")
    parser.add_argument("--port", type=int, default=9001)
    uvloop.run(_run(parser.parse_args().port))


if __name__ == "__main__":
    main()
