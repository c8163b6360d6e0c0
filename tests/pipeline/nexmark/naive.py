"""The same questions answered the plain way: lists, loops and dictionaries.

Patterns are looked for as MATCH_RECOGNIZE does it on a stream: row by row from the first on, each as the
start of a match; if it is one, on from where AFTER MATCH SKIP says, else from the next row.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tests.pipeline.nexmark.generator import Happening

__all__ = [
    "Found",
    "Skip",
    "bids_by_pair",
    "falling",
    "highest",
    "hot_items",
    "mean_below",
    "new_sellers",
    "steep_drop",
]

Found = tuple[int, ...]
"""Sequence numbers of a match's first and last bid, then what the query shows beside auction and bidder."""

Skip = Literal["past_last", "to_last", "to_next"]


def hot_items(
    happenings: list[Happening], length_ms: int, every_ms: int
) -> set[tuple[int, int, int]]:
    """q5: (end of window, auction, bids), for the auctions with most bids."""
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in _bids(happenings):
        start = bid.ts - bid.ts % every_ms
        while start > bid.ts - length_ms:
            windows[start + length_ms][bid.body["auction"]] += 1
            start -= every_ms
    found = set()
    for end, counts in windows.items():
        most = max(counts.values())
        found |= {(end, auction, most) for auction, n in counts.items() if n == most}
    return found


def highest(happenings: list[Happening], length_ms: int) -> set[tuple[int, int, int]]:
    """q7: (end of window, sequence number, price) of the highest bids."""
    windows: dict[int, list[Happening]] = defaultdict(list)
    for bid in _bids(happenings):
        windows[bid.ts - bid.ts % length_ms + length_ms].append(bid)
    found = set()
    for end, bids in windows.items():
        top = max(bid.body["price"] for bid in bids)
        found |= {(end, bid.seq, top) for bid in bids if bid.body["price"] == top}
    return found


def new_sellers(happenings: list[Happening], length_ms: int) -> set[tuple[int, int]]:
    """q8: (end of window, person) who came and opened an auction within it."""
    came, opened = set(), set()
    for happening in happenings:
        end = happening.ts - happening.ts % length_ms + length_ms
        if happening.channel == "persons":
            came.add((end, happening.body["id"]))
        elif happening.channel == "auctions":
            opened.add((end, happening.body["seller"]))
    return came & opened


def bids_by_pair(happenings: list[Happening]) -> list[list[Happening]]:
    """Bids of each bidder on each auction, in order."""
    pairs: dict[tuple[int, int], list[Happening]] = defaultdict(list)
    for bid in _bids(happenings):
        pairs[bid.body["auction"], bid.body["bidder"]].append(bid)
    return list(pairs.values())


def falling(bids: Sequence[Happening]) -> list[Found]:
    """CEP q0: a price, then lower and lower ones, then a higher one; (start, bottom, end)."""
    prices, times = _prices(bids), _times(bids)

    def end(start: int) -> int | None:
        at = start + 1
        while at < len(bids) and prices[at] < prices[at - 1]:
            at += 1
        done = start + 1 < at < len(bids) and prices[at] > prices[at - 1]
        return at if done else None

    return [
        (bids[a].seq, bids[z].seq, times[a], times[z - 1], times[z])
        for a, z in _matches(len(bids), end, "to_last")
    ]


def mean_below(bids: Sequence[Happening], limit: int, skip: Skip) -> list[Found]:
    """CEP q1 and q2: as long as the mean price is below a limit; the bid that ends it; (start, end, mean)."""
    prices, times = _prices(bids), _times(bids)

    def end(start: int) -> int | None:
        for at in range(start, len(bids)):
            if sum(prices[start : at + 1]) >= limit * (at + 1 - start):
                return at if at > start else None
        # A stream goes on: the last bid so far is not known to be the last of the period.
        return None

    return [
        (bids[a].seq, bids[z].seq, times[a], times[z - 1], sum(prices[a:z]) // (z - a))
        for a, z in _matches(len(bids), end, skip)
    ]


def steep_drop(bids: Sequence[Happening], by: int, within_ms: int) -> list[Found]:
    """CEP q3: a bid lower by more than `by`, soon after, none between lower by just that; (time, drop)."""
    prices, times = _prices(bids), _times(bids)

    def end(start: int) -> int | None:
        floor = prices[start] - by
        for at in range(start + 1, len(bids)):
            if times[at] >= times[start] + within_ms or prices[at] == floor:
                return None
            if prices[at] < floor:
                return at
        return None

    return [
        (bids[a].seq, bids[z].seq, times[z], prices[a] - prices[z])
        for a, z in _matches(len(bids), end, "past_last")
    ]


def _matches(count: int, end: Callable[[int], int | None], skip: Skip) -> Iterator[tuple[int, int]]:
    start = 0
    while start < count:
        last = end(start)
        if last is None:
            start += 1
            continue
        yield start, last
        start = {"past_last": last + 1, "to_last": last, "to_next": start + 1}[skip]


def _prices(bids: Sequence[Happening]) -> list[int]:
    return [bid.body["price"] for bid in bids]


def _times(bids: Sequence[Happening]) -> list[int]:
    return [bid.body["dateTime"] for bid in bids]


def _bids(happenings: list[Happening]) -> list[Happening]:
    return [happening for happening in happenings if happening.channel == "bids"]
