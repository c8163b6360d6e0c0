"""The shops as a game of numbers: what they have, what is ordered, what arrives. Pure; chance comes in."""

from collections.abc import Mapping

import msgspec

from arauto.entropy import Entropy

__all__ = ["CITIES", "GOODS", "Level", "Order", "Shop"]

CITIES = ("porto", "lisboa", "braga", "faro")

#: sku → (what it is, price in cents)
GOODS: Mapping[str, tuple[str, int]] = {
    "espresso": ("Espresso beans, 1 kg", 1890),
    "filter": ("Filter coffee, 500 g", 990),
    "mug": ("Blue mug", 1250),
    "kettle": ("Kettle, 0.9 l", 4900),
    "grinder": ("Hand grinder", 7450),
    "tea": ("Gorreana green tea", 680),
}

_FULL = 40
_LOW = 6
_ITEMS_MAX = 2
_QUANTITY_MAX = 4


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Level(_Record, frozen=True):
    """How much of a thing a shop has."""

    level: int
    name: str


class Order(_Record, frozen=True):
    """Somebody bought something."""

    order: str
    cents: int
    items: dict[str, int]
    """sku → how many."""


class Shop:
    """One shop's shelves and books."""

    def __init__(self, city: str, entropy: Entropy) -> None:
        self.city = city
        self._entropy = entropy
        self._levels = {sku: self._between(_LOW, _FULL) for sku in GOODS}
        self.order_count = 0
        self.revenue_cents = 0

    def level(self, sku: str) -> Level:
        return Level(level=self._levels[sku], name=GOODS[sku][0])

    def sell(self) -> Order | None:
        """Somebody buys a few things that are there; None if the shelves are empty."""
        items: dict[str, int] = {}
        for _ in range(self._between(1, _ITEMS_MAX)):
            there = [sku for sku, count in self._levels.items() if count and sku not in items]
            if not there:
                break
            sku = there[self._between(0, len(there) - 1)]
            items[sku] = min(self._between(1, _QUANTITY_MAX), self._levels[sku])
            self._levels[sku] -= items[sku]
        if not items:
            return None
        cents = sum(GOODS[sku][1] * quantity for sku, quantity in items.items())
        self.order_count += 1
        self.revenue_cents += cents
        number = f"{self.city[:2].upper()}-{self.order_count}"
        return Order(order=number, cents=cents, items=items)

    def restock(self) -> list[str]:
        """The van comes: what ran low is filled up. Returns what that was."""
        low = [sku for sku, count in self._levels.items() if count < _LOW]
        for sku in low:
            self._levels[sku] = self._between(_FULL // 2, _FULL)
        return low

    def _between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return min(high, low + int(self._entropy.uniform(0, high - low + 1)))
