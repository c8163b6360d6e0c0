"""Is everything of the journal in the lake, once?

Compares what commits say with what is on disk and what the journal holds.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from pyspark.sql import functions as F

from arauto.errors import ArautoError
from arauto.pipeline.archive.differing import differing_rows
from arauto.pipeline.archive.follow import untaken
from arauto.pipeline.archive.offers import Offers, Refusal
from arauto.pipeline.lake.coverage import Coverage, count, gaps, merge
from arauto.pipeline.lake.manifest import FileEntry
from arauto.pipeline.lake.retention import removed_rows
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.schemas import TABLES
from arauto.pipeline.source.journal import Journal
from arauto.pipeline.source.offsets import Place
from arauto.pipeline.unexported import sealed as sealed_in
from arauto.pipeline.unexported import unexported
from arauto.storage.incarnation import first_seq_of

__all__ = ["LakeReport", "NodeReport", "TableReport", "check_lake", "journal_places", "node_report"]


class _Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class NodeReport(_Report, frozen=True):
    """One partition of the journal."""

    node: str
    rows: int
    """Rows in bronze."""
    rows_expected: int
    """Rows that were taken in, less those removed for their age."""
    rows_twice: int
    rows_differing: int
    """Rows that a segment holds with other contents than the lake; 0 also where that was not looked at."""
    rows_removed: int
    first: int
    last: int
    missing: Coverage
    """Ranges of seq that are not in the lake and should be."""
    is_over: bool
    """Whether the node was restored since, and goes on under another name (`<node>@…`)."""
    journal_last: int | None
    """The journal's newest seq; None = it could not be asked."""
    lag: int | None
    """Rows of the journal that are still to come."""
    unexported: tuple[int, int] | None
    """Of these, the range of seq that no segment holds yet: they wait for the node's exporter."""


class TableReport(_Report, frozen=True):
    """One table's files."""

    table: str
    files: int
    rows: int
    size_bytes: int
    lost: list[str]
    """Files that commits name and that are not there, or have another size."""
    orphans: int
    """Files that no commit names: of a crash, of a batch in progress, or merged and soon to be deleted."""
    orphans_bytes: int


class LakeReport(_Report, frozen=True):
    """All of it."""

    nodes: list[NodeReport]
    tables: list[TableReport]
    duplicates: int
    """Rows that came twice and were left out."""
    untaken: int
    """Bronze files that some derived table has yet to read."""
    quarantine: dict[str, int]
    """Reason → rows."""
    refused: list[str]
    """Segments that are offered, are damaged, and are not in the lake."""
    problems: list[str]
    """What is missing or wrong; empty = all is well."""


def check_lake(
    lake: Lake,
    segments_dir: Path,
    ask: Callable[[], Mapping[str, Place] | None],
    *,
    quick: bool = False,
) -> LakeReport:
    """Check a lake.

    Args:
        lake: the lake.
        segments_dir: where the nodes' segments lie.
        ask: says what the journal holds (`journal_places`); None = unknown. Asked after the lake was
            looked at, which can then not be ahead.
        quick: believe the commits, and do not count the rows of the journal one by one.

    Raises:
        ArautoError: LAKE_CORRUPT, the commits themselves cannot be read.
    """
    tables = [_table_report(lake.table(name)) for name in TABLES]
    bronze = lake.table("journal")
    state = bronze.state()
    refused = Offers(segments_dir).all_refused(state.coverage)
    places = ask()
    counted = {} if quick else _counted(bronze)
    differing = {} if quick else differing_rows(bronze, _whole_files(bronze), segments_dir)
    nodes = []
    for node in sorted({*state.coverage, *(places or {})}):
        seen = state.coverage.get(node, ())
        removed = removed_rows(state.notes, node)
        expected = count(seen) - removed
        nodes.append(
            node_report(
                node,
                seen,
                removed=removed,
                found=(expected, 0) if quick else counted.get(node, (0, 0)),
                differing=differing.get(node, 0),
                sealed=sealed_in(segments_dir, node, (each.name for each in refused)),
                place=places.get(node) if places else None,
            )
        )
    return LakeReport(
        nodes=nodes,
        tables=tables,
        duplicates=state.notes.get("duplicates", 0),
        untaken=len(untaken(lake)),
        quarantine=_reasons(lake.table("quarantine")),
        refused=[each.name for each in refused],
        problems=[
            *_node_problems(nodes),
            *_segment_problems(refused),
            *_table_problems(tables),
        ],
    )


def node_report(
    node: str,
    seen: Coverage,
    *,
    removed: int,
    found: tuple[int, int],
    differing: int = 0,
    sealed: Coverage,
    place: Place | None,
) -> NodeReport:
    """What is to be said about a node. Pure.

    Args:
        node: its name.
        seen: what was taken in.
        removed: rows removed for their age since.
        found: (rows in bronze, how many of them are there twice).
        differing: rows that differ from those of the same place in segments.
        sealed: what lies in segments.
        place: what the journal holds.
    """
    begin = first_seq_of(node)
    missing = list(gaps(seen, begin))
    last = seen[-1][1] if seen else begin - 1
    if place is not None:
        # What is newer than the lake may still come, if it is anywhere.
        there = (place.trimmed + 1, max(place.last, place.trimmed + 1))
        still = merge([*(((begin, last),) if seen else ()), *sealed, there])
        missing += [each for each in gaps(still, begin) if last < each[0] <= place.last]
    return NodeReport(
        node=node,
        rows=found[0],
        rows_expected=count(seen) - removed,
        rows_twice=found[1],
        rows_differing=differing,
        rows_removed=removed,
        first=seen[0][0] if seen else 0,
        last=last,
        missing=merge(missing),
        is_over=place is not None and place.is_over,
        journal_last=None if place is None else place.last,
        lag=None if place is None else max(0, place.last - last),
        unexported=None if place is None else unexported(place, sealed, last),
    )


def journal_places(url: str) -> dict[str, Place] | None:
    """What the journal holds, by node; None if it cannot be asked."""
    try:
        journal = Journal(url, None, frozenset())
    except ArautoError:
        return None
    try:
        return journal.places()
    except ArautoError:
        return None
    finally:
        journal.close()


def _counted(bronze: Table) -> dict[str, tuple[int, int]]:
    """node → (rows, how many of them are there twice), of the files that can be read."""
    counted = (
        bronze.read_files(_whole_files(bronze))
        .groupBy("node")
        .agg(F.count("*").alias("rows"), F.countDistinct("seq").alias("places"))
        .collect()
    )
    return {row.node: (row.rows, row.rows - row.places) for row in counted}


def _reasons(quarantine: Table) -> dict[str, int]:
    files = _whole_files(quarantine)
    if not files:
        return {}
    rows = quarantine.read_files(files).groupBy("reason").count().orderBy("reason").collect()
    return {row.reason: row["count"] for row in rows}


def _table_report(table: Table) -> TableReport:
    state = table.state()
    lost = sorted(f.path for f in state.files.values() if not _is_whole(table, f))
    orphans = [
        _size_bytes(path)
        for path in (table.directory / "data").rglob("*.parquet")
        if path.relative_to(table.directory).as_posix() not in state.files
    ]
    return TableReport(
        table=table.schema.name,
        files=len(state.files),
        rows=state.rows,
        size_bytes=state.size_bytes,
        lost=lost,
        orphans=len(orphans),
        orphans_bytes=sum(orphans),
    )


def _whole_files(table: Table) -> list[FileEntry]:
    """A table's files that are there as they were committed."""
    return [file for file in table.state().files.values() if _is_whole(table, file)]


def _is_whole(table: Table, file: FileEntry) -> bool:
    return _size_bytes(table.directory / file.path) == file.size_bytes


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _node_problems(nodes: list[NodeReport]) -> list[str]:
    problems = []
    for node in nodes:
        if node.missing:
            problems.append(
                f"node {node.node}: {count(node.missing):,} rows are missing: {_told(node.missing)}"
            )
        if node.rows != node.rows_expected:
            problems.append(
                f"node {node.node}: {node.rows:,} rows are there, and {node.rows_expected:,} should be"
            )
        if node.rows_differing:
            problems.append(
                f"node {node.node}: {node.rows_differing:,} rows are other ones in the segments than in the "
                "lake: a restored database has given their seqs again"
            )
        if node.rows_twice:
            problems.append(f"node {node.node}: {node.rows_twice:,} rows are there twice")
        if not node.is_over and node.journal_last is not None and node.last > node.journal_last:
            problems.append(
                f"node {node.node}: the lake reaches seq {node.last:,} and the journal only "
                f"{node.journal_last:,}: they do not belong together"
            )
    return problems


def _segment_problems(refused: list[Refusal]) -> list[str]:
    return [f"segment {each.name} is not in the lake: {each.reason}" for each in refused]


def _table_problems(tables: list[TableReport]) -> list[str]:
    return [
        f"table {table.table}: {len(table.lost)} files are gone or damaged: "
        + ", ".join(table.lost[:3])
        + (" …" if len(table.lost) > 3 else "")
        for table in tables
        if table.lost
    ]


def _told(ranges: Coverage, most: int = 5) -> str:
    said = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:most]]
    if len(ranges) > most:
        said.append(f"and {len(ranges) - most} more ranges")
    return ", ".join(said)
