"""Pages of names: everything once, in order, without holding up the loop."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.admin.paging import first_after, first_covered, page_of
from arauto.hub.name_index import NameIndex
from arauto.names import matches

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


@given(_names, st.integers(1, 7), st.sampled_from(["*", "a*", "*a", "*a*b"]))
def test_following_the_cursor_gives_every_covered_name_once_in_order(
    names: list[str], limit: int, pattern: str
) -> None:
    index = NameIndex()
    for name in names:
        index.add(name)

    async def walk() -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            covered = await first_covered(index, pattern, after, limit + 1)
            page, after = page_of(covered, limit)
            found += page
            if not after:
                return found

    assert asyncio.run(walk()) == list(index.matching(pattern))


async def test_a_pattern_that_must_look_at_every_name_lets_others_run_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = NameIndex()
    for number in range(2_000):
        index.add(f"a{number:06}")
    compared = [0]

    def count(pattern: str, name: str) -> bool:
        compared[-1] += 1
        return matches(pattern, name)

    async def turn() -> None:
        while True:
            compared.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr("arauto.hub.name_index.matches", count)
    turning = asyncio.ensure_future(turn())
    assert await first_covered(index, "*z", "", 5) == []
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)
    assert sum(compared) == 2_000
    assert max(compared) <= 100


async def test_a_page_looks_at_no_more_names_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    index = NameIndex()
    for number in range(50_000):
        index.add(f"{number:06}")
    looked = 0
    page = index.page

    def count(pattern: str, after: str, scan_len: int) -> tuple[list[str], str]:
        nonlocal looked
        looked += scan_len
        return page(pattern, after, scan_len)

    monkeypatch.setattr(NameIndex, "page", lambda _, *given: count(*given))
    found = await first_covered(index, "*", "049990", 5)
    assert found == ["049991", "049992", "049993", "049994", "049995"]
    assert looked <= 1_000


async def test_a_long_list_lets_others_run_in_between() -> None:
    names = [f"{number:06}" for number in range(50_000)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    page = await first_after(names[::-1], "049990", 5)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    assert page == ["049991", "049992", "049993", "049994", "049995"]
    assert turns >= 5
