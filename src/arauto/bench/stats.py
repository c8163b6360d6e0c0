"""The little arithmetic of a comparison: medians, spread, ratios. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

__all__ = ["Spread", "best_of", "ratio", "spread_of"]


class Spread(msgspec.Struct, frozen=True):
    """The rounds of one figure: the middle, and how far the others lay from it."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Half the range as a share of the median: 0.05 reads as ± 5 %."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


def spread_of(values: Sequence[float]) -> Spread:
    """Sum up the rounds of one figure; there is at least one."""
    return Spread(median=median(values), low=min(values), high=max(values))


def ratio(value: float, base: float) -> float | None:
    """Return how many times `base` the value is; None if there is nothing to compare with."""
    return value / base if base > 0 else None


def best_of(medians: Mapping[str, float], names: Iterable[str]) -> tuple[str, float] | None:
    """Return the named entry with the highest figure; None if none of them was measured."""
    measured = [(medians[name], name) for name in names if name in medians]
    if not measured:
        return None
    value, name = max(measured)
    return name, value
