"""A dashboard over many channels: one pattern, the latest value of each.

arauto serve --config examples/config.yaml     (in another terminal)
python examples/wildcard_dashboard.py
"""

import asyncio
import os

from arauto.client import Client, Draft, Overflow

URL = os.environ.get("ARAUTO_URL", "ws://127.0.0.1:8080")
SHOPS = ("lisbon", "porto", "braga")


async def shop(name: str) -> None:
    """A shop that reports its stock; the last report of each article is retained for newcomers."""
    async with Client(URL, hub="shops") as c:
        reports = [
            Draft(channel=f"stock:{name}:{article}", data={"qty": quantity}, retain=True)
            for article in ("tea", "coffee")
            for quantity in (9, 5, 2)
        ]
        await c.publish_many(reports)


async def main() -> None:
    async with Client(URL, hub="shops") as c:
        # A dashboard wants what is current: if it falls behind, the oldest reports may go.
        stock = await c.subscribe("stock:*", overflow=Overflow.DROP_OLDEST).ready()
        await asyncio.gather(*(shop(name) for name in SHOPS))

        latest: dict[str, int] = {}
        async for message in stock:
            latest[message.channel] = message.data["qty"]
            if len(latest) == 6 and set(latest.values()) == {2}:
                break

        for channel, quantity in sorted(latest.items()):
            _, city, article = channel.split(":")
            print(f"{city:10} {article:10} {quantity:3}")


asyncio.run(main())
