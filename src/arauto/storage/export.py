"""Rolls committed journal rows into Parquet segments. A program of its own:

    python -m arauto.storage.export --node NAME --out DIRECTORY [--url URL]

so that pyarrow's memory is taken for the moment it is needed, and never inside of the node. It only reads
the database. The URL may hold a password, so it is better passed in the variable ARAUTO_EXPORT_URL.

Where to go on is read off the names of the sealed segments, so a run that dies at any point is simply
followed by another. One line of JSON on standard output says what was done.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from arauto.errors import Code, StorageError
from arauto.storage import segments
from arauto.storage.arrow_rows import SCHEMA, Rows, columns_of
from arauto.storage.export_source import Partition, open_source
from arauto.storage.incarnation import node_of
from arauto.storage.segment_schema import METADATA_NODE, METADATA_VERSION, VERSION
from arauto.storage.segments import ExportReport
from arauto.storage.sql.rows import entry_of

__all__ = ["export", "main"]

_PAGE_ROWS = 4_096
_URL_VARIABLE = "ARAUTO_EXPORT_URL"


def export(url: str, node: str, directory: Path, rows_max: int, bytes_max: int) -> ExportReport:
    """Seal everything committed so far. Of two runs at once, the second is refused.

    Args:
        rows_max: rows in one segment, at most.
        bytes_max: payload bytes in one segment; the row that passes it is the segment's last.

    Raises:
        StorageError: the journal is damaged or does not go with the segments.
    """
    segments.check_node_name(node)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with segments.lock(directory, node):
        segments.remove_leftovers(directory, node)
        source = open_source(url)
        try:
            partition = Partition(source, node)
            # What was trimmed was exported, even if its segments have been moved elsewhere since.
            start = max(_sealed(partition, directory), partition.trimmed)
            return _export(partition, directory, start, rows_max, bytes_max)
        finally:
            source.close()


def _sealed(partition: Partition, directory: Path) -> int:
    """Up to where segments hold what the journal holds."""
    sealed = 0
    for stretch in partition.stretches:
        last = max((s.last for s in segments.segments(directory, stretch.partition)), default=0)
        if last > stretch.last and not stretch.is_over:
            raise StorageError(
                Code.STORAGE_CORRUPT,
                f"segments reach seq {last} but the journal ends at {stretch.last}: "
                "they do not belong together",
            )
        # A life that is over may have gone on elsewhere, with rows that are not in this journal.
        sealed = max(sealed, min(last, stretch.last))
    return sealed


def _export(
    partition: Partition, directory: Path, start: int, rows_max: int, bytes_max: int
) -> ExportReport:
    sealed, count, total = start, 0, 0
    for stretch in partition.stretches:
        writer: _SegmentWriter | None = None
        for rows in _pages(partition, max(start, stretch.first - 1), stretch.last):
            rest = rows
            while rest:
                if writer is None:
                    writer = _SegmentWriter(directory, stretch.partition, rest[0][0])
                taken = writer.take(rest, rows_max, bytes_max)
                rest = rest[taken:]
                total += taken
                if writer.is_full(rows_max, bytes_max):
                    sealed, count, writer = writer.seal(), count + 1, None
        if writer is not None:
            sealed, count = writer.seal(), count + 1
    return ExportReport(sealed_seq=sealed, segments=count, rows=total)


def _pages(partition: Partition, start: int, last: int) -> Iterator[Rows]:
    """Yield the rows after `start` up to `last` in pages, each checked to follow the one before."""
    expected = start + 1
    while expected <= last:
        rows = [(row[1], entry_of(row)) for row in partition.page(expected - 1, last, _PAGE_ROWS)]
        for seq, _ in rows:
            if seq != expected:
                raise StorageError(Code.STORAGE_CORRUPT, f"the journal lacks seq {expected}")
            expected += 1
        if not rows:
            raise StorageError(Code.STORAGE_CORRUPT, f"the journal lacks seq {expected}")
        yield rows


class _SegmentWriter:
    """A segment that grows."""

    def __init__(self, directory: Path, partition: str, first: int) -> None:
        self._path = segments.writing_path(directory, node_of(partition))
        self._partition = partition
        self._first = first
        self._last = first - 1
        self._payload_bytes = 0
        metadata = {METADATA_VERSION: str(VERSION), METADATA_NODE: partition}
        self._schema = SCHEMA.with_metadata(metadata)
        self._writer = pyarrow.parquet.ParquetWriter(self._path, self._schema, compression="zstd")

    def is_full(self, rows_max: int, bytes_max: int) -> bool:
        return self._last - self._first + 1 >= rows_max or self._payload_bytes >= bytes_max

    def take(self, rows: Rows, rows_max: int, bytes_max: int) -> int:
        """Write rows until the segment is full; return how many it took."""
        taken: Rows = []
        for row in rows:
            if self.is_full(rows_max, bytes_max):
                break
            taken.append(row)
            self._last = row[0]
            self._payload_bytes += len(row[1].payload)
        self._writer.write_table(
            pyarrow.table(columns_of(self._partition, taken), schema=self._schema)
        )
        return len(taken)

    def seal(self) -> int:
        """Finish the file; return its last seq."""
        self._writer.close()
        return segments.seal(self._path, self._partition, self._first, self._last).last


def main(arguments: list[str] | None = None) -> int:
    """Run once and report. Exit code 0 = done, 1 = failed with the reason on standard error."""
    parser = argparse.ArgumentParser(
        prog="arauto.storage.export", description="Export the journal."
    )
    parser.add_argument("--url", default=os.environ.get(_URL_VARIABLE, ""))
    parser.add_argument("--node", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows-max", type=int, default=100_000)
    parser.add_argument("--bytes-max", type=int, default=64 * 1024 * 1024)
    options = parser.parse_args(arguments)
    os.nice(10)  # the node's work goes first
    try:
        report = export(options.url, options.node, options.out, options.rows_max, options.bytes_max)
    except Exception as exc:
        sys.stderr.write(f"export failed: {exc}\n")
        return 1
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
