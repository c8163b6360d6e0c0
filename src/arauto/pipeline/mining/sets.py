"""Item sets and association rules: FP-Growth over bounded baskets."""

from pyspark.ml.fpm import FPGrowth
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.mining.baskets import (
    Bounded,
    chosen_items,
    cut_baskets,
    item_rows,
    sample,
    sizes_of,
)
from arauto.pipeline.mining.caps import sets_within, shorten
from arauto.pipeline.mining.held import Held
from arauto.pipeline.mining.options import MiningOptions
from arauto.pipeline.mining.support import least_count

__all__ = ["mine_sets"]


def mine_sets(messages: DataFrame, options: MiningOptions) -> tuple[DataFrame, Bounded]:
    """Find what goes together.

    Args:
        messages: rows of the table `messages`.
        options: what to look for, and the bounds.

    Returns:
        Rows (kind, items, implies, support, confidence, lift): kind is `set`, of at least two items, or
        `rule`. And what was looked at.
    """
    caps = options.caps
    with Held() as held:
        rows = held.persist(item_rows(messages, options))
        baskets = rows.select("basket").distinct().count()
        rows = sample(rows, baskets, caps.baskets_max)
        sampled = baskets
        if baskets > caps.baskets_max:
            sampled = rows.select("basket").distinct().count()
        count_min = least_count(sampled, options.support_min, caps.count_min)
        items = held.persist(chosen_items(rows, sampled, count_min, caps))
        verdicts = {
            row["verdict"]: row["count"] for row in items.groupBy("verdict").count().collect()
        }
        whole = held.persist(cut_baskets(rows, items, caps.items_max))
        sizes = sizes_of(whole, F.col("size"), caps.items_max)
        size_max = shorten(
            sizes,
            sets_within,
            count_min=count_min,
            size_max=caps.items_max,
            patterns_max=caps.patterns_max,
        )
        bounded = Bounded(
            baskets=baskets,
            sampled=sampled,
            stop_items=verdicts.get("stop", 0),
            rare_items=verdicts.get("rare", 0),
            shortened=sum(count for size, count in sizes.items() if size > size_max),
            size_max=size_max,
            count_min=count_min,
        )
        found = _grow(whole.select(F.slice("items", 1, size_max).alias("items")), options, bounded)
        # Small by now, and the baskets behind it are about to be forgotten.
        return found.localCheckpoint(), bounded


def _grow(baskets: DataFrame, options: MiningOptions, bounded: Bounded) -> DataFrame:
    kept = baskets.count()
    # FP-Growth takes a share of the baskets it is given and rounds up; half a basket less is never wrong.
    share = max(0.0, (bounded.count_min - 0.5) / max(1, kept))
    model = FPGrowth(
        itemsCol="items",
        minSupport=min(1.0, share),
        minConfidence=options.confidence_min,
        numPartitions=int(baskets.sparkSession.conf.get("spark.sql.shuffle.partitions", "2") or 2),
    ).fit(baskets)
    sets = model.freqItemsets.where(F.size("items") > 1).select(
        F.lit("set").alias("kind"),
        _json("items").alias("items"),
        F.lit(None).cast("string").alias("implies"),
        F.col("freq").alias("support"),
        F.lit(None).cast("double").alias("confidence"),
        F.lit(None).cast("double").alias("lift"),
    )
    # Lift and support are of the baskets that FP-Growth saw; baskets that hold nothing frequent count too.
    rules = model.associationRules.select(
        F.lit("rule").alias("kind"),
        _json("antecedent").alias("items"),
        _json("consequent").alias("implies"),
        F.round(F.col("support") * kept).cast("long").alias("support"),
        "confidence",
        (F.col("lift") * bounded.sampled / max(1, kept)).alias("lift"),
    )
    order = (F.col("support").desc(), F.length("items").desc(), "items", "implies")
    most = options.caps.results_max
    return sets.orderBy(*order).limit(most).unionByName(rules.orderBy(*order).limit(most))


def _json(name: str) -> Column:
    return F.to_json(F.sort_array(name))
