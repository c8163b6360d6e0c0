"""Standard input as it comes, line by line, without a thread that Ctrl-C could not stop."""

import asyncio
import os
from collections.abc import AsyncIterator

__all__ = ["LINE_BYTES_MAX", "LineTooLongError", "read_lines"]

LINE_BYTES_MAX = 16 * 1024 * 1024
_READ_BYTES = 65_536


class LineTooLongError(ValueError):
    """A line is longer than any message could be."""


async def read_lines(fd: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines that are there, as soon as they are; without their line breaks.

    Raises:
        LineTooLongError: over LINE_BYTES_MAX.
    """
    rest: list[bytes] = []
    rest_bytes = 0
    while chunk := await _read(fd):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join(rest) + lines[0]
            rest, rest_bytes = [], 0
            yield [line.removesuffix(b"\r") for line in lines]
        rest.append(last)
        rest_bytes += len(last)
        if rest_bytes > LINE_BYTES_MAX:
            raise LineTooLongError(f"a line has more than {LINE_BYTES_MAX} bytes")
    if rest_bytes:
        yield [b"".join(rest)]


async def _read(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _wake, ready)
    except PermissionError:
        # A regular file: it never makes anyone wait. The others get their turn all the same.
        await asyncio.sleep(0)
        return os.read(fd, _READ_BYTES)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _READ_BYTES)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
