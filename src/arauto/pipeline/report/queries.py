"""From the lake to a report: Spark adds up, and only a bounded number of rows comes back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.names import check_hub
from arauto.pipeline.lake.coverage import count, gaps
from arauto.pipeline.lake.manifest import State
from arauto.pipeline.lake.retention import removed_rows
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.report.model import (
    ChannelRow,
    Gap,
    Peak,
    Point,
    Quality,
    Ranked,
    Report,
    RuleRow,
    Step,
    Totals,
)
from arauto.pipeline.rollup.merge import PERIODS_MS, merge_rollups
from arauto.pipeline.rollup.partial import ALL_HUBS, WINDOW_MS

__all__ = ["DAYS_MAX", "STEPS", "make_report", "step_for"]

DAYS_MAX = 400
#: What `make_report` does, one after another; for progress.
STEPS = (
    "roll-ups",
    "the time before",
    "messages",
    "users",
    "sessions",
    "refusals",
    "rules",
    "data quality",
)

_DAY_MS = 86_400_000
_PEAKS_LEN, _TOP_LEN, _GAPS_LEN = 5, 10, 20
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000

#: What is told later than this is not waited for: the node has ended, or is told of in other ways.
_LATE_MS = 3 * WINDOW_MS
#: A node's interval may be over a moment before the window that it is for.
_EARLY_MS = 2_000
_TABLES = (
    "matches",
    "rollup_5m",
    "counters",
    "messages",
    "session_starts",
    "refusals",
    "quarantine",
    "journal",
)

OnStep = Callable[[str], None]
States = Mapping[str, State]


def step_for(from_ms: int, to_ms: int) -> Step:
    """The step of the charts: about as many points as a chart can show.

    Raises:
        ArautoError: BAD_FIELD, the period is empty or too long.
    """
    if from_ms >= to_ms:
        raise ArautoError(Code.BAD_FIELD, "the report's time ends before it begins", field="to")
    days = (to_ms - from_ms) / _DAY_MS
    if days > DAYS_MAX:
        raise ArautoError(Code.BAD_FIELD, f"a report covers at most {DAYS_MAX} days", field="from")
    return "5m" if days <= 1 else "hour" if days <= 16 else "day"


def make_report(
    lake: Lake,
    *,
    from_ms: int,
    to_ms: int,
    made_ms: int,
    hub: str | None = None,
    on_step: OnStep = lambda name: None,
) -> Report:
    """Everything about a period.

    Args:
        lake: where it is read from.
        from_ms: the beginning; the report begins with the five minutes it lies in.
        to_ms: the end, exclusive; the report ends with the five minutes it lies in.
        made_ms: the time of making it.
        hub: one hub; None = all.
        on_step: is told each of `STEPS` as it begins.

    Raises:
        ArautoError: BAD_FIELD, BAD_HUB_NAME.
    """
    if hub is not None:
        check_hub(hub)
    step_for(from_ms, to_ms)
    on_step(STEPS[0])
    source, cut_ms = _source_of(lake, from_ms, to_ms, made_ms, hub)
    # A young lake knows little of a long time: its charts show that little well.
    first_ms, end_ms = source.known_ms()
    step = step_for(max(first_ms, from_ms), min(end_ms, to_ms))
    points = _filled(_points(source, step), PERIODS_MS[step])
    now = source.totals(points)
    on_step(STEPS[1])
    earlier = source.before()
    before = earlier.totals(_points(earlier, step))
    on_step(STEPS[2])
    minutes, hours, channels = _message_parts(source)
    on_step(STEPS[3])
    users = _users(source)
    on_step(STEPS[4])
    starts = _starts(source)
    on_step(STEPS[5])
    errors = _errors(source)
    on_step(STEPS[6])
    rules = _rules(source)
    on_step(STEPS[7])
    quality = _quality(source)
    return Report(
        hub=hub or "",
        from_ms=source.from_ms,
        to_ms=source.to_ms,
        made_ms=made_ms,
        cut_ms=cut_ms,
        step=step,
        now=now or Totals(),
        before=before,
        points=points,
        minutes=minutes,
        hours=hours,
        starts=starts,
        errors=errors,
        channels=channels,
        users=users,
        rules=rules,
        quality=quality,
    )


def _source_of(
    lake: Lake, from_ms: int, to_ms: int, made_ms: int, hub: str | None
) -> tuple["_Source", int]:
    """What a period is read from, and where it is cut off; 0 = it is not."""
    # Roll-ups know whole windows only: everything else is added up over the same ones.
    from_ms -= from_ms % WINDOW_MS
    to_ms += -to_ms % WINDOW_MS
    # All parts are read as of one moment, or their sums would contradict each other while a pipeline writes.
    states = _states(lake)
    open_ms = _open_ms(lake, states, made_ms)
    # What is counted in part only would look like an outage.
    cut_ms = open_ms if open_ms is not None and from_ms < open_ms < to_ms else 0
    return _Source(lake, from_ms, cut_ms or to_ms, hub, states), cut_ms


def _states(lake: Lake) -> States:
    """Which rows of each table count now."""
    return {name: lake.table(name).state() for name in _TABLES}


def _open_ms(lake: Lake, states: States, made_ms: int) -> int | None:
    """From when on windows are still being counted; None if none is.

    Nodes tell what they counted when an interval is over, and then it takes a while to get here. Where
    nothing comes for long there is nothing to wait for: the node has ended.
    """

    def recent(name: str) -> DataFrame:
        times = {"from_ms": made_ms - _LATE_MS, "to_ms": made_ms + _LATE_MS}
        return lake.table(name).read(**times, hub=ALL_HUBS, state=states[name])

    told = _last(recent("counters"), "ended")
    summed = _last(recent("rollup_5m").where(F.col("deliveries").isNotNull()), "start")
    if told is None or summed is None:
        return None
    known_ms = max(min(told + _EARLY_MS, summed + WINDOW_MS), made_ms - _LATE_MS)
    known_ms -= known_ms % WINDOW_MS
    return known_ms if known_ms <= made_ms else None


def _last(rows: DataFrame, column: str) -> int | None:
    found: int | None = rows.agg(F.max(F.unix_millis(column)).alias("ms")).collect()[0]["ms"]
    return found


class _Source:
    """Tables of the period and hub, as of one moment."""

    def __init__(
        self, lake: Lake, from_ms: int, to_ms: int, hub: str | None, states: States | None = None
    ) -> None:
        self.lake, self.from_ms, self.to_ms, self.hub = lake, from_ms, to_ms, hub
        self.states = states or _states(lake)
        self._counted = ALL_HUBS if hub is None else hub

    def before(self) -> "_Source":
        """The same time before."""
        begin_ms = self.from_ms - (self.to_ms - self.from_ms)
        return _Source(self.lake, begin_ms, self.from_ms, self.hub, self.states)

    def read(self, name: str) -> DataFrame:
        return self._read(name, self.to_ms, self.hub)

    def rollups(self) -> DataFrame:
        """Of the hub, or those that are about all hubs together."""
        return self._read("rollup_5m", self.to_ms, self._counted)

    def _read(self, name: str, to_ms: int, hub: str | None) -> DataFrame:
        table = self.lake.table(name)
        return table.read(from_ms=self.from_ms, to_ms=to_ms, hub=hub, state=self.states[name])

    def known_ms(self) -> tuple[int, int]:
        """From when to when something is known; the whole period if nothing is."""
        start = F.unix_millis("start")
        row = (
            self.rollups().agg(F.min(start).alias("first"), F.max(start).alias("last")).collect()[0]
        )
        if row["first"] is None:
            return self.from_ms, self.to_ms
        return row["first"], row["last"] + WINDOW_MS

    def publishes(self, step_ms: int) -> Mapping[int, int]:
        """Messages published in each step. Roll-ups know only those that were stored, counters all."""
        # A row is written when its interval is over.
        rows = self._read("counters", self.to_ms + 2 * WINDOW_MS, self._counted)
        started = F.unix_millis("started")
        mine = rows.where((started >= self.from_ms) & (started < self.to_ms))
        found = mine.groupBy(_floor(F.col("started"), step_ms).alias("at_ms")).agg(
            F.sum("publishes").alias("count")
        )
        return {row["at_ms"]: row["count"] or 0 for row in found.collect()}

    def totals(self, points: Sequence[Point]) -> Totals | None:
        """Of the whole period, and what its steps add up to; None if nothing is known of it."""
        # One window as wide as the period: everything is merged into it.
        whole = self.rollups().withColumn("start", F.timestamp_millis(F.lit(0)))
        rows = merge_rollups(whole, "day").collect()
        if not rows:
            return None
        row = _zeros(rows[0])
        return Totals(
            messages_in=sum(point.messages_in for point in points),
            messages_out=row["deliveries"],
            bytes_in=sum(point.bytes_in for point in points),
            bytes_out=row["bytes_out"],
            published=row["published"],
            refused=row["refused"],
            dropped=row["dropped"],
            sessions_started=row["sessions_started"],
            sessions_ended=row["sessions_ended"],
            sessions_peak=row["sessions_peak"],
            users=row["distinct_users"],
            channels=row["distinct_channels"],
            duration_mean_ms=rows[0]["duration_mean_ms"],
            duration_p95_ms=rows[0]["duration_p95_ms"],
            rules_fired=self.read("matches").count(),
        )

    def place(self) -> Column:
        """A channel as it is called in this report: with its hub, if there are several."""
        channel = F.col("channel")
        return channel if self.hub else F.concat_ws(" / ", "hub", "channel")


def _points(source: _Source, step: Step) -> tuple[Point, ...]:
    publishes = source.publishes(PERIODS_MS[step])
    merged = merge_rollups(source.rollups(), step).orderBy("start")
    rows = merged.withColumn("start_ms", F.unix_millis("start")).drop("start").collect()
    # What only counters know of, because nothing of it was stored and the sums are not there yet.
    known = {row["start_ms"] for row in rows}
    points = [Point(at, messages_in=publishes[at]) for at in publishes.keys() - known]
    for raw in rows:
        row = _zeros(raw)
        points.append(
            Point(
                start_ms=row["start_ms"],
                # Counters come when their interval is over, and not at all from a node that was killed.
                messages_in=max(publishes.get(row["start_ms"], 0), row["published"]),
                messages_out=row["deliveries"],
                bytes_in=max(row["bytes_in"], row["published_bytes"]),
                bytes_out=row["bytes_out"],
                sessions=row["sessions_peak"],
                refused=row["refused"],
                mean_ms=raw["duration_mean_ms"],
                p50_ms=raw["duration_p50_ms"],
                p95_ms=raw["duration_p95_ms"],
                p99_ms=raw["duration_p99_ms"],
            )
        )
    return tuple(sorted(points, key=lambda point: point.start_ms))


def _filled(points: tuple[Point, ...], step_ms: int) -> tuple[Point, ...]:
    """Points at an even pace: where nothing happened, nothing is what there was."""
    if not points:
        return ()
    known = {point.start_ms: point for point in points}
    every = range(points[0].start_ms, points[-1].start_ms + 1, step_ms)
    return tuple(known.get(start_ms) or Point(start_ms) for start_ms in every)


def _message_parts(
    source: _Source,
) -> tuple[tuple[Peak, ...], tuple[Peak, ...], tuple[ChannelRow, ...]]:
    """Peaks and top channels, from one look at the messages."""
    minute = _floor(F.col("ts"), _MINUTE_MS).alias("at_ms")
    sums = (F.count("*").alias("messages"), F.sum("size_bytes").alias("size_bytes"))
    by_minute = source.read("messages").groupBy(minute, source.place().alias("place")).agg(*sums)
    by_minute = by_minute.persist()
    try:
        channels = by_minute.groupBy("place").agg(
            F.sum("messages").alias("messages"), F.sum("size_bytes").alias("size_bytes")
        )
        top = channels.orderBy(F.desc("messages"), "place").limit(_TOP_LEN).collect()
        by_hour = by_minute.withColumn("at_ms", F.col("at_ms") - F.col("at_ms") % _HOUR_MS)
        return (
            _peaks(by_minute),
            _peaks(by_hour),
            tuple(ChannelRow(row["place"], row["messages"], row["size_bytes"] or 0) for row in top),
        )
    finally:
        by_minute.unpersist()


def _peaks(parts: DataFrame) -> tuple[Peak, ...]:
    by_place = parts.groupBy("at_ms", "place").agg(F.sum("messages").alias("messages"))
    of_place = F.struct("messages", "place")
    busiest = by_place.groupBy("at_ms").agg(
        F.sum("messages").alias("messages"), F.max(of_place).alias("top")
    )
    rows = busiest.orderBy(F.desc("messages"), "at_ms").limit(_PEAKS_LEN).collect()
    return tuple(
        Peak(row["at_ms"], row["messages"], row["top"]["place"], row["top"]["messages"])
        for row in rows
    )


def _users(source: _Source) -> tuple[Ranked, ...]:
    named = source.read("messages").where(F.col("user") != "")
    who = F.col("user") if source.hub else F.concat_ws(" / ", "hub", "user")
    return _ranked(named.groupBy(who.alias("name")).agg(F.count("*").alias("count")))


def _starts(source: _Source) -> Mapping[tuple[int, int], int]:
    when = (F.weekday("ts").alias("weekday"), F.hour("ts").alias("hour"))
    rows = source.read("session_starts").groupBy(*when).count().collect()
    return {(row["weekday"], row["hour"]): row["count"] for row in rows}


def _errors(source: _Source) -> tuple[Ranked, ...]:
    # A row stands for itself and for those that were left out before it.
    times = F.sum(F.lit(1) + F.coalesce("left_out", F.lit(0))).alias("count")
    name = F.coalesce("name", F.col("code").cast("string"), F.lit("unknown")).alias("name")
    return _ranked(source.read("refusals").groupBy(name).agg(times))


def _rules(source: _Source) -> tuple[RuleRow, ...]:
    rule = F.col("rule") if source.hub else F.concat_ws(" / ", "hub", "rule")
    fired = source.read("matches").groupBy(rule.alias("name"))
    found = fired.agg(F.count("*").alias("count"), F.max(F.unix_millis("ts")).alias("last_ms"))
    rows = found.orderBy(F.desc("count"), "name").limit(_TOP_LEN).collect()
    return tuple(RuleRow(row["name"], row["count"], row["last_ms"]) for row in rows)


def _quality(source: _Source) -> Quality:
    reason = F.coalesce("reason", F.lit("unknown")).alias("name")
    rows = source.read("quarantine")
    quarantined = rows.groupBy(reason).agg(F.count("*").alias("count"))
    state = source.states["journal"]
    coverage = state.coverage
    missing = [
        Gap(node, first, last)
        # What a node wrote before its first row here was never meant for this lake.
        for node, ranges in sorted(coverage.items())
        for first, last in gaps(ranges, ranges[0][0] if ranges else 1)
    ]
    return Quality(
        journal_rows=sum(
            # What was removed for its age was taken in, and is no longer there.
            count(ranges) - removed_rows(state.notes, node)
            for node, ranges in coverage.items()
        ),
        missing_rows=sum(gap.last - gap.first + 1 for gap in missing),
        gaps=tuple(missing[:_GAPS_LEN]),
        quarantined_rows=rows.count(),
        quarantined=_ranked(quarantined),
    )


def _ranked(counted: DataFrame) -> tuple[Ranked, ...]:
    rows = counted.orderBy(F.desc("count"), "name").limit(_TOP_LEN).collect()
    return tuple(Ranked(row["name"], row["count"]) for row in rows)


def _floor(ts: Column, step_ms: int) -> Column:
    ms = F.unix_millis(ts)
    return ms - ms % step_ms


def _zeros(row: Row) -> dict[str, Any]:
    """A row whose unknown numbers are 0."""
    return {name: 0 if value is None else value for name, value in row.asDict().items()}
