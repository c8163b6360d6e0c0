"""Pages of sorted names, found without holding up the event loop."""

import asyncio
import heapq
from collections.abc import Collection

from arauto.hub.name_index import SLICE_LEN, NameIndex

__all__ = ["PAGE_LEN", "PAGE_LEN_MAX", "first_after", "first_covered", "page_of"]

PAGE_LEN = 100
PAGE_LEN_MAX = 1_000

#: Names looked at between two chances for others to run; about a millisecond's work.
_SLICE_LEN = 5_000


async def first_after(names: Collection[str], after: str, limit: int) -> list[str]:
    """The `limit` smallest of `names` that are greater than `after`, in order.

    `names` are at hand, as they are copied in one go: what has to be found first is not for here.
    """
    everything = list(names)
    best: list[str] = []
    for start in range(0, len(everything), _SLICE_LEN):
        if start:
            await asyncio.sleep(0)
        greater = [name for name in everything[start : start + _SLICE_LEN] if name > after]
        best = heapq.nsmallest(limit, best + greater)
    return best


async def first_covered(names: NameIndex, pattern: str, after: str, limit: int) -> list[str]:
    """The first `limit` names behind `after` that a pattern or topic covers, in order."""
    found: list[str] = []
    while True:
        page, after = names.page(pattern, after, SLICE_LEN)
        found += page
        if not after or len(found) >= limit:
            return found[:limit]
        await asyncio.sleep(0)


def page_of(found: list[str], limit: int) -> tuple[list[str], str]:
    """(a page of at most `limit` names, the cursor of the next page) of up to `limit` + 1 names found."""
    page = found[:limit]
    return page, page[-1] if len(found) > limit else ""
