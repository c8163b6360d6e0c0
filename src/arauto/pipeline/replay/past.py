"""Reads the past from the lake, in order, a bounded piece at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.correlation.wildcards import channel_regex
from arauto.names import is_pattern, is_topic
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.replay.spec import Past, ReplaySpec

__all__ = [
    "Slice",
    "Summary",
    "covers",
    "merge",
    "read_slice",
    "select",
    "slices",
    "summarise",
    "top_channels",
]

#: What one piece holds at most, unless a single stretch of time holds more: it is sorted at once.
_SLICE_ROWS, _SLICE_BYTES = 20_000, 32 * 1024 * 1024
_BUCKETS_MAX = 5_000
_BUCKET_MS_MIN = 1_000

_ORDER = ("ts", "node", "seq")
_COLUMNS = (
    *("node", "seq", "channel", "epoch", "offset", "user", "content_type", "key"),
    *("headers", "expires_ms", "payload"),
)


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time (`to_ms` exclusive) and what lies in it."""

    from_ms: int
    to_ms: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a replay will publish."""

    rows: int
    size_bytes: int
    channels: int
    first_ms: int
    last_ms: int


def covers(channels: Sequence[str]) -> Column:
    """Whether one of the names, patterns or topics covers the row's channel, as subscriptions do."""
    name = F.col("channel")
    found = name.isin([channel for channel in channels if not is_pattern(channel)])
    for channel in channels:
        if is_pattern(channel):
            found = found | name.rlike(channel_regex(channel, r"\z"))
        elif is_topic(channel):
            found = found | name.startswith(channel if channel == "/" else channel + "/")
    return found


def select(
    lake: Lake,
    spec: ReplaySpec,
    after: tuple[int, str, int] | None = None,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> DataFrame:
    """The messages of a replay, without an order: those after a place, or of a part of its time."""
    start_ms = max(spec.from_ms, after[0] if after else 0, from_ms or 0)
    end_ms = min(spec.to_ms, to_ms if to_ms is not None else spec.to_ms)
    frame = lake.table("messages").read(from_ms=start_ms, to_ms=end_ms, hub=spec.hub)
    frame = frame.where(covers(spec.channels))
    if not spec.derived:
        headers = F.col("headers")
        frame = frame.where(
            F.try_element_at(headers, F.lit("x-replay")).isNull()
            & ~F.try_element_at(headers, F.lit("x-origin")).eqNullSafe("pipeline")
        )
    if after is not None:
        ts_ms, node, seq = after
        place = F.struct(F.timestamp_millis(F.lit(ts_ms)), F.lit(node), F.lit(seq).cast("long"))
        frame = frame.where(F.struct(*_ORDER) > place)
    return frame


def summarise(frame: DataFrame) -> Summary:
    """Count what there is."""
    row = frame.agg(
        F.count("*"),
        F.coalesce(F.sum(_size()), F.lit(0)),
        F.count_distinct("channel"),
        F.coalesce(F.unix_millis(F.min("ts")), F.lit(0)),
        F.coalesce(F.unix_millis(F.max("ts")), F.lit(0)),
    ).first()
    assert row is not None
    return Summary(*(int(value) for value in row))


def top_channels(frame: DataFrame, count: int) -> list[tuple[str, int]]:
    """The channels with the most messages."""
    found = frame.groupBy("channel").count().orderBy(F.desc("count"), "channel").limit(count)
    return [(row[0], row[1]) for row in found.toLocalIterator()]


def slices(frame: DataFrame, summary: Summary) -> list[Slice]:
    """Stretches of time that cover all messages, each small enough to be sorted and held."""
    if not summary.rows:
        return []
    first_ms = summary.first_ms
    width_ms = max(_BUCKET_MS_MIN, (summary.last_ms - first_ms) // _BUCKETS_MAX + 1)
    number = F.floor((F.unix_millis("ts") - first_ms) / width_ms)
    counted = frame.groupBy(number.alias("number")).agg(F.count("*"), F.sum(_size()))
    buckets = (
        Slice(first_ms + row[0] * width_ms, first_ms + (row[0] + 1) * width_ms, row[1], row[2])
        for row in counted.orderBy("number").toLocalIterator()
    )
    return list(merge(buckets, _SLICE_ROWS, _SLICE_BYTES))


def merge(buckets: Iterable[Slice], rows_max: int, bytes_max: int) -> Iterator[Slice]:
    """Join neighbours for as long as they stay within the limits."""
    joined: Slice | None = None
    for bucket in buckets:
        if joined is None:
            joined = bucket
            continue
        both = Slice(
            joined.from_ms,
            bucket.to_ms,
            joined.rows + bucket.rows,
            joined.size_bytes + bucket.size_bytes,
        )
        if both.rows > rows_max or both.size_bytes > bytes_max:
            yield joined
            joined = bucket
        else:
            joined = both
    if joined is not None:
        yield joined


def read_slice(
    lake: Lake, spec: ReplaySpec, piece: Slice, after: tuple[int, str, int] | None
) -> Iterator[Past]:
    """The messages of a piece, in order. Spark sorts; the driver holds one partition at a time."""
    # Read anew for each piece: a replay may take days, and files are merged meanwhile.
    frame = select(lake, spec, after, from_ms=piece.from_ms, to_ms=piece.to_ms)
    parts = 1 + max(piece.rows // _SLICE_ROWS, piece.size_bytes // _SLICE_BYTES)
    ordered = frame.repartitionByRange(parts, *_ORDER).sortWithinPartitions(*_ORDER)
    wanted = ordered.select(F.unix_millis("ts").alias("ts_ms"), *_COLUMNS)
    for row in wanted.toLocalIterator():
        yield _past(row)


def _past(row: Any) -> Past:
    return Past(
        ts_ms=row["ts_ms"],
        node=row["node"],
        seq=row["seq"],
        channel=row["channel"],
        epoch=row["epoch"] or 0,
        offset=row["offset"] or 0,
        user=row["user"] or "",
        content_type=row["content_type"] or "",
        key=row["key"] or "",
        headers=row["headers"] or {},
        expires_ms=row["expires_ms"] or 0,
        payload=bytes(row["payload"] or b""),
    )


def _size() -> Column:
    return F.coalesce(F.col("size_bytes"), F.lit(0))
