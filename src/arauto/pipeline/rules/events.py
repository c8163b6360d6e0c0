"""From rows of the journal to events of rules, in Python: the plan is the same whatever the rules are.

Each row is looked at by the rules of its hub that look at its channel, and by no other. Rows that concern no
rule still move time on: every batch ends in a row that has a time and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyspark.sql.functions as F
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from arauto.correlation.program import Event
from arauto.correlation.rows import RowReader, with_json
from arauto.correlation.rule_index import RuleIndex
from arauto.correlation.scope import COLUMNS
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.packing import SEPARATOR, pack
from arauto.pipeline.source.datasource import SETTLED

__all__ = ["counted_events", "happened", "packed_events"]

#: What the matcher's side reads: `subject` (rule and key) and all the rest as one value, since Spark hands
#: rows over to Python value by value. The other columns are for those who need an order.
_PACKED = (
    StructType()
    .add("ts", TimestampType())
    .add("subject", StringType())
    .add("packed", BinaryType())
    .add("ms", LongType())
    .add("node", StringType())
    .add("seq", LongType())
)
_COUNTED = (
    StructType()
    .add("ts", TimestampType())
    .add("rule_ref", StringType())
    .add("key", StringType())
    .add("ms", LongType())
    .add("node", StringType())
    .add("seq", LongType())
    .add("number", DoubleType())
    .add("present", BooleanType())
    .add("length_ms", LongType())
    .add("every_ms", LongType())
)
_ROW = tuple(
    dict.fromkeys(("node", "seq", "kind", "hub", "channel", "headers", "payload", *COLUMNS))
)
#: Events that leave Python at a time.
_CHUNK_ROWS = 4_096

Made = tuple[Any, ...]
Make = Callable[[RowReader, str, Event, int], Made]


def packed_events(rows: DataFrame, rules: Carried) -> DataFrame:
    """The events of rules that remember. See `happened`."""
    return _made(rows, rules, _PACKED, _packed)


def counted_events(rows: DataFrame, rules: Carried) -> DataFrame:
    """The events of rules that count within windows, each with its rule's window. See `happened`."""
    return _made(rows, rules, _COUNTED, _counted)


def happened(found: DataFrame) -> DataFrame:
    """Only what are events; to be called behind the watermark, which the other rows are for.

    The condition names the time, or Spark would drop those rows before it looks at it.
    """
    return found.where(F.col("seq").isNotNull() | F.col("ts").isNull())


def _made(rows: DataFrame, rules: Carried, schema: StructType, make: Make) -> DataFrame:
    arrow = to_arrow_schema(schema, timezone="UTC")
    settled = F.col(SETTLED) if SETTLED in rows.columns else F.lit(0).cast("bigint")

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = rules.index
        for batch in batches:
            for chunk in _chunks(_found(batch, index, make)):
                yield _batch_of(chunk, arrow)
            newest = pc.max(batch["ts"]).as_py()
            yield _batch_of([(newest, *[None] * (len(arrow) - 1))], arrow)

    return rows.select("ts", *_ROW, settled.alias(SETTLED)).mapInArrow(look, schema)


def _found(batch: pa.RecordBatch, index: RuleIndex, make: Make) -> Iterator[Made]:
    """The events of a batch, row by row."""
    hubs = pa.array(index.hubs, type=batch["hub"].type)
    batch = batch.filter(pc.is_in(batch["hub"], value_set=hubs))
    settled = batch[SETTLED].to_pylist()
    times = batch["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    columns = [batch[name].to_pylist() for name in _ROW]
    for number, values in enumerate(zip(*columns, strict=True)):
        row: dict[str, Any] = dict(zip(_ROW, values, strict=True))
        readers = index.touching(row["hub"], row["channel"] or "")
        if not readers:
            continue
        row["ts_ms"] = times[number] // 1_000
        row["headers"] = dict(row["headers"] or ())
        row["text"] = _text_of(row["payload"])
        row = with_json(row)
        for reader in readers:
            read = reader.read(row)
            if read is not None:
                key, event = read
                yield (times[number], *make(reader, key, event, settled[number]))


def _text_of(payload: bytes | None) -> str | None:
    """The payload as text, or None where it is not UTF-8."""
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


def _packed(reader: RowReader, key: str, event: Event, settled_ms: int) -> Made:
    subject = f"{reader.ref}{SEPARATOR}{key}"
    return subject, pack(event, settled_ms), event.ts_ms, event.node, event.seq


def _counted(reader: RowReader, key: str, event: Event, _settled_ms: int) -> Made:
    window = reader.program.window
    number = event.nums[0] if event.nums else None
    present = number is not None or (bool(event.texts) and event.texts[0] is not None)
    lengths = (window.length_ms, window.every_ms) if window else (0, 0)
    return reader.ref, key, event.ts_ms, event.node, event.seq, number, present, *lengths


def _chunks(made: Iterable[Made]) -> Iterator[list[Made]]:
    chunk: list[Made] = []
    for each in made:
        chunk.append(each)
        if len(chunk) >= _CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _batch_of(made: list[Made], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*made, strict=True)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
