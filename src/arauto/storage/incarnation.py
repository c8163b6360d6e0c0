"""The lives of a journal partition. Pure.

A database that was restored goes on from an earlier seq, and gives seqs that were given before to other
rows. Whoever has kept the earlier ones must be able to tell them apart. So a partition that finds itself in
another place than it was left in (a copy, a dump, a promoted standby) begins a new incarnation: its rows from
there on are those of `<node>@<first seq>.<time>` instead of `<node>`. That is what the column `node` of
segments, offsets and the lake says, and node and seq together are a row's key again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "BEGUN",
    "INCARNATIONS",
    "KEEP_INCARNATION",
    "Incarnation",
    "Stretch",
    "first_seq_of",
    "following",
    "node_of",
    "stretches",
]

INCARNATIONS = """
    SELECT first_seq, name, place FROM journal_incarnation WHERE node = $1 ORDER BY first_seq"""
KEEP_INCARNATION = """
    INSERT INTO journal_incarnation (node, first_seq, name, place) VALUES ($1, $2, $3, $4)
    ON CONFLICT (node, first_seq) DO UPDATE SET name = excluded.name, place = excluded.place"""

#: The log line that says so.
BEGUN = "the journal of node %s was restored or moved: another incarnation of it begins at seq %d"


class Incarnation(NamedTuple):
    """One life, as the database keeps it."""

    first_seq: int
    name: str
    """ "" for the first one."""
    place: str
    """What tells where it lives from another place; "" if that is told otherwise."""


class Stretch(NamedTuple):
    """The rows of one life that this database has."""

    partition: str
    first: int
    last: int
    is_over: bool
    """Whether another life followed it. It may then have had more rows, which are not here."""


def following(
    known: Sequence[Incarnation], *, last_seq: int, place: str, moved: bool, now_ms: int
) -> list[Incarnation]:
    """What is to be kept about a partition that is opened; nothing if all is as it was.

    Args:
        known: its incarnations so far, in order.
        last_seq: its newest row.
        place: where it is now.
        moved: whether it was somewhere else before.
        now_ms: the time.
    """
    wanted = [] if known else [Incarnation(1, "", place)]
    if not moved:
        return wanted
    if not last_seq:
        return wanted or [known[-1]._replace(place=place)]
    first = last_seq + 1
    return [*wanted, Incarnation(first, f"{first}.{now_ms:x}", place)]


def stretches(node: str, known: Iterable[Sequence[Any]], last_seq: int) -> list[Stretch]:
    """The lives of a partition up to its newest row, given (first_seq, name, …) of each; the last one may
    have no row yet."""
    begun = [(int(row[0]), str(row[1])) for row in known] or [(1, "")]
    ends = [first - 1 for first, _ in begun[1:]]
    found: list[Stretch] = []
    for (first, name), end in zip(begun, [*ends, last_seq], strict=True):
        partition = f"{node}@{name}" if name else node
        found.append(Stretch(partition, first, end, is_over=len(found) < len(ends)))
    return found


def first_seq_of(partition: str) -> int:
    """The seq with which a partition of this name begins."""
    return int(partition.partition("@")[2].partition(".")[0] or 1)


def node_of(partition: str) -> str:
    """The name of the node whose partition it is."""
    return partition.partition("@")[0]
