"""Rows of the journal that no segment holds yet: the lake cannot have them, however often it looks."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from arauto.errors import ArautoError
from arauto.pipeline.lake.coverage import Coverage, merge
from arauto.pipeline.source.offsets import Place
from arauto.storage import segments

__all__ = ["Waiting", "sealed", "told", "unexported", "waiting"]


class Waiting(msgspec.Struct, frozen=True):
    """A range of one node's rows."""

    node: str
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


def sealed(directory: Path, node: str, refused: Iterable[str] = ()) -> Coverage:
    """What lies in a node's segments, but for those of these names."""
    if not directory.is_dir():
        return ()
    without = set(refused)
    try:
        found = segments.segments(directory, node)
        return merge((s.first, s.last) for s in found if s.path.name not in without)
    except ArautoError:
        return ()  # they overlap: whatever is in them must come from elsewhere


def unexported(place: Place, in_segments: Coverage, last_in_lake: int) -> tuple[int, int] | None:
    """The newest rows of the journal, if the exporter has yet to take them. Pure."""
    exported = max(place.trimmed, last_in_lake, in_segments[-1][1] if in_segments else 0)
    return (exported + 1, place.last) if exported < place.last else None


def waiting(
    places: Mapping[str, Place], directory: Path, lasts_in_lake: Mapping[str, int]
) -> list[Waiting]:
    """What waits for the exporter, by node."""
    found = []
    for node, place in sorted(places.items()):
        rows = unexported(place, sealed(directory, node), lasts_in_lake.get(node, 0))
        if rows is not None:
            found.append(Waiting(node, *rows))
    return found


def told(found: Iterable[Waiting]) -> str:
    """For people."""
    ranges = list(found)
    said = ", ".join(f"{each.node} {each.first:,}-{each.last:,}" for each in ranges)
    count = sum(each.rows for each in ranges)
    return f"{count:,} row{'s'[: count != 1]} in the journal that no segment holds yet ({said})"
