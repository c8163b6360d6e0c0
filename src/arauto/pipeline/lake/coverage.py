"""Which places of a sequence have been seen: sorted, disjoint ranges of whole numbers. Pure."""

from collections.abc import Iterable

__all__ = ["Coverage", "count", "gaps", "merge", "overlap"]

#: (first, last), both included; sorted, and neither touching nor overlapping.
Coverage = tuple[tuple[int, int], ...]


def merge(ranges: Iterable[tuple[int, int]]) -> Coverage:
    """Ranges in any order, overlapping or not, as a coverage."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def count(coverage: Coverage) -> int:
    """How many places are covered."""
    return sum(last - first + 1 for first, last in coverage)


def gaps(coverage: Coverage, first: int = 1) -> Coverage:
    """What is missing between `first` and the end of the coverage."""
    missing = []
    expected = first
    for start, last in coverage:
        if start > expected:
            missing.append((expected, start - 1))
        expected = max(expected, last + 1)
    return tuple(missing)


def overlap(one: Coverage, other: Coverage) -> Coverage:
    """What both cover."""
    both = []
    for first, last in one:
        for start, end in other:
            low, high = max(first, start), min(last, end)
            if low <= high:
                both.append((low, high))
    return merge(both)
