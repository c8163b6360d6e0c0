"""The simulated shops keep honest books."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arauto.demo.world import CITIES, GOODS, Shop
from arauto.entropy import SeededEntropy

_DAYS = st.lists(st.sampled_from(["sell", "restock"]), max_size=200)


def levels(shop: Shop) -> dict[str, int]:
    return {sku: shop.level(sku).level for sku in GOODS}


@given(st.integers(0, 2**32), _DAYS)
def test_what_is_sold_leaves_the_shelf_and_nothing_else_does(seed: int, days: list[str]) -> None:
    shop = Shop(CITIES[0], SeededEntropy(seed))
    cents = 0
    for day in days:
        before = levels(shop)
        if day == "restock":
            filled = shop.restock()
            after = levels(shop)
            assert all(after[sku] > before[sku] for sku in filled)
            assert all(after[sku] == before[sku] for sku in before if sku not in filled)
            continue
        order = shop.sell()
        sold = order.items if order is not None else {}
        cents += order.cents if order is not None else 0
        assert levels(shop) == {sku: before[sku] - sold.get(sku, 0) for sku in before}
        assert all(quantity > 0 for quantity in sold.values())
    assert min(levels(shop).values()) >= 0
    assert shop.revenue_cents == cents


def test_an_empty_shop_sells_nothing_until_the_van_comes() -> None:
    shop = Shop("porto", SeededEntropy(1))
    while shop.sell() is not None:
        pass
    assert set(levels(shop).values()) == {0}
    assert set(shop.restock()) == set(GOODS)
    assert shop.sell() is not None


def test_the_same_seed_makes_the_same_day() -> None:
    first, second = (Shop("faro", SeededEntropy(7)) for _ in range(2))
    assert [first.sell() for _ in range(50)] == [second.sell() for _ in range(50)]


def test_an_order_reads_well_as_json() -> None:
    order = Shop("braga", SeededEntropy(3)).sell()
    assert order is not None
    written = msgspec.json.decode(msgspec.json.encode(order))
    assert set(written) == {"order", "cents", "items"}
    assert written["order"] == "BR-1"
