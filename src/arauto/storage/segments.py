"""Segment files: what they are called, which there are, and how one becomes visible all at once.

`seg-<node>-<first>-<last>.<sum>.parquet` holds the rows `first` to `last` of a node's partition (of a later
incarnation: `<node>@…`, see `incarnation.py`). A file has this name only when it is complete and on disk;
until then its name starts with a dot, which readers skip. `sum` is a checksum of the whole file, so that a
damaged one is known as such; it goes wherever the file goes. Segments of earlier versions have none in their
names.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from arauto.errors import Code, StorageError
from arauto.storage.filelock import only_one

__all__ = [
    "ExportReport",
    "Segment",
    "check_node_name",
    "check_whole",
    "lock",
    "named",
    "remove_leftovers",
    "seal",
    "segments",
    "writing_path",
]

_NAME = re.compile(
    r"seg-(?P<node>.+)-(?P<first>\d+)-(?P<last>\d+)(\.(?P<sum>[0-9a-f]{16}))?\.parquet\Z"
)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of the exporter did; it prints this as JSON."""

    sealed_seq: int
    """Everything up to here lies in segments."""
    segments: int
    rows: int


class Segment(NamedTuple):
    """A sealed file."""

    first: int
    last: int
    path: Path
    node: str
    checksum: str
    """Of the whole file, in hexadecimal; "" = its name does not say."""


def check_node_name(node: str) -> str:
    """Return the name if it can be part of a file's name.

    Raises:
        StorageError: STORAGE_FAILED.
    """
    if not _NODE.match(node):
        raise StorageError(
            Code.STORAGE_FAILED,
            "a node name is 1-64 of A-Z a-z 0-9 . _ - and starts with a letter or digit",
            field="node",
        )
    return node


@contextmanager
def lock(directory: Path, node: str) -> Iterator[None]:
    """Be the only exporter of this node's partition into this directory.

    Raises:
        StorageError: STORAGE_UNAVAILABLE, another one is at work.
    """
    busy = StorageError(Code.STORAGE_UNAVAILABLE, "another exporter works on this partition")
    with only_one(directory / f".lock-{node}", busy):
        yield


def segments(directory: Path, node: str) -> list[Segment]:
    """Return the node's sealed segments in order.

    Raises:
        StorageError: STORAGE_CORRUPT, two of them overlap.
    """
    known = (named(path) for path in directory.iterdir())
    found = sorted(segment for segment in known if segment and segment.node == node)
    for one, next_one in pairwise(found):
        if next_one.first <= one.last:
            raise StorageError(
                Code.STORAGE_CORRUPT, f"segments overlap: {one.path.name}, {next_one.path.name}"
            )
    return found


def named(path: Path) -> Segment | None:
    """What a file's name says of it; None = it is not a segment's."""
    match = _NAME.match(path.name)
    if match is None:
        return None
    checksum = match["sum"] or ""
    return Segment(int(match["first"]), int(match["last"]), path, match["node"], checksum)


def check_whole(segment: Segment) -> None:
    """Compare a file with the checksum in its name, if there is one.

    Raises:
        StorageError: STORAGE_CORRUPT, it is not what was written.
        OSError: it cannot be read.
    """
    if segment.checksum and _checksum(segment.path) != segment.checksum:
        raise StorageError(
            Code.STORAGE_CORRUPT, f"{segment.path.name} does not match the checksum in its name"
        )


def writing_path(directory: Path, node: str) -> Path:
    """Return where a segment grows until it is sealed."""
    return directory / f".writing-{node}.parquet"


def remove_leftovers(directory: Path, node: str) -> None:
    """Remove what an exporter that died left behind. Call it with the lock held."""
    writing_path(directory, node).unlink(missing_ok=True)


def seal(written: Path, partition: str, first: int, last: int) -> Segment:
    """Make the written file durable and visible, in this order."""
    directory = written.parent
    _sync(written)
    checksum = _checksum(written)
    # Numbers of one width, so that names sort as numbers do.
    sealed = directory / f"seg-{partition}-{first:019d}-{last:019d}.{checksum}.parquet"
    written.rename(sealed)
    _sync(directory)
    return Segment(first, last, sealed, partition, checksum)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
