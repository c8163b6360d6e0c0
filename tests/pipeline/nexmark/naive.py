"""The same questions answered the plain way: lists, loops and dictionaries."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from tests.pipeline.nexmark.generator import Happening

__all__ = [
    "bids_by_pair",
    "falling",
    "highest",
    "hot_items",
    "new_sellers",
    "periods",
    "steep_drop",
]

Run = tuple[int, int]
"""Sequence numbers of a match's first and last bid."""


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


def falling(bids: Sequence[Happening]) -> list[Run]:
    """CEP q0: a price, then lower and lower ones, then a higher one."""

    def end(start: int) -> int | None:
        prices = [bid.body["price"] for bid in bids]
        at = start + 1
        while at < len(bids) and prices[at] < prices[at - 1]:
            at += 1
        done = start + 1 < at < len(bids) and prices[at] > prices[at - 1]
        return at if done else None

    return list(_past_last(bids, end))


def periods(bids: Sequence[Happening], limit: int, *, past_last: bool) -> list[Run]:
    """CEP q1 and q2: prices below a limit, until the first one that is not."""

    def end(start: int) -> int | None:
        if bids[start].body["price"] >= limit:
            return None
        later = (n for n in range(start + 1, len(bids)) if bids[n].body["price"] >= limit)
        return next(later, None)

    if past_last:
        return list(_past_last(bids, end))
    ends = [(start, end(start)) for start in range(len(bids))]
    return [(bids[start].seq, bids[at].seq) for start, at in ends if at is not None]


def steep_drop(bids: Sequence[Happening], by: int, within_ms: int) -> list[Run]:
    """CEP q3: a bid lower by more than `by`, soon after; none in between that is lower by just that."""

    def end(start: int) -> int | None:
        floor = bids[start].body["price"] - by
        for at in range(start + 1, len(bids)):
            if bids[at].ts >= bids[start].ts + within_ms or bids[at].body["price"] == floor:
                return None
            if bids[at].body["price"] < floor:
                return at
        return None

    return list(_past_last(bids, end))


def _past_last(bids: Sequence[Happening], end: Callable[[int], int | None]) -> Iterator[Run]:
    """What is complete first wins, of those the one that began first; the next begins after it."""
    after = 0
    for last in range(len(bids)):
        first = next((n for n in range(after, last) if end(n) == last), None)
        if first is not None:
            yield bids[first].seq, bids[last].seq
            after = last + 1


def _bids(happenings: list[Happening]) -> list[Happening]:
    return [happening for happening in happenings if happening.channel == "bids"]
