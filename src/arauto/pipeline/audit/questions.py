"""Everything about a message, a user or a channel between two times, in one list."""

import re
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.names import check_hub, check_kept
from arauto.pipeline.audit import events
from arauto.pipeline.audit.recipients import covers, recipients, subscription_spans
from arauto.pipeline.lake.table import Lake

__all__ = ["Question", "about_channel", "about_message", "about_user", "peaks"]

_PLACE = re.compile(r"(?P<node>.+):(?P<seq>\d{1,18})\Z")
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Question:
    """Where to look."""

    hub: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    """Exclusive."""

    def __post_init__(self) -> None:
        if self.hub is not None:
            check_hub(self.hub)
        if None not in (self.from_ms, self.to_ms) and (self.from_ms or 0) >= (self.to_ms or 0):
            raise ArautoError(
                Code.BAD_FIELD, "the time from is not before the time to", field="from"
            )

    def rows(self, lake: Lake, name: str) -> DataFrame:
        """A table's rows of these times."""
        return lake.table(name).read(from_ms=self.from_ms, to_ms=self.to_ms, hub=self.hub)

    def until(self, lake: Lake, name: str) -> DataFrame:
        """A table's rows up to the end: who spoke at ten may have come at nine."""
        return lake.table(name).read(to_ms=self.to_ms, hub=self.hub)


def about_message(lake: Lake, question: Question, name: str) -> DataFrame:
    """A message, by its id or by its place in the journal (`node:seq`), and to whom it went."""
    wanted = F.col("id") == name
    place = _PLACE.match(name)
    if place:
        wanted |= (F.col("node") == place["node"]) & (F.col("seq") == int(place["seq"]))
    found = question.rows(lake, "messages").where(wanted)
    starts = question.until(lake, "session_starts")
    went = recipients(found, _spans(lake, question))
    return events.chronological(events.sent(found, starts), events.received(went, starts))


def about_user(lake: Lake, question: Question, user: str) -> DataFrame:
    """What a user sent, received, subscribed to and was refused; sessions; changes that name the user.

    Raises:
        ArautoError: BAD_FIELD, no user was named.
    """
    if not user:
        raise ArautoError(Code.BAD_FIELD, "name the user", field="user")
    mine = F.col("user") == user
    starts = question.until(lake, "session_starts")
    messages = question.rows(lake, "messages")
    # The user's own subscriptions only, so that no other recipient is computed.
    went = recipients(messages, _spans(lake, question, mine))
    return events.chronological(
        events.sent(messages.where(mine), starts),
        events.received(went, starts),
        *_sessions(lake, question, mine),
        events.subscribed(question.rows(lake, "subscriptions").where(mine)),
        events.refused(question.rows(lake, "refusals").where(mine)),
        events.changed(question.rows(lake, "changes").where(F.contains("target", F.lit(user)))),
    )


def about_channel(lake: Lake, question: Question, channel: str) -> DataFrame:
    """What was sent to a channel and to how many, who subscribed, what was refused, changes that name it.

    Raises:
        ArautoError: BAD_CHANNEL_NAME.
    """
    check_kept(channel)
    here = F.col("channel") == channel
    found = question.rows(lake, "messages").where(here)
    went = recipients(found, _spans(lake, question))
    counts = went.groupBy("node", "seq").agg(F.count("*").alias("recipients"))
    return events.chronological(
        events.sent(found, question.until(lake, "session_starts"), counts),
        events.subscribed(
            question.rows(lake, "subscriptions").where(_is_for(channel, F.col("channel")))
        ),
        events.refused(question.rows(lake, "refusals").where(here)),
        events.changed(question.rows(lake, "changes").where(F.contains("target", F.lit(channel)))),
    )


def peaks(messages: DataFrame) -> DataFrame:
    """The busiest minutes of each hub and channel, busiest first: minute, hub, channel, messages, bytes."""
    ms = F.unix_millis("ts")
    minute = F.timestamp_millis(ms - ms % _MINUTE_MS).alias("minute")
    return (
        messages.groupBy(minute, "hub", "channel")
        .agg(
            F.count("*").alias("messages"),
            F.sum("size_bytes").alias("bytes"),
            F.count_distinct(F.nullif("user", F.lit(""))).alias("users"),
        )
        .orderBy(F.desc("messages"), F.desc("bytes"), "minute", "hub", "channel")
    )


def _sessions(lake: Lake, question: Question, mine: Column) -> tuple[DataFrame, DataFrame]:
    return (
        events.started(question.rows(lake, "session_starts").where(mine)),
        events.ended(question.rows(lake, "sessions").where(mine)),
    )


def _spans(lake: Lake, question: Question, mine: Column | None = None) -> DataFrame:
    subscriptions = question.until(lake, "subscriptions")
    if mine is not None:
        subscriptions = subscriptions.where(mine)
    return subscription_spans(subscriptions, question.until(lake, "sessions"))


def _is_for(channel: str, name: Column) -> Column:
    return F.when(F.col("pattern"), covers(name, F.lit(channel))).otherwise(name == channel)
