"""The shops at work: each is a client that publishes what happens in it.

- `/orders/pt/<city>`: every order
- `stock:<city>:<sku>`: how much is left, retained for who comes later
- `shops`: who is open (presence)
- `doc:board`: the day's figures, a document that all shops change

The demo's hub stores all of it (see `hub.py`).
"""

import asyncio
from collections.abc import Callable
from functools import partial

from arauto.client import Client, Document
from arauto.clock import Clock
from arauto.demo.world import Shop
from arauto.entropy import Entropy

__all__ = ["BOARD", "ORDERS", "SHOPS", "run_shop"]

BOARD, ORDERS, SHOPS = "doc:board", "/orders/pt", "shops"

#: Seconds, from … to.
_BETWEEN_ORDERS_S = (0.7, 3.0)
_VAN_S = (8.0, 16.0)
_OPEN_S = (25.0, 60.0)
_CLOSED_S = (4.0, 9.0)

MakeClient = Callable[[str], Client]


async def run_shop(shop: Shop, make_client: MakeClient, clock: Clock, entropy: Entropy) -> None:
    """Run one shop for ever: sell, fill the shelves, close for a while.

    Raises:
        ArautoError: the node refused something.
    """
    async with make_client(shop.city) as client, client.document(BOARD) as board:
        work = _Work(shop, client, board, clock, entropy)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work.sell())
            tasks.create_task(work.restock())
            tasks.create_task(work.open_and_close())


class _Work:
    """What goes on in a shop at the same time."""

    def __init__(
        self, shop: Shop, client: Client, board: Document, clock: Clock, entropy: Entropy
    ) -> None:
        self._shop = shop
        self._client = client
        self._board = board
        self._clock = clock
        self._entropy = entropy

    async def sell(self) -> None:
        while True:
            await self._pause(_BETWEEN_ORDERS_S)
            shop = self._shop
            order = shop.sell()
            if order is None:
                continue
            await self._client.publish(f"{ORDERS}/{shop.city}", order)
            for sku in order.items:
                await self._tell_level(sku)
            figures = {"orders": shop.order_count, "cents": shop.revenue_cents}
            change = {"op": "add", "path": f"/{shop.city}", "value": figures}
            await self._board.change([change])

    async def restock(self) -> None:
        while True:
            await self._pause(_VAN_S)
            for sku in self._shop.restock():
                await self._tell_level(sku)

    async def open_and_close(self) -> None:
        while True:
            async with self._client.subscribe(SHOPS):
                await self._pause(_OPEN_S)
            await self._pause(_CLOSED_S)

    async def _tell_level(self, sku: str) -> None:
        channel = f"stock:{self._shop.city}:{sku}"
        await self._client.publish(channel, self._shop.level(sku), retain=True)

    async def _pause(self, span_s: tuple[float, float]) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(self._entropy.uniform(*span_s), partial(_end, over))
        try:
            await over
        finally:
            timer.cancel()


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)
