"""From messages to baskets and sequences within bounds. DataFrame → DataFrame; sizes come back as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.paths import ItemPath, value_of, values_of

__all__ = [
    "Bounded",
    "chosen_items",
    "cut_baskets",
    "item_rows",
    "sample",
    "sequences_of",
    "sizes_of",
]

_SHARES = 1_000_000
_ITEM_LEN_MAX = 200


@dataclass(frozen=True, slots=True)
class Bounded:
    """What was looked at, and what the bounds left out."""

    baskets: int
    """Baskets there were."""
    sampled: int
    """Baskets looked at."""
    stop_items: int
    """Items left out for being everywhere."""
    rare_items: int
    """Items left out for being too rare to matter."""
    shortened: int
    """Baskets or sequences that were cut."""
    size_max: int
    """What they were cut to."""
    count_min: int
    """Times a pattern had to occur."""


def item_rows(messages: DataFrame, options: MiningOptions) -> DataFrame:
    """One row (basket, item) for each different item of each basket."""
    paths = options.paths
    named = len(paths) > 1
    lists = [F.coalesce(_labelled(path, named), F.array().cast("array<string>")) for path in paths]
    rows = _asked(messages, options).select(
        _basket(options).alias("basket"),
        F.explode(F.array_distinct(F.concat(*lists))).alias("item"),
    )
    rows = rows.where(F.col("item").isNotNull() & F.col("basket").isNotNull())
    return rows if options.per == "message" else rows.distinct()


def sequences_of(messages: DataFrame, options: MiningOptions) -> DataFrame:
    """One row (basket, steps) for each session or user and window: labels in order, repeats once."""
    label = F.substring(value_of(options.paths[0]), 1, _ITEM_LEN_MAX)
    rows = _asked(messages, options).select(
        _basket(options).alias("basket"),
        F.struct("ts", "node", "seq", label.alias("label")).alias("at"),
    )
    rows = rows.where(F.col("at.label").isNotNull() & F.col("basket").isNotNull())
    ordered = rows.groupBy("basket").agg(F.sort_array(F.collect_list("at")).alias("at"))
    labels = F.transform("at", lambda at: at.getField("label"))
    return ordered.select("basket", labels.alias("all")).select(
        "basket",
        # Who looks at ten prices in a row did one thing.
        F.filter("all", lambda label, i: (i == 0) | (label != F.get("all", i - F.lit(1)))).alias(
            "steps"
        ),
    )


def sample(frame: DataFrame, count: int, wanted: int) -> DataFrame:
    """About `wanted` of `count` baskets, never more than it by much, and the same ones every time."""
    if count <= wanted:
        return frame
    kept = max(1, _SHARES * wanted // count)
    return frame.where(F.pmod(F.xxhash64("basket"), F.lit(_SHARES)) < kept)


def chosen_items(rows: DataFrame, baskets: int, count_min: int, caps: Caps) -> DataFrame:
    """All items with how many baskets hold them, and whether each is kept, rare or everywhere."""
    counted = rows.groupBy("item").agg(F.count("*").alias("count"))
    everywhere = F.col("count") > caps.stop_share * baskets
    verdict = F.when(F.col("count") < count_min, "rare").when(everywhere, "stop").otherwise("kept")
    return counted.withColumn("verdict", verdict)


def cut_baskets(rows: DataFrame, items: DataFrame, size_max: int) -> DataFrame:
    """One row (basket, items, size) for each basket; the most frequent items stay, `size` counts all."""
    kept = items.where(F.col("verdict") == "kept").select("item", "count")
    ranked = F.sort_array(F.collect_set(F.struct("count", "item")), asc=False)
    whole = rows.join(kept, "item").groupBy("basket").agg(ranked.alias("ranked"))
    return whole.select(
        "basket",
        F.transform(F.slice("ranked", 1, size_max), lambda one: one.getField("item")).alias(
            "items"
        ),
        F.size("ranked").alias("size"),
    )


def sizes_of(frame: DataFrame, size: Column, size_max: int) -> Mapping[int, int]:
    """How many baskets have which size; all over `size_max` count as one more than that."""
    bounded = F.least(size, F.lit(size_max + 1)).alias("size")
    return {row["size"]: row["count"] for row in frame.groupBy(bounded).count().collect()}


def _asked(messages: DataFrame, options: MiningOptions) -> DataFrame:
    wanted = messages.where(F.col("hub") == options.hub)
    if any(path.column == "payload" for path in options.paths):
        wanted = wanted.where("is_json")
    return wanted.where(F.col("channel") == options.channel) if options.channel else wanted


def _basket(options: MiningOptions) -> Column:
    if options.per == "message":
        return F.struct("node", "seq")
    who = F.col(options.per)
    window = F.window("ts", f"{options.window_s} seconds").getField("start")
    return F.when(who != "", F.struct(who.alias("who"), window.alias("window")))


def _labelled(path: ItemPath, named: bool) -> Column:
    values = F.filter(values_of(path), lambda value: value.isNotNull() & (value != ""))
    return F.transform(
        values,
        lambda value: F.substring(
            F.concat(F.lit(f"{path.text}="), value) if named else value, 1, _ITEM_LEN_MAX
        ),
    )
