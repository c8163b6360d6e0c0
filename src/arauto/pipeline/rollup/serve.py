"""Brings roll-ups to the node: into its admin API, and live onto channels.

Its place is the number of the last commit of `rollup_5m` that was served, kept in a file beside the tables.
Serving again replaces rows by the same rows. Messages may come again, with the same key: their ids hold the
last commit served with them, so the node knows them again only if nothing was committed meanwhile.

What the node refuses for one hub or row is logged and left out; it is still in the lake. Whatever else goes
wrong stops the serving, and the next time begins at the same place.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import structlog
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.model import JSON
from arauto.pipeline.archive.follow import pending
from arauto.pipeline.lake.retention import cutoff_ms
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.node_api import NodeApi, Outgoing
from arauto.pipeline.node_wire import of_one_hub
from arauto.pipeline.rollup.merge import PERIODS_MS, merge_rollups
from arauto.pipeline.rollup.partial import ALL_HUBS
from arauto.pipeline.rollup.refused import Refused

__all__ = ["Destination", "messages_of", "publish", "rollup_rows", "serve", "served", "store"]

_log = structlog.get_logger(__name__)

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
#: The node takes no row that begins later than this after now (`admin/rollups.py`, FUTURE_MS).
_AHEAD_MAX_MS = 86_400_000

#: Refusals of a request with rows that are about some of the rows.
_ABOUT_ROWS = frozenset({Code.BAD_FIELD, Code.BAD_HUB_NAME})
#: Will not pass by itself, and is the same for every hub.
_OF_ALL_HUBS = frozenset({Code.ADMIN_DENIED, Code.BAD_CONFIG})

#: (hub, what the node said)
_Refusal = tuple[str, str]


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


def serve(
    lake: Lake,
    destination: Destination,
    *,
    now_ms: int,
    gold_days: int = 0,
    told: Refused | None = None,
) -> int:
    """Send the windows, hours and days that changed since the last time; how many files of them there were.

    Args:
        lake: the lake.
        destination: where to.
        now_ms: the time.
        gold_days: how many days of roll-ups the lake keeps; 0 = all.
        told: what was logged of refusals before.

    Raises:
        PySparkException: the node did not answer, refused the token, or has too much to do; Spark's error
            tells which, and nothing of this counts as served.
    """
    table = lake.table("rollup_5m")
    files, last = pending(table.state(), served(lake))
    if not files:
        return 0
    starts = _servable(_starts(table.read_files(files)), now_ms, gold_days)
    refused: dict[str, str] = {}
    for number, first in enumerate(range(0, len(starts), _WINDOWS_MAX)):
        # Newest first. Who listens live wants to know of now; the past is there to be asked for.
        where = destination if number == 0 else replace(destination, channel="")
        for hub, why in _serve_some(
            table, sorted(starts[first : first + _WINDOWS_MAX]), where, last
        ):
            refused.setdefault(hub, why)
    (told or Refused()).tell(refused, now_ms)
    _remember(lake.root, last)
    return len(files)


def _servable(starts: Sequence[int], now_ms: int, gold_days: int) -> list[int]:
    """The windows that may go to the node.

    Not those before the lake's retention: of them the lake has only what came late, and the node has it all.
    Not those too far ahead, of a node whose clock was wrong: the node would refuse all rows beside them.
    """
    oldest_ms = cutoff_ms(now_ms, gold_days) or 0
    newest_ms = now_ms + _AHEAD_MAX_MS
    ahead = sum(start > newest_ms for start in starts)
    if ahead:
        _log.warning(
            "windows over a day ahead are not served; was a node's clock wrong?", windows=ahead
        )
    return [start for start in starts if oldest_ms <= start <= newest_ms]


def _starts(changed: DataFrame) -> list[int]:
    """The windows that changed, newest first."""
    windows = changed.select(F.unix_millis("start").alias("ms")).distinct()
    return [row.ms for row in windows.orderBy(F.col("ms").desc()).collect()]


def _serve_some(
    table: Table, starts: Sequence[int], destination: Destination, commit: int
) -> list[_Refusal]:
    day_ms = PERIODS_MS["day"]
    first, end = starts[0] - starts[0] % day_ms, starts[-1] - starts[-1] % day_ms + day_ms
    return _send(rollup_rows(table.read(from_ms=first, to_ms=end), starts), destination, commit)


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


def _send(rows: DataFrame, destination: Destination, commit: int) -> list[_Refusal]:
    def send(part: Iterable[Row]) -> list[_Refusal]:
        items = [_item(row) for row in part]
        if not items:
            return []
        with NodeApi(destination.url, destination.token) as api:
            refused = store(api, items)
            if destination.channel:
                refused += publish(api, items, destination, commit)
        return refused

    # One task: a handful of rows, and one connection.
    return rows.coalesce(1).rdd.mapPartitions(send).collect()


def store(api: NodeApi, items: Sequence[dict[str, Any]]) -> list[_Refusal]:
    """Have the node keep rows; which it refused. One bad row makes it refuse all: find it, keep the others.

    Raises:
        ArautoError: what is not about rows.
    """
    try:
        api.upsert_rollups(items)
    except ArautoError as error:
        if error.code not in _ABOUT_ROWS:
            raise
        if len(items) == 1:
            return [(items[0]["hub"], str(error))]
        middle = len(items) // 2
        return store(api, items[:middle]) + store(api, items[middle:])
    return []


def publish(
    api: NodeApi, items: Iterable[dict[str, Any]], destination: Destination, commit: int
) -> list[_Refusal]:
    """Publish rows to the channels of their hubs; what was refused for one hub only.

    Raises:
        ArautoError: what is the same for all hubs.
    """
    by_hub: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_hub.setdefault(item["hub"], []).append(item)
    refused = []
    for hub, rows in by_hub.items():
        where = destination.system_hub if hub == ALL_HUBS else hub
        try:
            messages = messages_of(rows, destination.channel, commit)
            outcomes = api.publish(where, messages, wait_for_hub=False)
            for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
        except ArautoError as error:
            if _stops(error):
                raise
            refused.append((where, str(error)))
    return refused


def _stops(error: ArautoError) -> bool:
    """Whether other hubs need not be tried."""
    if of_one_hub(error):
        return False
    return error.retryable or error.code in _OF_ALL_HUBS


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
