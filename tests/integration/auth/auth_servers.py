"""Little HTTP servers on loopback, most of them ill-behaved, for the tests of outbound calls."""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Reads one request per connection, keeps it, and answers as it was told."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/auth"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size_bytes = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    size_bytes = int(line.partition(b":")[2])
            self.requests.append(head + await reader.readexactly(size_bytes))
            self.arrived.set()
            await self.answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has hung up, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(
    answer: Answer, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await asyncio.start_server(server.handle, host, port, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()


def bytes_of(data: bytes) -> Answer:
    """Send exactly this and close."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def response(
    body: bytes = b"{}",
    status: str = "200 OK",
    content_type: str = "application/json",
    *headers: str,
) -> Answer:
    """Send one whole, correct response."""
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return bytes_of("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def repeating(first: bytes, piece: bytes, pause_s: float = 0) -> Answer:
    """Send `first`, then `piece` again and again for as long as the client listens."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return answer


async def silent(writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


class ScriptedResolver:
    """Gives one answer after another, the last one for ever; remembers what it was asked."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def resolve(self, hub: str, host: str, port: int) -> list[IpAddress]:
        self.asked.append((host, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return [ipaddress.ip_address(address) for address in answer]
