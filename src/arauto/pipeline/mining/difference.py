"""What changed between two runs. DataFrame → DataFrame."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["difference"]

_KEY = ("kind", "items", "implies")


def difference(before: DataFrame, after: DataFrame, tolerance: float) -> DataFrame:
    """Compare two runs of the same question.

    Args:
        before: rows of `mined` of the earlier run; none = everything is new.
        after: rows of `mined` of the later run.
        tolerance: by which share of what it was support (as a share of all baskets) or lift must have
            moved to count as changed.

    Returns:
        Rows (change, kind, items, implies, support_before, support_after, lift_before, lift_after), where
        change is `new`, `gone` or `changed`. Supports are shares.
    """
    old, new = _side(before, "before"), _side(after, "after")
    # A null is equal to a null here: sets imply nothing.
    same = [F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}")) for name in _KEY]
    joined = old.alias("before").join(
        new.alias("after"), on=same[0] & same[1] & same[2], how="full"
    )
    moved = _moved("support", tolerance) | _moved("lift", tolerance)
    change = (
        F.when(F.col("before.kind").isNull(), "new")
        .when(F.col("after.kind").isNull(), "gone")
        .when(moved, "changed")
    )
    return joined.select(
        change.alias("change"),
        *(F.coalesce(f"after.{name}", f"before.{name}").alias(name) for name in _KEY),
        *(f"{name}_{side}" for name in ("support", "lift") for side in ("before", "after")),
    ).where(F.col("change").isNotNull())


def _side(rows: DataFrame, side: str) -> DataFrame:
    share = F.col("support") / F.greatest(F.col("total"), F.lit(1))
    return rows.select(*_KEY, share.alias(f"support_{side}"), F.col("lift").alias(f"lift_{side}"))


def _moved(name: str, tolerance: float) -> Column:
    before, after = F.col(f"{name}_before"), F.col(f"{name}_after")
    return F.coalesce(F.abs(after - before) > tolerance * F.abs(before), F.lit(False))
