"""The data source `arauto` for any Spark program: reads the journal, publishes rows.

    from arauto.pipeline.source.datasource import ArautoDataSource
    spark.dataSource.register(ArautoDataSource)
    spark.readStream.format("arauto").option("url", "sqlite:////data/arauto.db").load()

Spark copies readers to its workers, so they hold options only and connect where they read.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow  # type: ignore[import-untyped]
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StructType

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.schemas import JOURNAL
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.sink.writer import ArrowBatchWriter, ArrowStreamWriter
from arauto.pipeline.source.gate import before_unknown, read_gate
from arauto.pipeline.source.journal import Journal
from arauto.pipeline.source.offsets import (
    IdlePace,
    NodeRange,
    Offsets,
    latest,
    parse_starting,
    ranges,
    without,
)

__all__ = ["SETTLED", "WITH_SETTLED", "ArautoDataSource", "SourceOptions"]

#: With the option `settled`, one more column: rows older than this (in milliseconds) come in no later batch.
SETTLED = "settled_ms"
WITH_SETTLED = StructType([*JOURNAL.fields]).add(SETTLED, LongType())
_ROWS_PER_BATCH = 100_000
_ROWS_PER_TASK = 8_000


class SourceOptions:
    """The options of the source, checked. Spark passes names in any case."""

    def __init__(self, options: Any) -> None:
        self.url = _required(options, "url")
        directory = options.get("segments", "")
        self.segments_dir = Path(directory) if directory else None
        self.starting = options.get("startingOffsets", "earliest")
        self.rows_per_batch = _number(options, "rowsPerBatch", _ROWS_PER_BATCH)
        self.rows_per_task = _number(options, "rowsPerTask", _ROWS_PER_TASK)
        self.idle_s = _number(options, "idleSeconds", 0)
        gate = options.get("gate", "")
        self.gate = Path(gate) if gate else None
        self.expired = _expired(options.get("expired", ""))
        self.settled = options.get("settled", "false").lower() == "true"
        try:
            self.kinds = frozenset(
                int(kind) for kind in options.get("kinds", "").split(",") if kind
            )
        except ValueError:
            raise ArautoError(
                Code.BAD_FIELD, "expected numbers with commas, such as 1,8", field="kinds"
            ) from None

    @contextmanager
    def opened(self) -> Iterator[Journal]:
        """The journal, for as long as it is needed."""
        journal = Journal(self.url, self.segments_dir, self.kinds)
        try:
            yield journal
        finally:
            journal.close()


class _Range(InputPartition):
    def __init__(self, wanted: NodeRange, settled_ms: int | None) -> None:
        self.wanted = wanted
        self.settled_ms = settled_ms


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The journal as a stream; see `offsets.py` for what the offsets are."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: Offsets | None = None
        """Where a query that takes only what is there now ends; it lives in the driver only."""
        self._pace = IdlePace(options.idle_s)

    def initialOffset(self) -> dict[str, int]:
        return parse_starting(
            self._options.starting, self._places(), segments=self._options.segments_dir is not None
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        rows_max = None if isinstance(limit, ReadAllAvailable) else self._options.rows_per_batch
        if self._target is not None:
            return latest(start, self._target, rows_max)
        with self._options.opened() as journal:
            ends = {node: place.last for node, place in journal.places().items()}
            end = latest(start, ends, rows_max)
            if self._options.gate is not None:
                end = before_unknown(journal, start, end, read_gate(self._options.gate))
            if end != start and self._options.idle_s:
                news = journal.has_news(start)
                if self._pace.holds_back(news=news, now_s=time.monotonic()):
                    return start
        return end

    def reportLatestOffset(self) -> dict[str, int]:
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        with self._options.opened() as journal:
            return _partitions(self._options, start, end, journal)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)

    def _ends(self) -> Offsets:
        return {node: place.last for node, place in self._places().items()}

    def _places(self) -> dict[str, Any]:
        with self._options.opened() as journal:
            return journal.places()


class _BatchReader(DataSourceReader):
    """All there is when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with self._options.opened() as journal:
            places = journal.places()
            start = parse_starting(
                self._options.starting, places, segments=self._options.segments_dir is not None
            )
            end = {node: place.last for node, place in places.items()}
            return _partitions(self._options, start, end, journal)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)


class ArautoDataSource(DataSource):
    """`format("arauto")`: the journal to read from, channels to write to."""

    @classmethod
    def name(cls) -> str:
        return "arauto"

    def schema(self) -> StructType:
        return WITH_SETTLED if SourceOptions(self.options).settled else JOURNAL

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(SourceOptions(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(SourceOptions(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return ArrowBatchWriter(SinkOptions.read(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return ArrowStreamWriter(SinkOptions.read(self.options), schema)


def _partitions(
    options: SourceOptions, start: Offsets, end: Offsets, journal: Journal
) -> list[InputPartition]:
    found = ranges(
        start,
        end,
        journal.places(),
        rows_per_task=options.rows_per_task,
        segments=options.segments_dir is not None,
    )
    found = without(found, options.expired)
    settled_ms = journal.settled_ms(end) if options.settled else None
    return [_Range(each, settled_ms) for each in found]


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    assert isinstance(partition, _Range)
    with options.opened() as journal:
        for batch in journal.read(partition.wanted):
            yield batch if partition.settled_ms is None else _settled(batch, partition.settled_ms)


def _settled(batch: Any, settled_ms: int) -> Any:
    column = pyarrow.repeat(pyarrow.scalar(settled_ms, pyarrow.int64()), batch.num_rows)
    return batch.append_column(SETTLED, column)


def _expired(text: str) -> dict[str, Coverage]:
    try:
        return msgspec.json.decode(text, type=dict[str, Coverage]) if text else {}
    except msgspec.DecodeError as error:
        raise ArautoError(
            Code.BAD_FIELD,
            f'expected a JSON object such as {{"node-1": [[1, 42]]}}: {error}',
            field="expired",
        ) from error


def _required(options: Any, name: str) -> str:
    value: str = options.get(name, "")
    if not value:
        raise ArautoError(Code.BAD_FIELD, f'the option "{name}" is required', field=name)
    return value


def _number(options: Any, name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or (default and not int(text)):
        least = 1 if default else 0
        raise ArautoError(Code.BAD_FIELD, f"expected a whole number, at least {least}", field=name)
    return int(text)
