"""A node that tells, when asked with SIGUSR1, what only its own process can know: how many tasks there are.

Run as `python -m tests.chaos.watched --config FILE`, in place of `arauto serve`.
"""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from arauto.config.load import load
from arauto.config.schema import Config
from arauto.node import Node

__all__ = ["TASKS"]

#: Stands before the number in the line that answers SIGUSR1.
TASKS = "tasks:"


async def _run(config: Config) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_signal_handler(signal.SIGUSR1, _tell)
    node = Node(config)
    await node.start()
    print("watched node is up, in a soak", flush=True)
    await asked.wait()
    await node.stop()


def _tell() -> None:
    print(TASKS, len(asyncio.all_tasks()), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(load(Path(sys.argv[-1]), {})))
