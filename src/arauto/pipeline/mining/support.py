"""How often is often enough. Pure."""

from math import ceil

__all__ = ["least_count"]


def least_count(total: int, share: float, count_min: int) -> int:
    """How many of `total` baskets a pattern must be in: the share of them, but never under `count_min`."""
    # A share such as 0.07 of 100 is 7.000000000000001 to a computer.
    return max(count_min, ceil(total * share - 1e-9))
