"""Sequences that many sessions or users share: PrefixSpan over bounded sequences."""

from functools import partial

from pyspark.ml.fpm import PrefixSpan
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.mining.baskets import Bounded, sample, sequences_of, sizes_of
from arauto.pipeline.mining.caps import sequences_within, shorten
from arauto.pipeline.mining.held import Held
from arauto.pipeline.mining.options import MiningOptions
from arauto.pipeline.mining.support import least_count

__all__ = ["mine_sequences"]


def mine_sequences(messages: DataFrame, options: MiningOptions) -> tuple[DataFrame, Bounded]:
    """Find what follows what.

    Args:
        messages: rows of the table `messages`.
        options: what to look for, and the bounds.

    Returns:
        Rows (kind, items, implies, support, confidence, lift), kind `sequence`, of at least two steps.
        Confidence and lift are null. And what was looked at.
    """
    caps = options.caps
    with Held() as held:
        whole = held.persist(sequences_of(messages, options))
        baskets = whole.count()
        taken = sample(whole, baskets, caps.baskets_max)
        sampled = baskets if baskets <= caps.baskets_max else taken.count()
        count_min = least_count(sampled, options.support_min, caps.count_min)
        labels = taken.select("basket", F.explode(F.array_distinct("steps")).alias("label"))
        counted = held.persist(labels.groupBy("label").count())
        frequent = counted.where(F.col("count") >= count_min)
        frequent_len, rare_len = frequent.count(), counted.where(F.col("count") < count_min).count()
        sizes = sizes_of(taken, F.size("steps"), caps.items_max)
        size_max = shorten(
            sizes,
            partial(sequences_within, longest=caps.steps_max, labels=frequent_len),
            count_min=count_min,
            size_max=caps.items_max,
            patterns_max=caps.patterns_max,
        )
        bounded = Bounded(
            baskets=baskets,
            sampled=sampled,
            stop_items=0,
            rare_items=rare_len,
            shortened=sum(count for size, count in sizes.items() if size > size_max),
            size_max=size_max,
            count_min=count_min,
        )
        return _span(taken, options, bounded).localCheckpoint(), bounded


def _span(sequences: DataFrame, options: MiningOptions, bounded: Bounded) -> DataFrame:
    # The latest steps stay: what led to the end is what people ask about.
    latest = F.reverse(F.slice(F.reverse("steps"), 1, bounded.size_max))
    steps = sequences.select(F.transform(latest, lambda label: F.array(label)).alias("sequence"))
    share = (bounded.count_min - 0.5) / max(1, bounded.sampled)
    found = PrefixSpan(
        minSupport=min(1.0, share), maxPatternLength=options.caps.steps_max, sequenceCol="sequence"
    ).findFrequentSequentialPatterns(steps)
    return (
        found.where(F.size("sequence") > 1)
        .select(
            F.lit("sequence").alias("kind"),
            F.to_json(F.flatten("sequence")).alias("items"),
            F.lit(None).cast("string").alias("implies"),
            F.col("freq").alias("support"),
            F.lit(None).cast("double").alias("confidence"),
            F.lit(None).cast("double").alias("lift"),
        )
        .orderBy(F.col("support").desc(), F.length("items").desc(), "items")
        .limit(options.caps.results_max)
    )
