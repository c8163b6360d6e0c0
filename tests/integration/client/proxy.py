"""A bad network between a client and a node: it carries bytes until it is told to cut or to hold them."""

import asyncio
from types import TracebackType
from typing import Self

__all__ = ["Proxy"]


class Proxy:
    """A TCP proxy on loopback.

    `cut` breaks every connection. With `cut_after_bytes` set, each connection breaks by itself after that
    many bytes in either direction, wherever in a frame that may be.
    """

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.cut_after_bytes: int | None = None
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break all connections at once, without a word."""
        for writer in list(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        """Carry nothing more, break nothing: a network that went silent."""
        self._flowing.clear()

    def flow(self) -> None:
        """Carry on after `hold`."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self._writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(
                "127.0.0.1", self._target_port
            )
            self._writers.add(there_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._carry(reader, there_writer))
                    group.create_task(self._carry(there_reader, writer))
            finally:
                self._writers.discard(there_writer)
                there_writer.transport.abort()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # what a bad network is for
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.cut_after_bytes
        while data := await reader.read(4_096):
            await self._flowing.wait()
            if left is not None and len(data) >= left:
                writer.write(data[:left])
                await writer.drain()
                raise ConnectionResetError("cut")
            left = left - len(data) if left is not None else None
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("the other side has ended")
