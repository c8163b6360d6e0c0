"""Bronze rows to typed tables, on tiny frames."""

import json
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from arauto.pipeline.archive.silver import SILVER, quarantine
from arauto.pipeline.schemas import TABLES
from tests.pipeline.archive.support import at, journal

_DEEP = b"[" * 100_000 + b"]" * 100_000


def _made(name: str, bronze: DataFrame) -> DataFrame:
    """A silver table as it would be written."""
    return SILVER[name](bronze).select(*TABLES[name].columns.names)


def _rows(spark: SparkSession, name: str, *rows: dict[str, Any]) -> DataFrame:
    """Expected rows; columns that are not named are null."""
    columns = TABLES[name].columns
    return spark.createDataFrame(
        [tuple(row.get(n) for n in columns.names) for row in rows], columns
    )


def _place(seq: int) -> dict[str, Any]:
    return {"node": "n1", "seq": seq, "ts": at(seq), "hub": "shop"}


def _json(kind: int, details: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "payload": json.dumps(details).encode(), **more}


_WHO = {"session": "s1", "user": "ana"}
_WHERE = {"transport": "websocket", "address": "10.0.0.7"}


def test_messages_have_text_where_it_is_text_and_know_json(spark: SparkSession) -> None:
    bronze = journal(
        spark,
        {"payload": b'{"a": 1}', "offset": 3, "headers": {"h": "1"}, "key": "k", "id": "i"},
        {"payload": "olá".encode(), "content_type": "text/plain"},
        {"payload": b"\xff\x00", "content_type": "application/octet-stream", "origin": "http ::1"},
        {"kind": 8, "payload": b"{}"},
    )
    same = {**_WHO, "channel": "stock:1", "epoch": 7, "expires_ms": 0, "exclude": ""}
    same |= {"id": "", "key": "", "headers": {}, "origin": "", "offset": 0}
    expected = _rows(
        spark,
        "messages",
        {
            **same,
            **_place(1),
            "content_type": "application/json",
            "offset": 3,
            "headers": {"h": "1"},
            "key": "k",
            "id": "i",
            "payload": b'{"a": 1}',
            "text": '{"a": 1}',
            "is_json": True,
            "size_bytes": 8,
        },
        {
            **same,
            **_place(2),
            "content_type": "text/plain",
            "payload": "olá".encode(),
            "text": "olá",
            "is_json": False,
            "size_bytes": 4,
        },
        {
            **same,
            **_place(3),
            "content_type": "application/octet-stream",
            "origin": "http ::1",
            "payload": b"\xff\x00",
            "is_json": False,
            "size_bytes": 2,
        },
    )
    assertDataFrameEqual(_made("messages", bronze), expected)


def test_sessions_tell_when_they_began_and_why_they_ended(spark: SparkSession) -> None:
    bronze = journal(
        spark,
        _json(2, _WHERE, channel=""),
        _json(3, {"durationMs": 1500, "code": 5000, **_WHERE}, channel=""),
    )
    assertDataFrameEqual(
        _made("session_starts", bronze),
        _rows(spark, "session_starts", {**_place(1), **_WHO, **_WHERE}),
    )
    ended = {"started": at(0.5), "duration_ms": 1500, "code": 5000}
    assertDataFrameEqual(
        _made("sessions", bronze),
        _rows(spark, "sessions", {**_place(2), **_WHO, **_WHERE, **ended}),
    )


def test_refusals_subscriptions_and_changes_have_their_columns(spark: SparkSession) -> None:
    why = {
        "code": 2006,
        "name": "DENIED",
        "message": "no",
        "field": "channel",
        "request": "publish",
    }
    change = {"operation": "ban", "target": "ana", "outcome": "ok", "by": "admin 127.0.0.1"}
    bronze = journal(
        spark,
        _json(4, {**why, **_WHERE, "leftOut": 9}),
        _json(4, why),
        _json(10, {"pattern": True, "leftOut": 2}, channel="stock:*"),
        _json(11, {}),
        _json(7, change, channel=""),
    )
    refused = {**_WHO, "channel": "stock:1", **why}
    assertDataFrameEqual(
        _made("refusals", bronze),
        _rows(
            spark,
            "refusals",
            {**refused, **_place(1), **_WHERE, "left_out": 9},
            {**refused, **_place(2), "left_out": 0},
        ),
    )
    assertDataFrameEqual(
        _made("subscriptions", bronze),
        _rows(
            spark,
            "subscriptions",
            {**_place(3), **_WHO, "channel": "stock:*", "begun": True, "pattern": True},
            {**_place(4), **_WHO, "channel": "stock:1", "begun": False, "pattern": False},
        ),
    )
    assertDataFrameEqual(_made("changes", bronze), _rows(spark, "changes", {**_place(5), **change}))


def test_counters_take_zero_for_what_is_left_out_and_sum_refusals(spark: SparkSession) -> None:
    start, end = (int(at(s).timestamp() * 1000) for s in (-300, 0))
    total = {"messagesIn": 60, "bytesIn": 4200, "publishes": 12, "refused": {"2006": 3, "4000": 1}}
    gauges = {"channels": 3, "sessions": 5, "subscriptions": 9}
    details = {"startMs": start, "endMs": end, "total": total, "gauges": gauges, "sessionsPeak": 8}
    counted = {
        "messages_in": 60,
        "bytes_in": 4200,
        "publishes": 12,
        "refused": 4,
        **dict.fromkeys(
            ("messages_out", "bytes_out", "deliveries", "dropped", "stored"),
            0,
        ),
        "sessions_started": 0,
        "sessions_ended": 0,
    }
    made = _made("counters", journal(spark, _json(5, details), _json(5, {"startMs": "x"})))
    whole = {**_place(1), "started": at(-300), "ended": at(0), "sessions_peak": 8}
    nothing = {**_place(2), **dict.fromkeys(counted, 0)}
    assertDataFrameEqual(made, _rows(spark, "counters", {**whole, **counted, **gauges}, nothing))


def test_what_cannot_be_understood_is_quarantined_with_the_reason(spark: SparkSession) -> None:
    bad_json = "content type is JSON, but the payload is not JSON"
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"payload": b"\xff{"}, "content type is JSON, but the payload is not UTF-8"),
        ({"payload": b'{"a": '}, bad_json),
        ({"payload": b'{"a": 1} x'}, bad_json),
        ({"payload": _DEEP}, bad_json),
        ({"payload": b"9" * 2_000}, bad_json),
        ({"payload": b"", "content_type": "application/problem+json"}, bad_json),
        ({"payload": b'1, "v": 2'}, bad_json),
        ({"payload": b'1, "b": 2'}, bad_json),
        ({"payload": b"1} x"}, bad_json),
        ({"payload": b"1], [2"}, bad_json),
        ({"payload": b' {"a": [1]}\n'}, None),
        ({"payload": b"1e999"}, None),
        ({"payload": b"123456789012345678901234567890123456789012345"}, None),
        ({"payload": b"\xff", "content_type": "image/png"}, None),
        ({"kind": 99}, "unknown kind 99"),
        ({"kind": 3, "payload": b"[1, 2]"}, "the details are not an object"),
        ({"kind": 4, "payload": b'[{"code": 1}]'}, "the details are not an object"),
        ({"kind": 2, "payload": b"\xff"}, "the details are not JSON"),
        ({"kind": 5, "payload": _DEEP}, "the details are not JSON"),
        ({"kind": 6, "payload": b"\x81\xa1a\x01"}, None),
        ({"kind": 8, "payload": b""}, None),
    ]
    bronze = journal(spark, *(row for row, _ in cases))
    found = {row.seq: row.reason for row in quarantine(bronze).select("seq", "reason").collect()}
    assert found == {seq: reason for seq, (_, reason) in enumerate(cases, 1) if reason}


def test_details_in_quarantine_are_in_no_other_table(spark: SparkSession) -> None:
    poison = (b"[1, 2]", b'[{"code": 1}]', b'{"code": ', _DEEP, b"\xff", b"null", b"7", b"")
    kinds = (2, 3, 4, 5, 7, 10, 11)
    bronze = journal(spark, *({"kind": k, "payload": p} for k in kinds for p in poison)).cache()
    assert quarantine(bronze).count() == bronze.count() == len(kinds) * len(poison)
    tables = [SILVER[name](bronze).select("seq") for name in SILVER if name != "messages"]
    assert reduce(DataFrame.union, tables).count() == 0


def test_fields_of_the_wrong_type_are_null_and_the_row_stays(spark: SparkSession) -> None:
    details = {"durationMs": 10**30, "code": "x", "transport": ["list"], "address": "10.0.0.7"}
    bronze = journal(spark, _json(3, details))
    (row,) = _made("sessions", bronze).collect()
    assert (row.duration_ms, row.started, row.code, row.address) == (None, None, None, "10.0.0.7")
