"""Rows of every table as one kind of row, so that they can stand in one list: when, what, who, from where."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = [
    "COLUMNS",
    "changed",
    "chronological",
    "ended",
    "received",
    "refused",
    "sent",
    "started",
    "subscribed",
]

#: Of each event. `node` and `seq` say where in the journal it stands.
COLUMNS = (
    *("ts", "what", "hub", "channel", "user", "session", "transport", "address", "detail"),
    *("node", "seq"),
)
_TEXT_LEN_MAX = 200


def sent(messages: DataFrame, starts: DataFrame, counts: DataFrame | None = None) -> DataFrame:
    """Messages, with where they came from: their session's place, else their own origin.

    Args:
        messages: rows of the table.
        starts: beginnings of sessions, up to then.
        counts: node, seq and `recipients` of messages, if that is to be told.
    """
    if counts is None:
        known = messages.withColumn("recipients", F.lit(None).cast("long"))
    else:
        known = messages.join(counts, ["node", "seq"], "left").fillna(0, ["recipients"])
    origin = F.split(F.coalesce("origin", F.lit("")), " ", 2)
    detail = F.concat_ws(
        ", ",
        F.when(F.col("id") != "", F.concat(F.lit("id "), "id")),
        F.when(F.col("content_type") != "", F.col("content_type")),
        F.concat(F.col("size_bytes").cast("string"), F.lit(" bytes")),
        F.concat(F.lit("to "), F.col("recipients").cast("string"), F.lit(" sessions")),
        F.left("text", F.lit(_TEXT_LEN_MAX)),
    )
    placed = _with_place(known.withColumn("detail", detail), starts)
    return _event(
        placed.withColumns(
            {
                "transport": F.coalesce("transport", F.nullif(F.get(origin, F.lit(0)), F.lit(""))),
                "address": F.coalesce("address", F.get(origin, F.lit(1))),
            }
        ),
        "message",
    )


def received(recipients: DataFrame, starts: DataFrame) -> DataFrame:
    """Messages as they went to sessions (`recipients.recipients`); `detail` says by which subscription."""
    rows = recipients.withColumnsRenamed({"to_session": "session", "to_user": "user"}).withColumn(
        "detail", F.concat(F.lit("by subscription "), "via")
    )
    return _event(_with_place(rows, starts), "went to")


def started(starts: DataFrame) -> DataFrame:
    """Sessions as they began."""
    return _event(starts, "session began")


def ended(sessions: DataFrame) -> DataFrame:
    """Sessions as they ended."""
    seconds = F.format_number(F.col("duration_ms") / 1000, 1)
    told = F.concat_ws(
        ", ",
        F.concat(F.lit("after "), seconds, F.lit(" s")),
        F.concat(F.lit("code "), F.col("code").cast("string")),
    )
    return _event(sessions.withColumn("detail", told), "session ended")


def subscribed(subscriptions: DataFrame) -> DataFrame:
    """Subscriptions as they began and ended."""
    what = F.when(F.col("begun"), "subscribed").otherwise("unsubscribed")
    kind = F.when(F.col("pattern"), "pattern")
    return _event(subscriptions.withColumn("detail", kind), what)


def refused(refusals: DataFrame) -> DataFrame:
    """What was refused, and why."""
    told = F.concat_ws(
        " ",
        F.col("code").cast("string"),
        "name",
        F.concat(F.lit("("), "request", F.lit("):")),
        "message",
        F.when(
            F.col("left_out") > 0,
            F.concat(F.lit("and "), F.col("left_out").cast("string"), F.lit(" more before it")),
        ),
    )
    return _event(refusals.withColumn("detail", told), "refused")


def changed(changes: DataFrame) -> DataFrame:
    """What administrators did; `user` is who."""
    told = F.concat_ws(" ", "operation", "target", F.concat(F.lit("→ "), "outcome"))
    return _event(changes.withColumnRenamed("by", "user").withColumn("detail", told), "changed")


def chronological(first: DataFrame, *others: DataFrame) -> DataFrame:
    """All events in one list, oldest first."""
    whole = first
    for each in others:
        whole = whole.unionByName(each)
    return whole.orderBy("ts", "node", "seq", "what", "session")


def _event(frame: DataFrame, what: Column | str) -> DataFrame:
    named = frame.withColumn("what", F.lit(what) if isinstance(what, str) else what)
    lacking = [name for name in COLUMNS if name not in named.columns]
    return named.withColumns({n: F.lit(None).cast("string") for n in lacking}).select(*COLUMNS)


def _with_place(frame: DataFrame, starts: DataFrame) -> DataFrame:
    """With transport and address of the session, as it was known last."""
    places = starts.groupBy("hub", "session").agg(
        F.max_by("transport", "ts").alias("transport"), F.max_by("address", "ts").alias("address")
    )
    return frame.join(places, ["hub", "session"], "left")
