"""What is mined, and within which bounds. Plain data with checks."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from arauto.errors import ArautoError, Code
from arauto.names import check_hub, check_kept
from arauto.pipeline.mining.paths import ItemPath, parse_path, value_of

__all__ = ["Caps", "Kind", "MiningOptions", "Per"]

Kind = Literal["sets", "sequences"]
Per = Literal["message", "session", "user"]
_PATHS_MAX = 16


@dataclass(frozen=True, slots=True)
class Caps:
    """Bounds. Mining is exponential in the size of a basket, so each of them matters."""

    items_max: int = 30
    """Items of one basket; the most frequent stay. Steps of one sequence; the latest stay."""
    stop_share: float = 0.5
    """An item in more than this share of all baskets says nothing and is left out."""
    count_min: int = 5
    """Times a pattern must occur, whatever its share."""
    baskets_max: int = 1_000_000
    """Baskets or sequences looked at; of more, an even sample."""
    results_max: int = 1_000
    """Patterns kept of each kind, the most frequent."""
    patterns_max: int = 2_000_000
    """Patterns that could possibly be found; baskets are cut further until it is certain."""
    steps_max: int = 5
    """Steps of a sequence that is found."""

    def __post_init__(self) -> None:
        _check(1 < self.items_max <= 100, "items_max", "is from 2 to 100")
        _check(0 < self.stop_share <= 1, "stop_share", "is over 0 and at most 1")
        _check(self.count_min > 0, "count_min", "is at least 1")
        _check(0 < self.baskets_max <= 100_000_000, "baskets_max", "is from 1 to 100000000")
        _check(0 < self.results_max <= 100_000, "results_max", "is from 1 to 100000")
        _check(self.patterns_max >= 1_000, "patterns_max", "is at least 1000")
        _check(0 < self.steps_max <= 10, "steps_max", "is from 1 to 10")


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """One question.

    Raises:
        ArautoError: BAD_FIELD, BAD_HUB_NAME or BAD_CHANNEL_NAME, naming the option.
    """

    hub: str
    kind: Kind
    items: tuple[str, ...]
    """Paths. With several, items read `path=value`."""
    per: Per = "message"
    """What makes a basket: a message, or what a session or user sent within `window_s`."""
    window_s: int = 3_600
    support_min: float = 0.01
    """Share of all baskets a pattern must occur in."""
    confidence_min: float = 0.5
    """How often a rule must hold where it applies."""
    tolerance: float = 0.2
    """A pattern's support or lift changed if it did by more than this share of what it was."""
    channel: str = ""
    """Only messages of this channel; empty = of all."""
    caps: Caps = field(default_factory=Caps)

    def __post_init__(self) -> None:
        check_hub(self.hub)
        if self.channel:
            check_kept(self.channel)
        _check(0 < len(self.items) <= _PATHS_MAX, "items", f"needs 1 to {_PATHS_MAX} paths")
        _check(len(set(self.items)) == len(self.items), "items", "names a path twice")
        _check(self.kind in ("sets", "sequences"), "kind", "is sets or sequences")
        _check(self.per in ("message", "session", "user"), "per", "is message, session or user")
        _check(0 < self.window_s <= 31 * 86_400, "window_s", "is from 1 second to 31 days")
        _check(0 <= self.support_min <= 1, "support_min", "is from 0 to 1")
        _check(0 <= self.confidence_min <= 1, "confidence_min", "is from 0 to 1")
        _check(self.tolerance >= 0, "tolerance", "is not negative")
        paths = self.paths
        if self.kind == "sequences":
            _check(len(paths) == 1, "items", "names one label for sequences")
            _check(self.per != "message", "per", "is session or user for sequences")
            value_of(paths[0])  # says what is wrong with it

    @property
    def paths(self) -> tuple[ItemPath, ...]:
        """The paths, taken apart."""
        return tuple(parse_path(text) for text in self.items)

    @property
    def job(self) -> str:
        """Names the question: runs of the same one are compared with each other."""
        said = (
            self.hub,
            self.kind,
            *sorted(self.items),
            self.per,
            str(self.window_s),
            self.channel,
        )
        return hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]


def _check(holds: bool, name: str, says: str) -> None:
    if not holds:
        raise ArautoError(Code.BAD_FIELD, f"{name} {says}", field=name)
