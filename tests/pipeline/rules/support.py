"""Rules, journal rows and runs for the tests of the rules query."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rules
from arauto.correlation.matcher import advance
from arauto.correlation.program import Match, Program
from arauto.correlation.rows import event_of
from arauto.pipeline.rules.output import match_row
from arauto.pipeline.rules.stream import PLAN_VERSION, by_query, start_query
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.waiting import finished

__all__ = [
    "HEARTBEAT",
    "PAIR",
    "RULES",
    "T0",
    "expected",
    "heartbeat",
    "message",
    "programs",
    "row_tuple",
    "run_stream",
    "traffic",
    "write_rows",
]

#: The start of an hour, so that windows are easy to see.
T0 = 1_789_999_200_000
MESSAGE, HEARTBEAT = 1, 8

#: A sequence that lets few events wait.
PAIR = """
rule: pair
version: 1
sequence:
  - {as: one, where: "payload.step = '1'"}
  - {as: two, where: "payload.step = '2'"}
within: 10s
emit: {channel: alerts, payload: {}}
buffer: 10
"""

#: One rule of every kind.
RULES = """
rule: spike
version: 1
from: {channels: ["prices:*"]}
match: payload.price > 195
emit: {channel: alerts, payload: {symbol: payload.symbol, price: payload.price}}
---
rule: held
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
let: {p: cast(payload.price as double)}
hold: {start: p >= 150, for: 2s}
emit: {channel: alerts, payload: {symbol: key.symbol, price: last.p}}
---
rule: fell
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
let: {p: cast(payload.price as double)}
sequence:
  - {as: high, where: p > 160}
  - {as: low, where: p < high.p - 80}
within: 5s
emit: {channel: alerts, payload: {from: high.p, to: low.p}}
---
rule: silent
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
absence: {expect: "true"}
within: 3s
emit: {channel: alerts, payload: {symbol: key.symbol}}
---
rule: both
version: 1
key: [payload.symbol]
all_of:
  - {as: cheap, where: payload.price < 60}
  - {as: dear, where: payload.price > 180}
within: 4s
emit: {channel: alerts, payload: {symbol: key.symbol}}
---
rule: busy
version: 1
from: {channels: ["prices:*"]}
key: [payload.symbol]
count: {of: cast(payload.price as double)}
window: 4s
every: 2s
when: count(*) >= 3 and max(of) > 150
emit: {channel: alerts, payload: {symbol: key.symbol, n: count, top: max}}
---
rule: crowd
version: 1
from: {channels: ["prices:*"]}
count: {of: payload.symbol}
window: 5s
when: count(distinct of) >= 4
emit: {channel: alerts, payload: {n: distinct_count}}
---
rule: sector
version: 1
from: {channels: ["prices:*"]}
group: {by: "'all'", member: payload.symbol}
change: {of: payload.price, abs_pct: ">= 30"}
window: 6s
when: members >= 2
emit: {channel: alerts, payload: {up: up, down: down}}
"""


def programs(text: str = RULES, hub: str = "shop") -> list[Program]:
    return [compile_rule(hub, rule) for rule in load_rules(text)]


def message(seq: int, at_ms: int, payload: bytes | str, **more: Any) -> dict[str, Any]:
    """A journal row; times count from `T0`."""
    row: dict[str, Any] = dict.fromkeys(JOURNAL.names)
    row |= {
        "node": "n1",
        "seq": seq,
        "kind": MESSAGE,
        "ts": T0 + at_ms,
        "hub": "shop",
        "channel": "prices:x",
        "headers": {},
        "payload": payload.encode() if isinstance(payload, str) else payload,
    }
    return row | more


def heartbeat(seq: int, at_ms: int) -> dict[str, Any]:
    return message(seq, at_ms, "{}", kind=HEARTBEAT, hub="", channel="")


def traffic(count: int, *, seed: int = 1, step_ms: int = 400) -> list[dict[str, Any]]:
    """Prices of a few symbols, in order, on two nodes."""
    random = Random(seed)
    rows, at_ms = [], 0
    for seq in range(1, count + 1):
        at_ms += random.randrange(step_ms)
        price = random.choice([random.randrange(50, 200)] * 18 + ["null", "1e999"])
        body = f'{{"symbol": "{random.choice("ABCDE")}", "price": {price}}}'
        rows.append(message(seq, at_ms, body, node=random.choice(("n1", "n2"))))
    return rows


def row_tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    """The row as Spark takes it."""
    made = row | {"ts": datetime.fromtimestamp(row["ts"] / 1_000, UTC)}
    return tuple(made[name] for name in JOURNAL.names)


def write_rows(directory: Path, batches: Iterable[Sequence[dict[str, Any]]]) -> None:
    """One file per batch, later ones with later times."""
    directory.mkdir(parents=True, exist_ok=True)
    start = len(list(directory.glob("seg-*.parquet")))
    types = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "binary": pa.binary()}
    types |= {
        "timestamp": pa.timestamp("ms", "UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    schema = pa.schema(
        [(field.name, types[field.dataType.simpleString()]) for field in JOURNAL.fields]
    )
    for number, rows in enumerate(batches, start):
        path = directory / f"seg-{number:04}.parquet"
        ready = [row | {"headers": list((row["headers"] or {}).items())} for row in rows]
        pq.write_table(pa.Table.from_pylist(ready, schema=schema), path)
        os.utime(path, (T0 / 1_000 + number,) * 2)


def run_stream(
    spark: SparkSession,
    directory: Path,
    compiled: Iterable[Program],
    checkpoint: Path,
    **options: Any,
) -> list[tuple[Any, ...]]:
    """Read all files that are new since the checkpoint, one a batch; the matches, in order of batches. Rules
    of both queries run one query after the other."""
    source = (
        spark.readStream.schema(JOURNAL).option("maxFilesPerTrigger", 1).parquet(str(directory))
    )
    found: list[tuple[Any, ...]] = []

    def keep(frame: DataFrame, _batch_id: int) -> None:
        found.extend(tuple(row) for row in frame.collect())

    for name, chosen in by_query(compiled).items():
        if chosen:
            place = checkpoint / name / f"v{PLAN_VERSION}"
            start = partial(start_query, spark, source, name, chosen, place, keep)
            finished(partial(start, available_now=True, **options))
    return found


def expected(
    rows: Iterable[dict[str, Any]], compiled: Iterable[Program], until_ms: int
) -> list[tuple[Any, ...]]:
    """What the matcher alone finds, with events as the interpreter makes them."""
    found: list[tuple[Any, ...]] = []
    for program in compiled:
        keys: dict[str, list[Any]] = {}
        for row in rows:
            try:
                text = row["payload"].decode()
            except UnicodeDecodeError:
                text = None
            event = event_of(program, row | {"ts_ms": row["ts"], "text": text})
            if event is not None:
                keys.setdefault(event[0], []).append(event[1])
        for key, events in keys.items():
            found += [
                _row(program, m) for m in advance(program, key, None, events, until_ms).matches
            ]
    return found


def _row(program: Program, match: Match) -> tuple[Any, ...]:
    made = dict(match_row(program, match))
    # Spark hands times over without a zone.
    made["ts"] = made["ts"].replace(tzinfo=None)
    return tuple(made.values())
