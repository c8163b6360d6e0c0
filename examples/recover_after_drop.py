"""The network breaks, messages go on, nobody misses one.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/recover_after_drop.py
"""

import asyncio
import os
from urllib.parse import urlsplit

from arauto.client import Client, State

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")


class BadNetwork:
    """Stands between the client and the node: carries bytes until it is cut."""

    async def start(self) -> str:
        self.writers: list[asyncio.StreamWriter] = []
        self.server = await asyncio.start_server(self.connect, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def connect(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        node = urlsplit(URL)
        far, forth = await asyncio.open_connection(node.hostname, node.port or 80)
        self.writers = [back, forth]
        await asyncio.gather(self.carry(near, forth), self.carry(far, back))

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(4096):
            target.write(data)
        target.close()

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


def show(before: State, now: State) -> None:
    print(f"reader is {now}")


async def main() -> None:
    network = BadNetwork()
    bad_url = await network.start()
    async with (
        Client(URL, hub="news") as publisher,
        Client(bad_url, hub="news", on_state_change=show) as reader,
    ):
        headlines = await reader.subscribe("headlines").ready()
        await publisher.publish("headlines", "before the drop")
        print((await anext(headlines)).data)

        network.cut()
        for number in (1, 2, 3):
            await publisher.publish("headlines", f"missed {number}")

        for _ in range(3):
            print((await anext(headlines)).data)
        print(f"recovered: {headlines.recovered}")
    network.server.close()


asyncio.run(main())
