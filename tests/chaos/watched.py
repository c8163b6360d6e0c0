"""A node that tells, when asked by a signal, what only its own process can know: how many tasks there are
(SIGUSR1), and how many objects of the kinds that come and go (SIGUSR2).

Run as `python -m tests.chaos.watched --config FILE`, in place of `arauto serve`.
"""

import asyncio
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

__all__ = ["ALIVE", "KINDS", "TASKS"]

#: Stands before the number in the line that answers SIGUSR1.
TASKS = "tasks:"
#: Stands before the counts, as JSON by the name of the kind, in the line that answers SIGUSR2.
ALIVE = "alive:"

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
    print(ALIVE, json.dumps(counts), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(load(Path(sys.argv[-1]), {})))
