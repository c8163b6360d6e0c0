"""A run's results in small numbers, for people."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.mining.run import Mined

__all__ = ["Change", "Pattern", "change_counts", "first_changes", "top_patterns"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern with its numbers."""

    text: str
    """`a + b`, `a + b ⇒ c` or `a → b`."""
    support: int
    share: float
    confidence: float | None
    lift: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A pattern that is new, gone or changed."""

    change: str
    text: str


def top_patterns(mined: Mined, kind: str, most: int) -> list[Pattern]:
    """The first patterns of a kind: rules by lift, the others by how often they occur."""
    found = mined.found.where(F.col("kind") == kind)
    by = ("lift", "support") if kind == "rule" else ("support",)
    rows = found.orderBy(*(F.col(name).desc() for name in by), "items").limit(most).collect()
    return [
        Pattern(
            _text(kind, row["items"], row["implies"]),
            row["support"],
            row["support"] / max(1, row["total"]),
            row["confidence"],
            row["lift"],
        )
        for row in rows
    ]


def change_counts(changes: DataFrame) -> Mapping[str, int]:
    """How many patterns are new, gone and changed."""
    counts = {row["change"]: row["count"] for row in changes.groupBy("change").count().collect()}
    return {name: counts.get(name, 0) for name in ("new", "gone", "changed")}


def first_changes(changes: DataFrame, most: int) -> list[Change]:
    """Some of the changes."""
    rows = changes.orderBy("change", "kind", "items", "implies").limit(most).collect()
    return [Change(row["change"], _text(row["kind"], row["items"], row["implies"])) for row in rows]


def _text(kind: str, items: str, implies: str | None) -> str:
    joint = " → " if kind == "sequence" else " + "
    said = joint.join(msgspec.json.decode(items, type=list[str]))
    return (
        f"{said} ⇒ {joint.join(msgspec.json.decode(implies, type=list[str]))}" if implies else said
    )
