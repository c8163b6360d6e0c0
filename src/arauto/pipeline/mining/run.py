"""One run: mine, store the result under the next run number, and tell what is different from the last."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.alone import only_one_in
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

    Raises:
        ArautoError: LAKE_BUSY, the same question is being asked already; CONFLICT, its run was stored by
            somebody else meanwhile.
    """
    # From before the search, which is the long part: a run that may not be stored is not worth it.
    with _only_run(lake, options):
        return _mine(lake, options, now_ms=now_ms, from_ms=from_ms, to_ms=to_ms)


def _mine(
    lake: Lake, options: MiningOptions, *, now_ms: int, from_ms: int | None, to_ms: int | None
) -> Mined:
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
    if not table.append(rows.coalesce(1), query=query, batch_id=last + 1):
        # Only where the lock does not reach, as from another machine.
        raise ArautoError(
            Code.CONFLICT, f"somebody else stored run {last + 1} of this question; ask it again"
        )
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


@contextmanager
def _only_run(lake: Lake, options: MiningOptions) -> Iterator[None]:
    """Be the only run of this question: two would take the same number, and write to the same place."""
    busy = ArautoError(
        Code.LAKE_BUSY,
        f"the same question is being mined in hub {options.hub} already; wait for that run to end",
    )
    with only_one_in(lake.root / "_mining", f".{options.job}.lock", busy):
        yield


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
