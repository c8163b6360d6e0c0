"""From rows of the journal to events of rules, in Python: the plan is the same whatever the rules are.

Each row is looked at by the rules of its hub that look at its channel, and by no other. Rows that concern no
rule still move time on: every batch ends in a row that has a time and nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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

from arauto.correlation.bounds import refused
from arauto.correlation.program import Event
from arauto.correlation.rows import RowReader, with_json
from arauto.correlation.scope import COLUMNS
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.crowding import TaskRoom
from arauto.pipeline.rules.left_out import LeftOut, LeftOutAccumulator
from arauto.pipeline.rules.packing import SEPARATOR, pack
from arauto.pipeline.rules.trouble import Care
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
_NO_CARE = Care()
#: Events that leave Python at a time.
_CHUNK_ROWS = 4_096
_CHUNK_BYTES = 4_194_304

Made = tuple[Any, ...]
Make = Callable[[RowReader, str, Event, int], Made]


def packed_events(
    rows: DataFrame,
    rules: Carried,
    left_out: LeftOutAccumulator | None = None,
    care: Care = _NO_CARE,
) -> DataFrame:
    """The events of rules that remember. See `happened`.

    Args:
        rows: journal rows.
        rules: who looks at them.
        left_out: told what was too large or failed.
        care: what rows to pass over.
    """
    return _made(rows, rules, (_PACKED, _packed), left_out, care)


def counted_events(
    rows: DataFrame,
    rules: Carried,
    left_out: LeftOutAccumulator | None = None,
    care: Care = _NO_CARE,
    room: TaskRoom | None = None,
) -> DataFrame:
    """The events of rules that count within windows, each with its rule's window. See `packed_events`.

    Args:
        room: how much of each hub is let in; None = all.
    """
    return _made(rows, rules, (_COUNTED, _counted), left_out, care, room)


def happened(found: DataFrame) -> DataFrame:
    """Only what are events; to be called behind the watermark, which the other rows are for.

    The condition names the time, or Spark would drop those rows before it looks at it.
    """
    return found.where(F.col("seq").isNotNull() | F.col("ts").isNull())


def _made(
    rows: DataFrame,
    rules: Carried,
    shape: tuple[StructType, Make],
    left_out: LeftOutAccumulator | None,
    care: Care,
    room: TaskRoom | None = None,
) -> DataFrame:
    schema, make = shape
    arrow = to_arrow_schema(schema, timezone="UTC")
    settled = F.col(SETTLED) if SETTLED in rows.columns else F.lit(0).cast("bigint")

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: LeftOut = Counter()
        admits = room.for_task() if room is not None else None
        for batch in batches:
            for chunk in _chunks(_found(batch, rules, admits, make, mine, care)):
                yield _batch_of(chunk, arrow)
            newest = pc.max(batch["ts"]).as_py()
            yield _batch_of([(newest, *[None] * (len(arrow) - 1))], arrow)
        care.at("")
        if mine and left_out is not None:
            left_out.add(mine)

    return rows.select("ts", *_ROW, settled.alias(SETTLED)).mapInArrow(look, schema)


def _found(
    batch: pa.RecordBatch,
    rules: Carried,
    room: TaskRoom | None,
    make: Make,
    left_out: LeftOut,
    care: Care,
) -> Iterator[Made]:
    """The events of a batch, row by row."""
    index, since, erased = rules.index, rules.since, rules.erased
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
        hub = row["hub"]
        row["ts_ms"] = times[number] // 1_000
        if row["ts_ms"] <= erased[hub].get(row["user"], -1):
            continue
        if care.passes_over(hub, row["node"], row["seq"]):
            left_out[hub, "*", "set_aside"] += 1
            continue
        care.at(hub)
        row["headers"] = dict(row["headers"] or ())
        row["text"] = _text_of(row["payload"])
        row = with_json(row)
        for reader in readers:
            from_then = since.get(reader.ref)
            if from_then is not None and not from_then.covers(
                row["node"], row["seq"], row["ts_ms"]
            ):
                continue
            read = _read(reader, row, left_out)
            if read is not None:
                key, event = read
                if room is not None and not _fits(room, reader, key, event):
                    left_out[hub, reader.program.rule, "hub_full"] += 1
                    continue
                yield (times[number], *make(reader, key, event, settled[number]))


def _fits(room: TaskRoom, reader: RowReader, key: str, event: Event) -> bool:
    window = reader.program.window
    if window is None:
        return True
    slot, windows = event.ts_ms // window.every_ms, window.length_ms // window.every_ms
    return room.admits(reader.program.hub, reader.ref, key, slot, windows)


def _read(reader: RowReader, row: Mapping[str, Any], left_out: LeftOut) -> tuple[str, Event] | None:
    """What a rule makes of a row. Whatever it fails with, it would fail with again, and for all hubs."""
    program = reader.program
    before = refused.count
    try:
        read = reader.read(row)
    except Exception:
        left_out[program.hub, program.rule, "failed"] += 1
        return None
    if refused.count != before:
        left_out[program.hub, program.rule, "too_large"] += refused.count - before
    return read


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
    size = 0
    for each in made:
        chunk.append(each)
        size += sum([len(value) for value in each if isinstance(value, str | bytes)])
        if len(chunk) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _batch_of(made: list[Made], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*made, strict=True)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
