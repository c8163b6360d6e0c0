"""How far into each node's journal: offsets, limits and their division into tasks. Pure.

An offset maps a node (that is, one incarnation of its partition: see `storage/incarnation.py`) to the seq of
its last row that was read. Offsets are numbers of the journal and nothing else, so the same two offsets
always mean the same rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage, gaps, overlap
from arauto.storage.incarnation import first_seq_of, node_of

__all__ = [
    "IdlePace",
    "NodeRange",
    "Offsets",
    "Place",
    "held_at",
    "latest",
    "parse_starting",
    "ranges",
    "settled_ms",
    "without",
]

Offsets = dict[str, int]

#: A node that has written nothing for so much longer than another, not even a heartbeat, is not waited for.
_GONE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Place:
    """What a node's partition holds."""

    trimmed: int
    """Up to here rows may be gone from the database; they are in segments."""
    last: int
    is_over: bool = False
    """Whether the node was restored since and goes on under another name. What it once had after `last` is
    not in this journal any more."""


@dataclass(frozen=True, slots=True)
class NodeRange:
    """Rows `first` to `last` of one node, and where they are."""

    node: str
    first: int
    last: int
    in_segments: bool = False


def latest(start: Offsets, ends: Mapping[str, int], rows_max: int | None) -> Offsets:
    """How far a batch may go from `start`: at most `rows_max` rows of each node; None = to the end.

    Nodes that appear later start before their first row. None goes back, also if its journal is shorter
    than it was: that is found when it is read.
    """
    following = dict(start)
    for node, end in ends.items():
        begin = start.get(node, first_seq_of(node) - 1)
        if end > begin:
            following[node] = end if rows_max is None else min(end, begin + rows_max)
    return following


def held_at(start: Offsets, node: str, seq: int) -> Offsets:
    """How far a batch may go that must not pass a row: up to that row, and nowhere else.

    What other nodes wrote may be newer than the row, so it waits too.
    """
    begin = start.get(node, first_seq_of(node) - 1)
    return dict(start) | ({node: seq - 1} if seq - 1 > begin else {})


def ranges(
    start: Offsets, end: Offsets, places: Mapping[str, Place], *, rows_per_task: int, segments: bool
) -> Iterator[NodeRange]:
    """The tasks that together read what lies between two offsets.

    Args:
        start: exclusive.
        end: inclusive.
        places: what the database holds.
        rows_per_task: the most rows of one task.
        segments: whether rows that are gone from the database can be read from segments.

    Raises:
        ArautoError: OFFSET_TRIMMED, rows are gone and there are no segments to read them from;
            LAKE_CORRUPT, the journal ends before the offset.
    """
    for node, last in sorted(end.items()):
        first = start.get(node, first_seq_of(node) - 1) + 1
        place = places.get(node, Place(0, 0))
        if place.is_over or (node not in places and node_of(node) in places):
            # Restored since: what it had beyond this is gone for good, and must not be waited for.
            last = min(last, place.last)
        if first > last:
            continue
        if last > place.last:
            raise ArautoError(
                Code.LAKE_CORRUPT,
                f"the journal of node {node} ends at {place.last}, but {last} was read before: this is "
                "not the journal these offsets belong to",
            )
        if first <= place.trimmed and not segments:
            raise ArautoError(
                Code.OFFSET_TRIMMED,
                f"rows {first} to {min(last, place.trimmed)} of node {node} have left the journal; name "
                'the directory they were exported to in the option "segments"',
            )
        yield from _tasks(node, first, min(last, place.trimmed), rows_per_task, in_segments=True)
        yield from _tasks(node, max(first, place.trimmed + 1), last, rows_per_task)


def without(found: Iterable[NodeRange], expired: Mapping[str, Coverage]) -> Iterator[NodeRange]:
    """The tasks without the rows that are nowhere any more."""
    for each in found:
        gone = overlap(expired.get(each.node, ()), ((each.first, each.last),))
        # What is missing from what is gone, up to a row behind the end.
        for first, last in gaps((*gone, (each.last + 1, each.last + 1)), each.first):
            yield replace(each, first=first, last=last)


def settled_ms(last_ms: Sequence[int]) -> int:
    """The time before which no further row will come, given the time of each node's last row.

    A node writes its rows in the order of their times, unless its clock is set back. So what is older than
    the last row of the node that is behind all others is complete. 0 = nothing is known.
    """
    newest_ms = max(last_ms, default=0)
    return min((each for each in last_ms if each >= newest_ms - _GONE_MS), default=0)


def _tasks(
    node: str, first: int, last: int, rows_per_task: int, *, in_segments: bool = False
) -> Iterator[NodeRange]:
    for begin in range(first, last + 1, rows_per_task):
        yield NodeRange(node, begin, min(begin + rows_per_task - 1, last), in_segments)


def parse_starting(text: str, places: Mapping[str, Place], *, segments: bool) -> Offsets:
    """Where a new stream starts: `earliest`, `latest`, or a JSON object of node and seq.

    Raises:
        ArautoError: BAD_FIELD.
    """
    import msgspec

    if text == "earliest":
        return {} if segments else {node: place.trimmed for node, place in places.items()}
    if text == "latest":
        return {node: place.last for node, place in places.items()}
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except msgspec.DecodeError as error:
        raise ArautoError(
            Code.BAD_FIELD,
            f'expected earliest, latest or a JSON object such as {{"node-1": 42}}: {error}',
            field="startingOffsets",
        ) from error


class IdlePace:
    """Decides whether time that passes on a silent journal is worth a batch.

    While something happens, and for a while after, every heartbeat is passed on at once, so that what waits
    for time to pass does not wait longer. Once it has been silent for long, heartbeats are gathered: a
    batch that only says "nothing happened" costs as much as one that says something.

    Args:
        every_s: how often heartbeats are passed on in a long silence; 0 = always at once.
        eager_s: how long after the last row of another kind they still are.
    """

    def __init__(self, every_s: float, eager_s: float = 120.0) -> None:
        self._every_s = every_s
        self._eager_s = eager_s
        self._news_s: float | None = None
        self._passed_s: float | None = None

    def holds_back(self, *, news: bool, now_s: float) -> bool:
        """Whether to wait: there are new rows, and `news` says if any is more than a heartbeat."""
        if news or self._news_s is None:
            self._news_s = now_s
        quiet = now_s - self._news_s >= self._eager_s
        waited = self._passed_s is None or now_s - self._passed_s >= self._every_s
        if self._every_s and quiet and not waited:
            return True
        self._passed_s = now_s
        return False
