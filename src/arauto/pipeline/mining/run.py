"""One run: mine, store the result under the next run number, and tell what is different from the last."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.mining.baskets import Bounded
from arauto.pipeline.mining.difference import difference
from arauto.pipeline.mining.options import MiningOptions
from arauto.pipeline.mining.sequences import mine_sequences
from arauto.pipeline.mining.sets import mine_sets
from arauto.pipeline.node_api import Outgoing

__all__ = ["CHANGES_MAX", "Mined", "change_messages", "mine"]

#: Changes of one run that are told; their numbers are in the summary in any case.
CHANGES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Mined:
    """A run that is stored."""

    run: int
    found: DataFrame
    """Its rows of `mined`."""
    changes: DataFrame
    """How they differ from the run before, see `difference`."""
    bounded: Bounded


def mine(
    lake: Lake,
    options: MiningOptions,
    *,
    now_ms: int,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> Mined:
    """Mine messages of the lake, and store what was found.

    Args:
        lake: where messages are read and results kept.
        options: what to look for.
        now_ms: the time that the results get.
        from_ms: messages of this time on.
        to_ms: messages before this time.
    """
    messages = lake.table("messages").read(from_ms=from_ms, to_ms=to_ms, hub=options.hub)
    search = mine_sets if options.kind == "sets" else mine_sequences
    found, bounded = search(messages, options)
    table = lake.table("mined")
    query = f"mine-{options.job}"
    last = table.state().batches.get(query, 0)
    rows = found.select(
        F.timestamp_millis(F.lit(now_ms)).alias("ts"),
        F.lit(options.hub).alias("hub"),
        F.lit(last + 1).cast("long").alias("run"),
        "kind",
        "items",
        "support",
        "confidence",
        "lift",
        F.lit(bounded.sampled).cast("long").alias("total"),
        F.lit(options.job).alias("job"),
        "implies",
    )
    # A run whose writer died is numbered again: it counts for nobody.
    table.append(rows.coalesce(1), query=query, batch_id=last + 1)
    before, after = (_of_run(table, options, number) for number in (last, last + 1))
    return Mined(last + 1, after, difference(before, after, options.tolerance), bounded)


def change_messages(mined: Mined, options: MiningOptions, channel: str) -> Iterator[Outgoing]:
    """The messages that tell a run's changes: each one (at most `CHANGES_MAX`), then a summary."""
    order = ("change", F.col("kind"), F.col("support_after").desc_nulls_last(), "items", "implies")
    counts = {
        row["change"]: row["count"] for row in mined.changes.groupBy("change").count().collect()
    }
    for row in mined.changes.orderBy(*order).limit(CHANGES_MAX).toLocalIterator():
        body = {
            "run": mined.run,
            "change": row["change"],
            "kind": row["kind"],
            "items": msgspec.json.decode(row["items"]),
            "implies": msgspec.json.decode(row["implies"] or "null"),
            "supportBefore": row["support_before"],
            "supportAfter": row["support_after"],
            "liftBefore": row["lift_before"],
            "liftAfter": row["lift_after"],
        }
        yield _message(options, channel, mined.run, body)
    summary = {
        "run": mined.run,
        "change": "summary",
        "kind": options.kind,
        "items": list(options.items),
        "baskets": mined.bounded.baskets,
        **{name: counts.get(name, 0) for name in ("new", "gone", "changed")},
    }
    yield _message(options, channel, mined.run, summary)


def _of_run(table: Table, options: MiningOptions, run: int) -> DataFrame:
    rows = table.read(hub=options.hub)
    return rows.where((F.col("job") == options.job) & (F.col("run") == run))


def _message(options: MiningOptions, channel: str, run: int, body: dict[str, Any]) -> Outgoing:
    named = msgspec.json.encode([body["change"], body["kind"], body["items"], body.get("implies")])
    digest = hashlib.sha256(named).hexdigest()[:24]
    return Outgoing(
        channel=channel,
        payload=msgspec.json.encode(body),
        content_type="application/json",
        # The same change of the same run is the same message, however often it is sent.
        id=f"mined-{options.job}-{run}-{digest}",
    )
