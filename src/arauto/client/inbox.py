"""A bounded queue between the connection and one consumer.

Putting never waits: the connection serves every subscription and must not stop for one. What to do when
it is full is the owner's decision. Taking is safe to cancel: an item leaves the queue only in the same
step in which it is returned.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from arauto.client.home import Home
from arauto.errors import ArautoError, Code

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items in order, bounded in number and bytes, until it is ended."""

    __slots__ = (
        "_bytes_max",
        "_ended",
        "_error",
        "_home",
        "_items",
        "_len_max",
        "_size_bytes",
        "_space",
        "_taker",
    )

    def __init__(self, len_max: int, bytes_max: int) -> None:
        self._home = Home()
        self._items: deque[tuple[T, int]] = deque()
        self._len_max = len_max
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._taker: asyncio.Future[None] | None = None
        self._space: asyncio.Future[None] | None = None
        self._ended = False
        self._error: ArautoError | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def fits(self, size_bytes: int) -> bool:
        """Whether an item of that size may be put. An empty inbox takes one item of any size."""
        if not self._items:
            return self._len_max > 0
        return len(self._items) < self._len_max and self._size_bytes + size_bytes <= self._bytes_max

    def put(self, item: T, size_bytes: int) -> None:
        """Append; ask `fits` first. Nothing is taken in once ended."""
        if self._ended:
            return
        self._items.append((item, size_bytes))
        self._size_bytes += size_bytes
        _wake(self._taker)

    def pop(self) -> T | None:
        """Take the oldest item without waiting; None if there is none."""
        if not self._items:
            return None
        item, size_bytes = self._items.popleft()
        self._size_bytes -= size_bytes
        _wake(self._space)
        return item

    def end(self, error: ArautoError | None = None) -> None:
        """No more items: whoever takes gets the rest, then the error or the end."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        _wake(self._taker)
        _wake(self._space)

    async def wait(self) -> bool:
        """Wait until there is an item; False if the inbox ended without error and is empty.

        Raises:
            ArautoError: the error it ended with, once it is empty; CONFLICT if someone waits already, or
                this is not the loop where items come.
        """
        while not self._items:
            if self._ended:
                if self._error is not None:
                    # A fresh traceback each time: the same error may be raised to several consumers.
                    raise self._error.with_traceback(None)
                return False
            self._home.check()
            if self._taker is not None:
                raise ArautoError(Code.CONFLICT, "another task already waits for the next item")
            self._taker = asyncio.get_running_loop().create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        return True

    async def wait_space(self, size_bytes: int) -> bool:
        """Wait until an item of that size fits; False if the inbox ended meanwhile."""
        while not self._ended and not self.fits(size_bytes):
            if self._space is None:
                self._space = asyncio.get_running_loop().create_future()
            space = self._space
            try:
                await asyncio.shield(space)
            finally:
                if space.done() and self._space is space:
                    self._space = None
        return not self._ended


def _wake(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)
