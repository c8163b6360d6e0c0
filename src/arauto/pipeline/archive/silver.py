"""From bronze rows to typed tables. Each function takes a frame and returns one; nothing is read or written.

What cannot be understood never stops a batch: it is left out of its table and goes to quarantine with
the reason, and stays in bronze as it came.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.details import is_odd
from arauto.pipeline.payload import is_json, text_of
from arauto.storage.base import Kind

__all__ = ["KINDS_OF", "SILVER", "quarantine"]

_KNOWN = tuple(int(kind) for kind in Kind)
#: Kinds whose payload is a JSON object of ours.
_DETAILED = tuple(
    int(kind)
    for kind in (
        Kind.SESSION_START,
        Kind.SESSION_END,
        Kind.ERROR,
        Kind.COUNTERS,
        Kind.AUDIT,
        Kind.SUBSCRIBE,
        Kind.UNSUBSCRIBE,
    )
)
_OBJECT = r"^\s*\{"
_WHERE = "transport string, address string"
_COUNTED = (
    "messagesIn",
    "messagesOut",
    "bytesIn",
    "bytesOut",
    "publishes",
    "deliveries",
    "dropped",
    "stored",
    "sessionsStarted",
    "sessionsEnded",
)
_GAUGES = ("hubs", "channels", "sessions", "subscriptions")


def is_json_type(content_type: Column) -> Column:
    return (content_type == "application/json") | content_type.endswith("+json")


def messages(bronze: DataFrame) -> DataFrame:
    """Stored messages; `text` where the payload is text, `is_json` where that text is JSON."""
    rows = bronze.where(F.col("kind") == int(Kind.MESSAGE))
    return (
        rows.withColumn("text", text_of(F.col("payload")))
        .withColumn("is_json", is_json(F.col("text")))
        .withColumn("size_bytes", F.octet_length("payload").cast("long"))
    )


def session_starts(bronze: DataFrame) -> DataFrame:
    """Sessions as they begin."""
    return _detailed(bronze, Kind.SESSION_START, _WHERE).select("*", "details.*")


def sessions(bronze: DataFrame) -> DataFrame:
    """Sessions that ended, with when they had begun."""
    rows = _detailed(bronze, Kind.SESSION_END, f"durationMs long, code int, {_WHERE}")
    duration_ms = F.col("details.durationMs")
    return rows.select(
        "*",
        duration_ms.alias("duration_ms"),
        F.timestamp_millis(F.unix_millis("ts") - duration_ms).alias("started"),
        "details.code",
        "details.transport",
        "details.address",
    )


def refusals(bronze: DataFrame) -> DataFrame:
    """What was refused, and why. A row stands for itself and for `left_out` more."""
    shape = f"code int, name string, message string, field string, request string, {_WHERE}, leftOut long"
    rows = _detailed(bronze, Kind.ERROR, shape)
    return rows.select("*", "details.*", F.coalesce("details.leftOut", F.lit(0)).alias("left_out"))


def subscriptions(bronze: DataFrame) -> DataFrame:
    """Subscriptions that began or ended."""
    begun = _detailed(bronze, Kind.SUBSCRIBE, "pattern boolean").withColumn("begun", F.lit(True))
    over = _detailed(bronze, Kind.UNSUBSCRIBE, "pattern boolean").withColumn("begun", F.lit(False))
    return begun.unionByName(over).withColumn(
        "pattern", F.coalesce("details.pattern", F.lit(False))
    )


def changes(bronze: DataFrame) -> DataFrame:
    """What administrators did."""
    shape = "operation string, target string, outcome string, by string"
    return _detailed(bronze, Kind.AUDIT, shape).select("*", "details.*")


def counters(bronze: DataFrame) -> DataFrame:
    """Counters per interval: of the node as a whole (`hub` empty) and of each hub."""
    total = ", ".join(f"{name}: long" for name in _COUNTED)
    gauges = ", ".join(f"{name}: long" for name in _GAUGES)
    shape = (
        f"startMs long, endMs long, sessionsPeak long, gauges struct<{gauges}>, "
        f"total struct<{total}, refused: map<string, long>>"
    )
    rows = _detailed(bronze, Kind.COUNTERS, shape)
    total_of = F.col("details.total")
    refused = F.aggregate(
        F.coalesce(F.map_values(total_of.refused), F.array()),
        F.lit(0).cast("long"),
        lambda sum_, each: sum_ + each,
    )
    counted = [F.coalesce(total_of[name], F.lit(0)).alias(_snake(name)) for name in _COUNTED]
    gauged = [F.col(f"details.gauges.{name}").alias(name) for name in _GAUGES]
    return rows.select(
        "*",
        F.timestamp_millis("details.startMs").alias("started"),
        F.timestamp_millis("details.endMs").alias("ended"),
        F.col("details.sessionsPeak").alias("sessions_peak"),
        refused.alias("refused"),
        *counted,
        *gauged,
    )


def quarantine(bronze: DataFrame) -> DataFrame:
    """Rows that are not what they say they are, each with the reason."""
    kind, text = F.col("kind"), text_of(F.col("payload"))
    not_json = ~is_json(text)
    says_json = (kind == int(Kind.MESSAGE)) & is_json_type(F.col("content_type"))
    detailed = kind.isin(*_DETAILED)
    reason = (
        F.when(~kind.isin(*_KNOWN), F.concat(F.lit("unknown kind "), kind.cast("string")))
        .when(says_json & text.isNull(), "content type is JSON, but the payload is not UTF-8")
        .when(says_json & not_json, "content type is JSON, but the payload is not JSON")
        .when(detailed & not_json, "the details are not JSON")
        .when(detailed & ~text.rlike(_OBJECT), "the details are not an object")
        .when(is_odd(kind, F.col("ts"), text), "a number of the details is out of range")
    )
    return bronze.withColumn("reason", reason).where(F.col("reason").isNotNull())


def _detailed(bronze: DataFrame, kind: Kind, shape: str) -> DataFrame:
    """Rows of a kind, with their payload as the struct `details`."""
    rows = bronze.where(F.col("kind") == int(kind))
    text = text_of(F.col("payload"))
    # Fields of the wrong type become null; the rest of the row stays. What is no object at all would become
    # a row of nulls, and what holds an absurd number would end the whole batch: both are left to quarantine.
    details = F.from_json(text, shape, {"mode": "PERMISSIVE"})
    good = is_json(text) & text.rlike(_OBJECT) & ~is_odd(F.col("kind"), F.col("ts"), text)
    return rows.where(good).withColumn("details", details)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


#: table → how it is made of bronze
SILVER: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "messages": messages,
    "session_starts": session_starts,
    "sessions": sessions,
    "refusals": refusals,
    "subscriptions": subscriptions,
    "changes": changes,
    "counters": counters,
}

#: table → the kinds it is made of, so that a table without news costs nothing
KINDS_OF: Mapping[str, frozenset[int]] = {
    "messages": frozenset({int(Kind.MESSAGE)}),
    "session_starts": frozenset({int(Kind.SESSION_START)}),
    "sessions": frozenset({int(Kind.SESSION_END)}),
    "refusals": frozenset({int(Kind.ERROR)}),
    "subscriptions": frozenset({int(Kind.SUBSCRIBE), int(Kind.UNSUBSCRIBE)}),
    "changes": frozenset({int(Kind.AUDIT)}),
    "counters": frozenset({int(Kind.COUNTERS)}),
}
