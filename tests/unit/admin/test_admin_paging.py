"""Pages of names: everything once, in order, without holding up the loop."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from arauto.admin.paging import first_after, page_of

_names = st.lists(st.text(min_size=1, max_size=3), max_size=40, unique=True)


@given(_names, st.integers(1, 7))
def test_following_the_cursor_gives_every_name_once_in_order(names: list[str], limit: int) -> None:
    async def walk() -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page, after = page_of(await first_after(names, after, limit + 1), limit)
            assert len(page) <= limit
            found += page
            if not after:
                return found

    assert asyncio.run(walk()) == sorted(names)


async def test_a_long_list_lets_others_run_in_between() -> None:
    names = [f"{number:06}" for number in range(50_000)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    page = await first_after(reversed(names), "049990", 5)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    assert page == ["049991", "049992", "049993", "049994", "049995"]
    assert turns >= 5
