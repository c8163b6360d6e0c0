"""Ctrl-C and SIGTERM, the same way in every command: the first asks, the second insists."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["EXIT_FORCED", "run_until_asked", "stop_signals"]

EXIT_FORCED = 130


@contextmanager
def stop_signals(on_insist: Callable[[], None] | None = None) -> Iterator[asyncio.Event]:
    """While open, SIGINT and SIGTERM set the event; one more of them ends the process at once.

    Args:
        on_insist: called before that end, for what would outlive this process.
    """
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        if asked.is_set():
            sys.stderr.write("stopping at once\n")
            sys.stderr.flush()
            if on_insist is not None:
                on_insist()
            os._exit(EXIT_FORCED)
        asked.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, ask)
    try:
        yield asked
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def run_until_asked(work: Coroutine[Any, Any, None], asked: asyncio.Event) -> bool:
    """Run something until it ends or someone asks to stop; then it is cancelled.

    Returns:
        Whether it ended by itself.
    """
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        for each in (task, waiting):
            each.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
