"""To whom messages went, against a naive computation over the same rows."""

import random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from arauto.names import matches
from arauto.pipeline.archive.silver import SILVER
from arauto.pipeline.audit.recipients import recipients, subscription_spans
from tests.pipeline.archive.support import journal

Row = dict[str, Any]


def _went(spark: SparkSession, rows: list[Row]) -> set[tuple[Any, ...]]:
    bronze = journal(spark, *rows)
    frames: dict[str, DataFrame] = {
        name: SILVER[name](bronze) for name in ("messages", "subscriptions", "sessions")
    }
    spans = subscription_spans(frames["subscriptions"], frames["sessions"])
    found = recipients(frames["messages"], spans)
    went = [(row.node, row.seq, row.to_session, row.to_user) for row in found.collect()]
    assert len(went) == len(set(went)), "somebody got a message twice"
    return set(went)


def _sub(session: str, name: str, **more: Any) -> Row:
    wide = b'{"pattern": true}' if "*" in name or "#" in name or name[0] == "/" else b"{}"
    user = f"u-{session}"
    return {"kind": 10, "session": session, "user": user, "channel": name, "payload": wide, **more}


def _naive(rows: list[Row]) -> set[tuple[Any, ...]]:
    """One pass in the order of the journal: who holds what, and who gets a message."""
    held: dict[str, set[str]] = {}
    went = set()
    for seq, row in enumerate(rows, 1):
        session, kind = row["session"], row["kind"]
        if kind == 10:
            held.setdefault(session, set()).add(row["channel"])
        elif kind == 11:
            held.get(session, set()).discard(row["channel"])
        elif kind == 3:
            held.pop(session, None)
        else:
            for other, names in held.items():
                excluded = row["exclude"] in (f"s:{other}", f"u:u-{other}")
                if not excluded and any(matches(name, row["channel"]) for name in names):
                    went.add(("n1", seq, other, f"u-{other}"))
    return went


def test_messages_go_to_whom_a_naive_walk_through_the_journal_finds(spark: SparkSession) -> None:
    rng = random.Random(7)
    names = ["a:1", "a:2", "a:*", "a:#", "*", "*:1", "/t", "/t/x", "b"]
    channels = ["a:1", "a:2", "a:1:x", "b", "/t", "/t/x/y", "c"]
    rows: list[Row] = []
    for number in range(300):
        session = f"s{rng.randrange(5)}"
        # Few different times: what happens within one millisecond is told apart by its place.
        same: Row = {"at": number // 10}
        kind = rng.choices([1, 10, 11, 3], [6, 4, 2, 1])[0]
        if kind == 1:
            exclude = rng.choice(["", "", f"s:s{rng.randrange(5)}", f"u:u-s{rng.randrange(5)}"])
            row = {
                "kind": 1,
                "session": session,
                "channel": rng.choice(channels),
                "exclude": exclude,
            }
        else:
            row = _sub(session, rng.choice(names)) | {"kind": kind}
        rows.append(same | row)
    expected = _naive(rows)
    assert len(expected) > 100
    assert _went(spark, rows) == expected


def test_clocks_decide_between_two_nodes_and_hubs_never_mix(spark: SparkSession) -> None:
    rows: list[Row] = [
        _sub("early", "a", at=1, seq=50),
        _sub("late", "a", at=3, seq=51),
        _sub("gone", "a", at=1, seq=52),
        {**_sub("gone", "a", at=2, seq=53), "kind": 11},
        _sub("elsewhere", "a", at=1, seq=54, hub="other"),
        {"kind": 1, "node": "n2", "seq": 1, "at": 2.5, "channel": "a"},
    ]
    assert _went(spark, rows) == {("n2", 1, "early", "u-early")}
