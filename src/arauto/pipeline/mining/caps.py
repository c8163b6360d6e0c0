"""How long a basket may be so that mining surely ends. Pure arithmetic.

A basket of n items holds 2**n sets, and a set is found if enough baskets hold it. So all baskets together
bound what can be found: the sum of their sets, divided by how often a set must occur. Cutting baskets down
until that bound is small is what makes a run's cost certain, whatever the messages look like.
"""

from collections.abc import Callable, Mapping
from math import comb

__all__ = ["sequences_within", "sets_within", "shorten"]


def sets_within(items: int) -> int:
    """How many sets of items a basket holds."""
    return (1 << items) - 1


def sequences_within(steps: int, *, longest: int, labels: int) -> int:
    """How many different sequences of at most `longest` steps, of so many labels, a sequence can hold."""
    return sum(min(comb(steps, n), labels**n) for n in range(1, longest + 1))


def shorten(
    sizes: Mapping[int, int],
    within: Callable[[int], int],
    *,
    count_min: int,
    size_max: int,
    patterns_max: int,
) -> int:
    """Return the length to cut baskets to, so that at most `patterns_max` patterns can be found.

    Args:
        sizes: length of a basket → how many there are.
        within: how many patterns a basket of a length holds.
        count_min: baskets a pattern must be in to be found.
        size_max: the most to return.
        patterns_max: the bound.
    """
    for size in range(size_max, 1, -1):
        bound = sum(within(min(length, size)) * count for length, count in sizes.items())
        if bound // count_min <= patterns_max:
            return size
    return 1
