"""Background tasks with an owner: none is forgotten, none fails in silence. And long work in short turns."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

__all__ = ["Allowance", "Pace", "TaskSet", "at_once", "in_turns"]

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


class Allowance:
    """What may be done of some kind of work in each turn of the event loop, by all who have it done together.

    Who finds it spent waits for `turn`, in line. A step that has begun is finished, so that a turn may take
    that much more.
    """

    __slots__ = ("_is_passed_on", "_per_turn", "_spent", "_waiting")

    def __init__(self, per_turn: float) -> None:
        self._per_turn = per_turn
        self._spent = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._is_passed_on = False
        """Whether those who waited are about to go on: nobody who comes now goes before them."""

    @property
    def is_spent(self) -> bool:
        """Whether something new is for a later turn."""
        return self._spent >= self._per_turn or self._is_passed_on

    def spend(self, amount: float) -> None:
        """So much was done."""
        if amount <= 0:
            return
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._renew)
        self._spent += amount

    async def turn(self) -> None:
        """Wait for a turn in which something is left, if there is nothing in this one."""
        while self._spent >= self._per_turn:
            next_turn = asyncio.get_running_loop().create_future()
            self._waiting.append(next_turn)
            await next_turn

    def _renew(self) -> None:
        self._spent = 0.0
        waiting, self._waiting = self._waiting, []
        for next_turn in waiting:
            if not next_turn.done():
                next_turn.set_result(None)
                self._is_passed_on = True
        if self._is_passed_on:
            asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._is_passed_on = False


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
