"""Segments that are offered and not yet in the lake: which there are, and whether each is whole.

What is in the lake already is known by the seqs the lake covers, not by a list of names: there is nothing
that grows, a good copy in a damaged one's place is simply taken, and a lake that is moved just goes on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from arauto.errors import Code, StorageError
from arauto.pipeline.lake.coverage import Coverage, overlap
from arauto.storage import segments

__all__ = ["Offer", "Offers", "Refusal", "inspect"]

_BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Offer:
    """A whole segment with rows the lake lacks."""

    path: Path
    node: str
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that is offered and cannot be taken as it is."""

    name: str
    reason: str


#: What tells a file from another one of the same name: size and time of its last change.
_Stamp = tuple[int, int]


class Offers:
    """The segments of one directory. Looks into a file once, unless it changes.

    What it remembers is limited to files that are there and whose names do not say that the lake has them.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, tuple[_Stamp, Offer | Refusal]] = {}

    def fresh(
        self, coverage: Mapping[str, Coverage], files_max: int
    ) -> tuple[list[Offer], list[Refusal]]:
        """(whole segments with rows that are not covered, in order; files refused since the last call).

        Args:
            coverage: what the lake has, by node.
            files_max: how many segments at most; the rest is for the next call.
        """
        found: list[Offer] = []
        refused: list[Refusal] = []
        present = {}
        for path in _uncovered(self._directory, coverage):
            known = self._seen.get(path.name)
            stamp = _stamp(path)
            if stamp is None:
                continue  # moved away since it was listed
            if known is None or known[0] != stamp:
                if len(found) >= files_max:
                    continue
                known = (stamp, inspect(path))
                if isinstance(known[1], Refusal):
                    refused.append(known[1])
            present[path.name] = known
            offer = known[1]
            if isinstance(offer, Offer) and not _is_covered(offer, coverage):
                found.append(offer)
        self._seen = present
        return sorted(found, key=_place)[:files_max], refused

    def all_refused(self, coverage: Mapping[str, Coverage]) -> list[Refusal]:
        """Every file there is whose rows the lake lacks and cannot take."""
        looked = (inspect(path) for path in _uncovered(self._directory, coverage))
        return [each for each in looked if isinstance(each, Refusal)]


def inspect(path: Path) -> Offer | Refusal:
    """Look whether a file is whole: by its checksum or, if it is older than those, by reading all of it."""
    try:
        return _inspect(path)
    except StorageError as error:
        return Refusal(path.name, error.message)
    except (OSError, pyarrow.ArrowException) as error:
        return Refusal(path.name, " ".join(str(error).split())[:200] or type(error).__name__)


def _inspect(path: Path) -> Offer:
    named = segments.named(path)
    if named is not None:
        segments.check_whole(named)
    with pyarrow.parquet.ParquetFile(path) as file:
        seqs = [(int(low), int(high)) for low, high in _ranges(file.metadata, "seq")]
        nodes = {str(value) for pair in _ranges(file.metadata, "node") for value in pair}
        rows = file.metadata.num_rows
        if len(nodes) != 1 or not seqs:
            raise StorageError(Code.STORAGE_CORRUPT, "it does not hold the rows of one node")
        offer = Offer(path, nodes.pop(), min(low for low, _ in seqs), max(high for _, high in seqs))
        if offer.rows != rows:
            raise StorageError(
                Code.STORAGE_CORRUPT,
                f"it holds {rows:,} rows where {offer.first:,} to {offer.last:,} should be",
            )
        if named is None or not named.checksum:
            for _ in file.iter_batches(batch_size=_BATCH_ROWS):
                pass
    return offer


def _ranges(footer: Any, column: str) -> Iterator[tuple[Any, Any]]:
    """(smallest, largest) value of a column in each row group."""
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index in range(group.num_columns):
            chunk = group.column(index)
            if chunk.path_in_schema == column:
                statistics = chunk.statistics
                if statistics is None or not statistics.has_min_max:
                    raise StorageError(
                        Code.STORAGE_CORRUPT, f"it does not say which {column} it has"
                    )
                yield statistics.min, statistics.max


def _uncovered(directory: Path, coverage: Mapping[str, Coverage]) -> Iterable[Path]:
    """Files that may hold rows the lake lacks, as far as their names say."""
    for path in sorted(directory.glob("seg-*.parquet")):
        segment = segments.named(path)
        if segment is None or not _covers(coverage, segment.node, segment.first, segment.last):
            yield path


def _is_covered(offer: Offer, coverage: Mapping[str, Coverage]) -> bool:
    return _covers(coverage, offer.node, offer.first, offer.last)


def _covers(coverage: Mapping[str, Coverage], node: str, first: int, last: int) -> bool:
    whole = (first, last)
    return overlap((whole,), coverage.get(node, ())) == (whole,)


def _place(offer: Offer) -> tuple[str, int]:
    return offer.node, offer.first


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
