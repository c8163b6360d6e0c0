"""A node that tells, when asked by a signal, what only its own process can know: how many tasks there are
(SIGUSR1), how many objects of the kinds that come and go, and who has its memory (SIGUSR2).

Run as `python -m tests.chaos.watched --config FILE`, in place of `arauto serve`.
"""

import _sqlite3
import asyncio
import ctypes
import gc
import json
import signal
import sys
from collections import Counter
from pathlib import Path

import uvloop

from arauto.cli.collector import Collector
from arauto.config.load import load
from arauto.config.schema import Config
from arauto.gateways.websocket import WebSocketConnection
from arauto.hub.channel import Channel
from arauto.hub.fanout import Lane
from arauto.hub.hooks import Feature
from arauto.hub.hub import Hub
from arauto.hub.outbox import Outbox
from arauto.hub.subscriber import Subscriber
from arauto.node import Node
from arauto.session.session import Session

__all__ = ["ALIVE", "KINDS", "MEMORY", "TASKS"]

#: Stands before the number in the line that answers SIGUSR1.
TASKS = "tasks:"
#: Stands before the counts, as JSON by the name of the kind, and `MEMORY`, in the line that answers SIGUSR2.
ALIVE = "alive:"
#: What else is counted there: small blocks of Python's, and bytes that SQLite holds, that are given out by
#: malloc (SQLite's among them), and that malloc keeps though they are free.
MEMORY = ("blocks", "sqlite", "malloc", "free")

KINDS: tuple[type, ...] = (
    Hub,
    Channel,
    Feature,
    Lane,
    WebSocketConnection,
    Session,
    Subscriber,
    Outbox,
)


async def _run(config: Config) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_signal_handler(signal.SIGUSR1, _tell_tasks)
    loop.add_signal_handler(signal.SIGUSR2, _tell_alive)
    node = Node(config)
    await node.start()
    # As `arauto serve` does: between its collections nothing is freed but by counting references.
    collector = Collector(node.clock)
    collector.start()
    print("watched node is up, in a soak", flush=True)
    await asked.wait()
    collector.stop()
    await node.stop()


def _tell_tasks() -> None:
    print(TASKS, len(asyncio.all_tasks()), flush=True)


def _tell_alive() -> None:
    types = Counter(type(each) for each in gc.get_objects())
    counts = {
        kind.__name__: sum(count for found, count in types.items() if issubclass(found, kind))
        for kind in KINDS
    }
    figures = (sys.getallocatedblocks(), _sqlite_bytes(), *_malloc_bytes())
    print(ALIVE, json.dumps(counts | dict(zip(MEMORY, figures, strict=True))), flush=True)


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _malloc_bytes() -> tuple[int, int]:
    """(given out, kept though free) by the C library."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return found.uordblks + found.hblkhd, found.fordblks


def _sqlite_bytes() -> int:
    memory_used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    memory_used.restype = ctypes.c_int64
    return int(memory_used())


if __name__ == "__main__":
    uvloop.run(_run(load(Path(sys.argv[-1]), {})))
