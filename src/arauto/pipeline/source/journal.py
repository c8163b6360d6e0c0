"""Reads ranges of a journal as Arrow batches: from the database, or from segments for what has left it."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage, gaps, merge, overlap
from arauto.pipeline.source.offsets import NodeRange, Offsets, Place, settled_ms
from arauto.storage import segments
from arauto.storage.arrow_rows import SCHEMA, columns_of
from arauto.storage.base import Kind
from arauto.storage.export_source import JournalSource, open_source
from arauto.storage.incarnation import INCARNATIONS, first_seq_of, node_of, stretches
from arauto.storage.sql.rows import SELECT_ROWS, entry_of

__all__ = ["SPARK_SCHEMA", "Journal", "RuleChange"]

_BATCH_ROWS = 1_024
#: So many bytes of rows are read at a time, about; the first few tell how large rows are.
_BATCH_BYTES = 4_194_304
_FIRST_ROWS = 64
_PLACES = """
    SELECT node, name, trimmed_seq, coalesce((SELECT max(seq) FROM journal j WHERE j.node = p.node), 0)
    FROM journal_partition p ORDER BY name"""
_TRIMMED = "SELECT node, trimmed_seq FROM journal_partition WHERE name = $1"
_NEWS = """
    SELECT count(*) FROM (SELECT 1 FROM journal j JOIN journal_partition p ON p.node = j.node
    WHERE p.name = $1 AND j.seq > $2 AND j.kind <> $3 LIMIT 1) news"""
_OF_KIND = _NEWS.replace("<>", "=")
_TIME = """
    SELECT j.ts_ms FROM journal j JOIN journal_partition p ON p.node = j.node
    WHERE p.name = $1 AND j.seq = $2"""
_AUDIT = """
    SELECT j.seq, j.ts_ms, j.hub, j.payload FROM journal j JOIN journal_partition p ON p.node = j.node
    WHERE p.name = $1 AND j.seq > $2 AND j.seq <= $3 AND j.kind = $4 ORDER BY j.seq"""
_PAGE = f"{SELECT_ROWS} WHERE node = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"

_SET, _DELETED = "correlation.set", "correlation.delete"


class _Audited(msgspec.Struct):
    """What the node writes of a change by an administrator or a client."""

    operation: str = ""
    target: str = ""
    outcome: str = ""


#: Spark's timestamps are microseconds.
SPARK_SCHEMA = pyarrow.schema(
    [
        (field.name, pyarrow.timestamp("us", tz="UTC") if field.name == "ts" else field.type)
        for field in SCHEMA
    ]
)


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A correlation rule was set or deleted: where in the journal that stands."""

    hub: str
    rule: str
    is_set: bool
    node: str
    seq: int
    ts_ms: int


class Journal:
    """All partitions of one database. Opened where it is used: connections do not travel.

    Args:
        url: the storage URL of the database.
        segments_dir: where exported segments lie; None = there are none.
        kinds: only rows of these kinds; empty = all.
    """

    def __init__(self, url: str, segments_dir: Path | None, kinds: frozenset[int]) -> None:
        self._source: JournalSource = open_source(url)
        self._segments_dir = segments_dir
        self._kinds = kinds

    def places(self) -> dict[str, Place]:
        """What each node's partition holds now, by incarnation."""
        found = {}
        for number, name, trimmed, last in self._source.fetch(_PLACES):
            lives = self._source.fetch(INCARNATIONS, number)
            for stretch in stretches(name, lives, max(trimmed, last)):
                gone = min(max(trimmed, stretch.first - 1), stretch.last)
                found[stretch.partition] = Place(gone, stretch.last, stretch.is_over)
        return found

    def has_news(self, start: Offsets) -> bool:
        """Whether there is a row of the wanted kinds after these offsets that is more than a heartbeat."""
        beat = int(Kind.HEARTBEAT)
        for partition, place in self.places().items():
            after = start.get(partition, first_seq_of(partition) - 1)
            if place.is_over and after >= place.last:
                continue  # what follows is another's
            node = node_of(partition)
            if self._kinds:
                for kind in self._kinds - {beat}:
                    if self._source.fetch(_OF_KIND, node, after, kind)[0][0]:
                        return True
            elif self._source.fetch(_NEWS, node, after, beat)[0][0]:
                return True
        return False

    def settled_ms(self, end: Offsets) -> int:
        """All rows older than this are within the offsets; see `offsets.settled_ms`.

        The same for the same offsets, also once the rows are in segments: a batch that is done again must
        decide what it decided before.
        """
        places = self.places()
        return settled_ms([self._time_ms(node, seq, places) for node, seq in end.items()])

    def _time_ms(self, node: str, seq: int, places: Mapping[str, Place]) -> int:
        """The time of a row; 0 if it is nowhere any more, or in what is damaged."""
        is_here = node in places and seq <= places[node].last
        rows = self._source.fetch(_TIME, node_of(node), seq) if is_here else []
        if rows:
            time_ms: int = rows[0][0]
            return time_ms
        if self._segments_dir is None:
            return 0
        try:
            return _sealed_time_ms(self._segments_dir, node, seq)
        except (LookupError, FileNotFoundError, pyarrow.ArrowInvalid):
            return 0
        except ArautoError as error:
            # Who reads the rows of a damaged segment is told; a time of it is nothing to stop for.
            if error.code is not Code.STORAGE_CORRUPT:
                raise
            return 0

    def rule_changes(self, node: str, after: int, upto: int) -> list[RuleChange]:
        """The changes of correlation rules among a node's rows, in order.

        Raises:
            ArautoError: STORAGE_CORRUPT, a segment is damaged; STORAGE_UNAVAILABLE.
            FileNotFoundError: a segment has just expired.
        """
        found = self._source.fetch(_AUDIT, node_of(node), after, upto, int(Kind.AUDIT))
        # Asked after the rows were read: what has left since was there.
        gone = self._trimmed(node)[1]
        if after < gone and self._segments_dir is not None:
            here = {row[0] for row in found}
            sealed = _audited(self._segments_dir, node, after, min(upto, gone))
            found = [*(row for row in sealed if row[0] not in here), *found]
        return [
            change
            for row in sorted(found, key=itemgetter(0))
            if (change := _change(node, *row)) is not None
        ]

    def time_ms(self, node: str, seq: int) -> int:
        """The time of a row; 0 if it is nowhere any more, or in what is damaged."""
        return self._time_ms(node, seq, self.places())

    def expired(self, start: Offsets, seen: Mapping[str, Coverage]) -> dict[str, Coverage]:
        """Rows after these offsets that have gone as retention has it, and are nowhere to be read any more.

        They have left the database, and lie in no segment although later ones of the node are there.

        Args:
            start: exclusive.
            seen: what the lake holds. Nothing else was to go: it may only not be there just now.
        """
        found = {}
        for node, place in self.places().items():
            after = start.get(node, first_seq_of(node) - 1)
            if after >= place.trimmed or self._segments_dir is None:
                continue
            sealed = segments.segments(self._segments_dir, node)
            missing = gaps(merge((each.first, each.last) for each in sealed), after + 1)
            gone = overlap(overlap(missing, ((after + 1, place.trimmed),)), seen.get(node, ()))
            if gone:
                found[node] = gone
        return found

    def read(self, wanted: NodeRange) -> Iterator[Any]:
        """Record batches of a range, in order.

        Raises:
            ArautoError: OFFSET_TRIMMED, STORAGE_CORRUPT, STORAGE_UNAVAILABLE.
        """
        if wanted.in_segments:
            yield from self._read_segments(wanted)
            return
        after, rows = wanted.first - 1, _FIRST_ROWS
        while after < wanted.last:
            end = min(after + rows, wanted.last)
            batch = self._page(wanted.node, after, end)
            if batch is None:
                # Exported and trimmed since the tasks were made; what follows may still be here.
                end = min(self._trimmed(wanted.node)[1], wanted.last)
                yield from self._read_segments(NodeRange(wanted.node, after + 1, end))
            elif batch.num_rows:
                rows = _rows_at_once(batch.nbytes // batch.num_rows)
                yield from _pieces(batch, rows)
            else:
                rows = min(2 * rows, _BATCH_ROWS)
            after = end

    def close(self) -> None:
        self._source.close()

    def _page(self, node: str, after: int, end: int) -> Any | None:
        """The rows after one up to another; None if some of them have left the database."""
        number = self._trimmed(node)[0]
        rows = self._source.fetch(_PAGE, number, after, end, _BATCH_ROWS)
        # Asked after the rows were read: if they are all there now, they all were then.
        if self._trimmed(node)[1] > after:
            return None
        found = [(row[1], entry_of(row)) for row in rows]
        if len(found) != end - after:
            raise ArautoError(
                Code.STORAGE_CORRUPT,
                f"the journal of node {node} lacks rows between {after + 1} and {end}",
            )
        if self._kinds:
            found = [pair for pair in found if pair[1].kind in self._kinds]
        arrays = [
            pyarrow.array(column, type=field.type)
            for column, field in zip(columns_of(node, found), SCHEMA, strict=True)
        ]
        return _for_spark(pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def _trimmed(self, node: str) -> tuple[int, int]:
        rows = self._source.fetch(_TRIMMED, node_of(node))
        if not rows:
            raise ArautoError(Code.STORAGE_CORRUPT, f"there is no journal partition {node!r}")
        return rows[0][0], rows[0][1]

    def _read_segments(self, wanted: NodeRange) -> Iterator[Any]:
        if self._segments_dir is None:
            raise ArautoError(
                Code.OFFSET_TRIMMED,
                f"rows {wanted.first} to {wanted.last} of node {wanted.node} have left the journal",
            )
        expected = wanted.first
        for segment in segments.segments(self._segments_dir, wanted.node):
            if segment.last < expected or segment.first > wanted.last:
                continue
            if segment.first > expected:
                break
            _check_whole(segment, segment.path.stat().st_mtime_ns)
            yield from self._segment_batches(segment.path, expected, wanted.last)
            expected = segment.last + 1
        if expected <= wanted.last:
            raise ArautoError(
                Code.OFFSET_TRIMMED,
                f"rows {expected} to {wanted.last} of node {wanted.node} are neither in the journal nor "
                "in the segments",
            )

    def _segment_batches(self, path: Path, first: int, last: int) -> Iterator[Any]:
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        with pyarrow.parquet.ParquetFile(path) as file:
            about = file.metadata
            sizes = [about.row_group(n).total_byte_size for n in range(about.num_row_groups)]
            rows = _rows_at_once(sum(sizes) // max(1, about.num_rows))
            for batch in file.iter_batches(batch_size=rows):
                chosen = pc.and_(
                    pc.greater_equal(batch["seq"], first), pc.less_equal(batch["seq"], last)
                )
                if self._kinds:
                    kinds = pyarrow.array(sorted(self._kinds), type=pyarrow.int32())
                    chosen = pc.and_(chosen, pc.is_in(batch["kind"], value_set=kinds))
                kept = batch.filter(chosen)
                if kept.num_rows:
                    yield _for_spark(kept)


def _change(node: str, seq: int, ts_ms: int, hub: str, payload: bytes) -> RuleChange | None:
    try:
        row = msgspec.json.decode(payload, type=_Audited)
    except msgspec.DecodeError:
        return None
    if row.outcome != "ok" or row.operation not in (_SET, _DELETED):
        return None
    return RuleChange(hub, row.target, row.operation == _SET, node, seq, ts_ms)


def _audited(directory: Path, node: str, after: int, upto: int) -> Iterator[tuple[Any, ...]]:
    """(seq, time, hub, payload) of what was changed, among rows that lie in segments."""
    for segment in segments.segments(directory, node):
        if segment.last > after and segment.first <= upto:
            _check_whole(segment, segment.path.stat().st_mtime_ns)
            try:
                table = pyarrow.parquet.read_table(
                    segment.path,
                    columns=["seq", "ts", "hub", "payload"],
                    filters=[
                        ("kind", "=", int(Kind.AUDIT)),
                        ("seq", ">", after),
                        ("seq", "<=", upto),
                    ],
                )
            except pyarrow.ArrowInvalid as error:
                # Of an earlier version, without a checksum.
                raise ArautoError(Code.STORAGE_CORRUPT, f"{segment.path}: {error}") from error
            times = table["ts"].cast(pyarrow.timestamp("ms", tz="UTC")).cast(pyarrow.int64())
            columns = (table["seq"], times, table["hub"], table["payload"])
            yield from zip(*(column.to_pylist() for column in columns), strict=True)


def _pieces(batch: Any, rows: int) -> Iterator[Any]:
    """Java has to hold each piece as a whole, once per task."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _rows_at_once(row_bytes: int) -> int:
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))


@functools.lru_cache(maxsize=64)
def _check_whole(segment: segments.Segment, changed_ns: int) -> None:
    """`segments.check_whole`, once for all tasks of a process that read this file as it is now."""
    segments.check_whole(segment)


@functools.lru_cache(maxsize=256)
def _sealed_time_ms(directory: Path, node: str, seq: int) -> int:
    """The time of a row that lies in a segment.

    Kept, since each batch asks about the same last rows of nodes that are gone, and the list of all segments
    grows for as long as they are retained.

    Raises:
        LookupError: it lies in none (now).
    """
    for segment in segments.segments(directory, node):
        if segment.first <= seq <= segment.last:
            table = pyarrow.parquet.read_table(
                segment.path, columns=["ts"], filters=[("seq", "=", seq)]
            )
            times = table["ts"].cast(pyarrow.timestamp("ms", tz="UTC")).cast(pyarrow.int64())
            if len(times):
                return int(times[0].as_py())
    raise LookupError(f"{node} {seq}")


def _for_spark(batch: Any) -> Any:
    """The same rows with Spark's types; columns that an old segment lacks are null."""
    arrays = []
    for field in SPARK_SCHEMA:
        if field.name in batch.schema.names:
            arrays.append(batch[field.name].cast(field.type))
        else:
            arrays.append(pyarrow.nulls(batch.num_rows, field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=SPARK_SCHEMA)
