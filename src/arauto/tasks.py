"""Background tasks with an owner: none is forgotten, none fails in silence. And long work in short turns."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

__all__ = ["Pace", "TaskSet", "at_once", "in_turns"]

T = TypeVar("T")

#: So many small steps, of some microseconds each, are done in one turn.
_TURN_STEPS = 500


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Do work step by step, one in each turn of the event loop; what it comes to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def at_once(steps: Generator[None, None, T]) -> T:
    """The same without letting anybody in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Pace:
    """For long work whose steps differ: lets others go on whenever enough was done."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    async def after(self, steps: int) -> None:
        """So much was done."""
        self._done += steps
        if self._done >= _TURN_STEPS:
            self._done = 0
            await asyncio.sleep(0)


class TaskSet:
    """The running background tasks of a component.

    A task that raises is reported to `on_error`; `close` waits a while for what still runs, then cancels it.
    """

    __slots__ = ("_closed", "_on_error", "_tasks")

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_error = on_error
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine to its end in the background."""
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._on_error(error)

    async def close(self, grace_s: float = 0) -> None:
        """Start nothing more; wait a while for what runs, then cancel it."""
        self._closed = True
        if self._tasks and grace_s:
            await asyncio.wait(self._tasks, timeout=grace_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
