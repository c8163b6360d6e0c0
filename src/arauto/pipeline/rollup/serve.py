"""Brings roll-ups to the node: into its admin API, and live onto channels.

Its place is the number of the last commit of `rollup_5m` that was served, kept in a file beside the tables.
Serving again replaces rows by the same rows and publishes ids the node has seen, so a lost place costs
nothing but work.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from arauto.model import JSON
from arauto.pipeline.archive.follow import pending
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.node_api import NodeApi, Outgoing
from arauto.pipeline.rollup.merge import PERIODS_MS, merge_rollups
from arauto.pipeline.rollup.partial import ALL_HUBS

__all__ = ["Destination", "messages_of", "rollup_rows", "serve", "served"]

_PLACE = "_serving.json"
_KEY = "rollup5m"
_COLUMNS = (
    *("messages_in", "messages_out", "bytes_in", "bytes_out", "published", "published_bytes"),
    *("deliveries", "dropped", "refused", "hubs", "channels", "sessions", "sessions_peak"),
    *("subscriptions", "sessions_started", "sessions_ended", "duration_mean_ms"),
    *(
        "duration_p50_ms",
        "duration_p95_ms",
        "duration_p99_ms",
        "distinct_channels",
        "distinct_users",
    ),
)
#: Windows served in one step, which bounds a request's size.
_WINDOWS_MAX = 500


@dataclass(frozen=True, slots=True)
class Destination:
    """Where roll-ups go. Travels to the executors."""

    url: str
    token: str
    channel: str
    """"" = not published."""
    system_hub: str

    def __repr__(self) -> str:
        return f"Destination({self.url!r}, {self.channel!r}, {self.system_hub!r})"


def served(lake: Lake) -> int:
    """The last commit of `rollup_5m` that was served."""
    try:
        place = msgspec.json.decode((lake.root / _PLACE).read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return 0
    return place.get(_KEY, 0)


def serve(lake: Lake, destination: Destination) -> int:
    """Send the windows, hours and days that changed since the last time; how many files of them there were.

    Raises:
        ArautoError: NODE_UNREACHABLE and what else the node may answer.
    """
    table = lake.table("rollup_5m")
    files, last = pending(table.state(), served(lake))
    if not files:
        return 0
    starts = _starts(table.read_files(files))
    for number, first in enumerate(range(0, len(starts), _WINDOWS_MAX)):
        # Newest first. Who listens live wants to know of now; the past is there to be asked for.
        where = destination if number == 0 else replace(destination, channel="")
        _serve_some(table, sorted(starts[first : first + _WINDOWS_MAX]), where, last)
    _remember(lake.root, last)
    return len(files)


def _starts(changed: DataFrame) -> list[int]:
    """The windows that changed, newest first."""
    windows = changed.select(F.unix_millis("start").alias("ms")).distinct()
    return [row.ms for row in windows.orderBy(F.col("ms").desc()).collect()]


def _serve_some(table: Table, starts: Sequence[int], destination: Destination, commit: int) -> None:
    day_ms = PERIODS_MS["day"]
    first, end = starts[0] - starts[0] % day_ms, starts[-1] - starts[-1] % day_ms + day_ms
    _send(rollup_rows(table.read(from_ms=first, to_ms=end), starts), destination, commit)


def rollup_rows(partials: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The rows of all three periods that some five-minute windows belong to."""
    frames = []
    for period, length_ms in PERIODS_MS.items():
        wanted = sorted({start - start % length_ms for start in starts})
        low, high = wanted[0], wanted[-1] + length_ms
        within = partials.where(F.unix_millis("start").between(low, high - 1))
        merged = merge_rollups(within, period)
        chosen = merged.where(F.unix_millis("start").isin(*wanted))
        frames.append(chosen.withColumn("period", F.lit(period)))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole.select(
        "period",
        "hub",
        F.unix_millis("start").alias("start_ms"),
        *(F.col(name) for name in _COLUMNS),
    )


def messages_of(rows: Iterable[dict[str, Any]], channel: str, commit: int) -> Iterator[Outgoing]:
    """Roll-ups as messages; a later one of the same window takes the place of the one before."""
    for row in rows:
        place = f"{row['period']}-{row['startMs']}"
        yield Outgoing(
            channel=channel,
            payload=msgspec.json.encode(row),
            content_type=JSON,
            id=f"rollup-{place}-{commit}",
            key=place,
            headers={"x-origin": "pipeline"},
        )


def _send(rows: DataFrame, destination: Destination, commit: int) -> None:
    def send(part: Iterable[Row]) -> None:
        items = [_item(row) for row in part]
        if not items:
            return
        with NodeApi(destination.url, destination.token) as api:
            api.upsert_rollups(items)
            if destination.channel:
                _publish(api, items, destination, commit)

    # One task: a handful of rows, and one connection.
    rows.coalesce(1).foreachPartition(send)


def _publish(
    api: NodeApi, items: list[dict[str, Any]], destination: Destination, commit: int
) -> None:
    by_hub: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_hub.setdefault(item["hub"], []).append(item)
    for hub, rows in by_hub.items():
        where = destination.system_hub if hub == ALL_HUBS else hub
        api.publish(where, messages_of(rows, destination.channel, commit))


def _item(row: Row) -> dict[str, Any]:
    values = {_camel(name): row[name] for name in _COLUMNS if row[name] is not None}
    return {"period": row.period, "hub": row.hub, "startMs": row.start_ms, "values": values}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _remember(root: Path, commit: int) -> None:
    written = root / f".{_PLACE}-{os.getpid()}"
    written.write_bytes(msgspec.json.encode({_KEY: commit}))
    written.rename(root / _PLACE)
