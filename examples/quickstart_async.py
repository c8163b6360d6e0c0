"""Publish and subscribe in a dozen lines.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/quickstart_async.py
"""

import asyncio
import os

from arauto.client import Client

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")


async def main() -> None:
    async with Client(URL, hub="shop") as c:
        # `ready` waits until the node has confirmed, so nothing published from now on is missed.
        stock = await c.subscribe("stock:42").ready()

        for quantity in (3, 2, 1):
            serial = await c.publish("stock:42", {"qty": quantity})
            print(f"published as number {serial.offset}")

        async for message in stock:
            print(f"{message.channel} now has {message.data['qty']}")
            if message.data["qty"] == 1:
                break


asyncio.run(main())
