"""To whom messages went: who was subscribed to what, when. Frames in, frames out.

A subscription lasts from its row to the next row of the same session and name, or to the session's end.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from arauto.names import matches

__all__ = ["covers", "recipients", "subscription_spans"]

_OF = ("hub", "session", "name")


def covers(name: Column, channel: Column) -> Column:
    """Whether a subscription's name stands for a channel."""
    # The node's own function: whatever a pattern means there, it means here. No type hints inside: Spark
    # would take them for another kind of function.
    known = F.udf(lambda n, c: bool(n and c and matches(n, c)), BooleanType())
    return known(name, channel)


def subscription_spans(subscriptions: DataFrame, sessions: DataFrame) -> DataFrame:
    """Subscriptions from beginning to end: hub, session, user, name, pattern, began_*, ended_*.

    Args:
        subscriptions: rows of the table, those that began and those that ended.
        sessions: rows of sessions that ended.
    """
    changed = subscriptions.withColumnRenamed("channel", "name").select(
        *_OF, "user", "pattern", "begun", "node", "ts", "seq"
    )
    held = changed.select(*_OF).distinct()
    # A session's end is the end of everything it had.
    over = sessions.select("hub", "session", "node", "ts", "seq").join(held, ["hub", "session"])
    whole = changed.unionByName(over.withColumn("begun", F.lit(False)), allowMissingColumns=True)
    following = Window.partitionBy(*_OF).orderBy("ts", "seq")
    spans = whole.select(
        "*",
        F.lead("node").over(following).alias("ended_node"),
        F.lead("ts").over(following).alias("ended_ts"),
        F.lead("seq").over(following).alias("ended_seq"),
    )
    return spans.where("begun").select(
        *_OF,
        "user",
        "pattern",
        F.col("node").alias("began_node"),
        F.col("ts").alias("began_ts"),
        F.col("seq").alias("began_seq"),
        "ended_node",
        "ended_ts",
        "ended_seq",
    )


def recipients(messages: DataFrame, spans: DataFrame) -> DataFrame:
    """One row per message and session it was for: node, seq, ts, hub, channel, to_session, to_user, via.

    Args:
        messages: rows of the table.
        spans: subscriptions (`subscription_spans`).
    """
    sent = messages.select("node", "seq", "ts", "hub", "channel", "exclude").alias("m")
    heard = spans.alias("s").join(_names(sent, spans).alias("n"), ["hub", "name"])
    met = sent.join(heard, ["hub", "channel"]).where(
        _is_after("began") & ~F.coalesce(_is_after("ended"), F.lit(False)) & ~_is_excluded()
    )
    # Who is subscribed to a channel and to a pattern that covers it gets a message once.
    return met.groupBy(
        "m.node", "m.seq", "m.ts", "hub", "channel", F.col("s.session").alias("to_session")
    ).agg(F.first("s.user").alias("to_user"), F.min("name").alias("via"))


def _names(messages: DataFrame, spans: DataFrame) -> DataFrame:
    """Which names of subscriptions stand for which channels: hub, name, channel."""
    channels = messages.select("hub", "channel").distinct()
    names = spans.select("hub", "name", "pattern").distinct()
    plain = names.where(~F.col("pattern")).join(
        channels.withColumn("name", F.col("channel")), ["hub", "name"]
    )
    # Python sees each pair of names once, however many messages there are.
    wide = (
        names.where("pattern").join(channels, "hub").where(covers(F.col("name"), F.col("channel")))
    )
    return plain.unionByName(wide).select("hub", "name", "channel").distinct()


def _is_after(edge: str) -> Column:
    """Whether a message came after a subscription began or ended. Null if it did not end."""
    # One node's rows have an order of their own; clocks of two nodes are all there is to compare.
    return F.when(
        F.col("m.node") == F.col(f"s.{edge}_node"), F.col("m.seq") > F.col(f"s.{edge}_seq")
    ).otherwise(F.col("m.ts") >= F.col(f"s.{edge}_ts"))


def _is_excluded() -> Column:
    exclude = F.coalesce(F.col("m.exclude"), F.lit(""))
    session = F.concat(F.lit("s:"), F.col("s.session"))
    user = F.concat(F.lit("u:"), F.col("s.user"))
    return (exclude == session) | ((F.col("s.user") != "") & (exclude == user))
