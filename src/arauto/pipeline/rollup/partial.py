"""Bronze rows to partial roll-ups: sums, maxima and sketches that can be merged in any order.

A window's roll-up is the merge of all its partial rows, however many batches brought them. So a row that
comes late needs nothing special: its batch adds another partial row to an old window.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.details import is_odd
from arauto.pipeline.payload import text_of
from arauto.pipeline.schemas import TABLES
from arauto.storage.base import Kind

__all__ = ["ALL_HUBS", "GAUGES", "ROLLUP_KINDS", "SUMS", "WINDOW_MS", "merging", "partial_rollups"]

WINDOW_MS = 300_000
ROLLUP_KINDS = frozenset(
    int(kind)
    for kind in (Kind.MESSAGE, Kind.SESSION_START, Kind.SESSION_END, Kind.ERROR, Kind.COUNTERS)
)
#: The hub name under which all hubs are summed up.
ALL_HUBS = ""

SUMS = (
    "messages_in",
    "messages_out",
    "bytes_in",
    "bytes_out",
    "published",
    "published_bytes",
    "deliveries",
    "dropped",
    "refused",
    "sessions_started",
    "sessions_ended",
    "duration_sum_ms",
)
#: Largest value of each node; nodes are added up when windows are merged.
GAUGES = ("hubs", "channels", "sessions", "sessions_peak", "subscriptions")

#: Known from the node's counters only, where all hubs have a row of their own.
_COUNTED = ("messages_in", "messages_out", "bytes_in", "bytes_out", "deliveries", "dropped")
_DETAILS = (
    "durationMs long, leftOut long, startMs long, sessionsPeak long, "
    "gauges struct<hubs: long, channels: long, sessions: long, subscriptions: long>, "
    "total struct<messagesIn: long, messagesOut: long, bytesIn: long, bytesOut: long, deliveries: long, "
    "dropped: long>"
)
_SKETCHES = ("channel_sketch", "user_sketch")
_NAMES = tuple(TABLES["rollup_5m"].columns.names)


def partial_rollups(rows: DataFrame) -> DataFrame:
    """One row per window, hub and node, and one for all hubs of a node together. Reads the rows once."""
    by_hub = _valued(rows).groupBy("start", "hub", "node").agg(*_counting())
    # Counters of a hub are for the hub alone: the node's own row has the sums.
    of_hubs = F.explode(F.array_distinct(F.array(F.col("hub"), F.lit(ALL_HUBS))))
    spread = by_hub.withColumn("own_hub", F.col("hub")).withColumn("hub", of_hubs)
    is_own = F.col("hub") == F.col("own_hub")
    kept = {name: F.when(is_own, F.col(name)) for name in (*_COUNTED, *GAUGES)}
    # Equal names in two hubs are two channels, and two users: over all hubs they go by hub and name.
    for name in _SKETCHES:
        kept[name] = F.when(F.col("hub") == ALL_HUBS, F.col(f"all_{name}")).otherwise(F.col(name))
    return spread.withColumns(kept).groupBy("start", "hub", "node").agg(*merging()).select(*_NAMES)


def _valued(rows: DataFrame) -> DataFrame:
    """Each row with its window and what it adds to it; null where it adds nothing."""
    kind = F.col("kind")
    detailed = kind.isin(int(Kind.SESSION_END), int(Kind.ERROR), int(Kind.COUNTERS))
    text = F.when(detailed, text_of(F.col("payload")))
    # A row in quarantine for its numbers counts as a row, and adds none of them.
    details = F.from_json(F.when(~is_odd(kind, F.col("ts"), text), text), _DETAILS)
    return (
        rows.where(kind.isin(*ROLLUP_KINDS))
        .withColumn("d", details)
        .select(
            _window(F.coalesce(F.timestamp_millis("d.startMs"), F.col("ts"))),
            "hub",
            "node",
            "kind",
            "d",
            F.when(kind == int(Kind.MESSAGE), F.octet_length("payload")).alias("size"),
            F.when(kind == int(Kind.MESSAGE), F.col("channel")).alias("channel"),
            F.when((kind == int(Kind.MESSAGE)) & (F.col("user") != ""), F.col("user")).alias(
                "user"
            ),
        )
    )


def _counting() -> list[Column]:
    """How the values of rows become a partial row."""

    def count(kind: Kind) -> Column:
        return F.sum(F.when(F.col("kind") == int(kind), 1))

    total = [F.sum(f"d.total.{_camel(name)}").alias(name) for name in _COUNTED]
    gauges = [F.max(f"d.gauges.{name}").alias(name) for name in GAUGES if name != "sessions_peak"]
    refused = F.when(F.col("kind") == int(Kind.ERROR), 1 + F.coalesce("d.leftOut", F.lit(0)))
    return [
        *total,
        *gauges,
        F.max("d.sessionsPeak").alias("sessions_peak"),
        count(Kind.MESSAGE).alias("published"),
        F.sum("size").alias("published_bytes"),
        F.sum(refused).alias("refused"),
        count(Kind.SESSION_START).alias("sessions_started"),
        count(Kind.SESSION_END).alias("sessions_ended"),
        F.sum("d.durationMs").alias("duration_sum_ms"),
        F.kll_sketch_agg_bigint("d.durationMs").alias("durations"),
        F.hll_sketch_agg("channel").alias("channel_sketch"),
        F.hll_sketch_agg("user").alias("user_sketch"),
        F.hll_sketch_agg(_with_hub("channel")).alias("all_channel_sketch"),
        F.hll_sketch_agg(_with_hub("user")).alias("all_user_sketch"),
    ]


def _with_hub(name: str) -> Column:
    # No name of a hub holds a line break, so no two pairs become the same text.
    return F.concat(F.col("hub"), F.lit("\n"), F.col(name))


def _window(at: Column) -> Column:
    ms = F.unix_millis(at)
    return F.timestamp_millis(ms - ms % WINDOW_MS).alias("start")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def merging() -> list[Column]:
    """How each column of partial rows is merged."""
    return [
        *(F.sum(name).alias(name) for name in SUMS),
        *(F.max(name).alias(name) for name in GAUGES),
        F.kll_merge_agg_bigint("durations").alias("durations"),
        F.hll_union_agg("channel_sketch").alias("channel_sketch"),
        F.hll_union_agg("user_sketch").alias("user_sketch"),
    ]
