"""Partial roll-ups to the numbers people ask for: per five minutes, hour or day."""

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.rollup.partial import GAUGES, SUMS, merging

__all__ = ["PERIODS_MS", "Period", "fold_partials", "merge_rollups"]

Period = Literal["5m", "hour", "day"]
PERIODS_MS: dict[Period, int] = {"5m": 300_000, "hour": 3_600_000, "day": 86_400_000}

_QUANTILES = {"duration_p50_ms": 0.5, "duration_p95_ms": 0.95, "duration_p99_ms": 0.99}


def fold_partials(partials: DataFrame) -> DataFrame:
    """The same windows with one partial row each; what compaction keeps."""
    return partials.groupBy("start", "hub", "node").agg(*merging())


def merge_rollups(partials: DataFrame, period: Period) -> DataFrame:
    """One row per period and hub (`hub` "" = all): sums, gauges, percentiles, distinct counts.

    Gauges of a period are the largest of its windows for each node, added up over nodes.
    """
    ms = F.unix_millis("start")
    start = F.timestamp_millis(ms - ms % PERIODS_MS[period])
    by_node = partials.withColumn("start", start).groupBy("start", "hub", "node").agg(*merging())
    merged = by_node.groupBy("start", "hub").agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS),
        *(F.sum(name).alias(name) for name in GAUGES),
        F.kll_merge_agg_bigint("durations").alias("durations"),
        F.hll_union_agg("channel_sketch").alias("channel_sketch"),
        F.hll_union_agg("user_sketch").alias("user_sketch"),
    )
    ended = F.col("sessions_ended") > 0
    quantiles = {
        name: F.when(ended, F.kll_sketch_get_quantile_bigint("durations", F.lit(rank)))
        for name, rank in _QUANTILES.items()
    }
    return (
        merged.withColumns(quantiles)
        .withColumn(
            "duration_mean_ms", F.when(ended, F.col("duration_sum_ms") / F.col("sessions_ended"))
        )
        .withColumn(
            "distinct_channels", F.coalesce(F.hll_sketch_estimate("channel_sketch"), F.lit(0))
        )
        .withColumn("distinct_users", F.coalesce(F.hll_sketch_estimate("user_sketch"), F.lit(0)))
        .drop("durations", "channel_sketch", "user_sketch", "duration_sum_ms")
    )
