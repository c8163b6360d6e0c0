"""How much the counts of each hub may hold: keys times windows, which Spark's own aggregation does not bound.

What is held is read from the state itself, from time to time and only once it is large. A hub that holds as
much as it may is written into a small file beside the checkpoint, which tasks look at: its events are left
out until time has made room. How much one task may add in between is bounded too.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from arauto.correlation.bounds import bytes_of
from arauto.pipeline.rules.processor import HUB_BYTES_MAX
from arauto.pipeline.worker import first_line

__all__ = ["COUNTED_BYTES_MAX", "WINDOW_BYTES", "Crowding", "TaskRoom", "held_by_hub"]

_log = structlog.get_logger(__name__)

#: What the counts of one hub may hold, in both partitions of the state.
COUNTED_BYTES_MAX = 2 * HUB_BYTES_MAX
#: What one task of a batch may add for one hub.
_TASK_BYTES_MAX = COUNTED_BYTES_MAX // 8
#: What a window of a key takes beside its names, about.
WINDOW_BYTES = 256
#: State with fewer rows is not looked at: it cannot be that large.
_LOOK_ROWS = 30_000
_LOOK_S = 10.0
#: A look takes longer the more all hubs hold. So many times as long nobody looks: rows have the cores then.
_REST_TIMES = 5
#: A hub that was full may go on once it holds no more than this part.
_ENOUGH = 0.9


class _Full(msgspec.Struct, frozen=True):
    hubs: frozenset[str] = frozenset()


@dataclass
class TaskRoom:
    """What a task lets in. Sent to workers, and copied by each task."""

    path: Path
    bytes_max: int = _TASK_BYTES_MAX
    _full: frozenset[str] = frozenset()
    _bytes: dict[str, int] = field(default_factory=dict)
    _seen: set[tuple[str, str, int]] = field(default_factory=set)

    def for_task(self) -> "TaskRoom":
        """One that knows who is full now."""
        return TaskRoom(self.path, self.bytes_max, _read(self.path))

    def admits(self, hub: str, ref: str, key: str, slot: int, windows: int) -> bool:
        """Whether an event may be counted.

        Args:
            hub: whose.
            ref: the rule's.
            key: the event's.
            slot: events of the same slot fall into the same windows.
            windows: how many there are.
        """
        if hub in self._full:
            return False
        place = (ref, key, slot)
        if place in self._seen:
            return True
        names = bytes_of(key) + bytes_of(ref)
        more = self._bytes.get(hub, 0) + windows * (names + WINDOW_BYTES)
        if more > self.bytes_max:
            return False
        self._bytes[hub] = more
        self._seen.add(place)
        return True


class Crowding:
    """Looks at what hubs hold while the query runs.

    Args:
        checkpoint: the query's.
        bytes_max: what a hub may hold.
    """

    def __init__(self, checkpoint: Path, bytes_max: int = COUNTED_BYTES_MAX) -> None:
        self._checkpoint = checkpoint
        self._bytes_max = bytes_max
        self._next_s = 0.0
        self._path = checkpoint.with_name(f"{checkpoint.name}.full.json")
        self.room = TaskRoom(self._path)

    def look(self, spark: SparkSession, query: StreamingQuery) -> None:
        """See who is full, if that may have changed."""
        progress = query.lastProgress
        began_s = time.monotonic()
        if progress is None or began_s < self._next_s:
            return
        rows = sum(each.numRowsTotal for each in progress.stateOperators)
        full = _read(self._path)
        if rows < _LOOK_ROWS and not full:
            return
        try:
            held = held_by_hub(spark, self._checkpoint) if rows >= _LOOK_ROWS else {}
        except Exception as error:
            # The state it reads may just have been replaced by a newer one, and the query goes on.
            _log.warning("what counts hold could not be read", error=first_line(error))
            return
        finally:
            ended_s = time.monotonic()
            self._next_s = ended_s + max(_LOOK_S, _REST_TIMES * (ended_s - began_s))
        self.judge(held)

    def judge(self, held: Mapping[str, int]) -> None:
        """Write down who is full, given how many bytes hubs hold."""
        before = _read(self._path)
        full = frozenset(
            hub
            for hub, size in held.items()
            if size >= self._bytes_max * (_ENOUGH if hub in before else 1)
        )
        for hub in sorted(full - before):
            _log.warning(
                "a hub's counts hold as much as they may; its events are left out until time makes room",
                hub=hub,
                bytes=held[hub],
            )
        if full != before:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            written = self._path.with_name(f".{self._path.name}")
            written.write_bytes(msgspec.json.encode(_Full(full)))
            written.rename(self._path)

    def forget(self) -> None:
        """Nobody holds anything any more."""
        self._path.unlink(missing_ok=True)


def held_by_hub(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """How many bytes the counts of each hub hold, about."""
    kept = spark.read.format("statestore").load(str(checkpoint))
    size = F.octet_length("key.key") + F.octet_length("key.rule_ref") + WINDOW_BYTES
    sums = kept.groupBy(F.substring_index("key.rule_ref", "/", 1).alias("hub")).agg(
        F.sum(size).alias("bytes")
    )
    return {row.hub: row.bytes for row in sums.collect()}


def _read(path: Path) -> frozenset[str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Full).hubs
    except (OSError, msgspec.DecodeError):
        return frozenset()
