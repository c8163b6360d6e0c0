"""Everything about one thing, in one list."""

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.audit.ask import Subject, ask_audit
from arauto.pipeline.audit.questions import (
    Question,
    about_channel,
    about_message,
    about_user,
    peaks,
)
from arauto.pipeline.lake.table import Lake
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0

_BOB = {"session": "s2", "user": "bob"}
_WHERE = {"transport": "mqtt", "address": "10.0.0.9"}


def _json(kind: int, details: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "channel": "", "payload": json.dumps(details).encode(), **more}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Ana and Bob on two channels, for twelve seconds and some."""
    why = {"code": 2006, "name": "PUBLISH_DENIED", "message": "no", "request": "publish"}
    change = {"operation": "ban", "target": "users/bob", "outcome": "ok", "by": "admin 127.0.0.1"}
    rows = [
        _json(2, {"transport": "websocket", "address": "10.0.0.7"}),
        _json(2, _WHERE, **_BOB),
        _json(10, {}, **_BOB | {"channel": "stock:1"}),
        _json(10, {"pattern": True}, channel="stock:*"),
        {"id": "order-1", "payload": b'{"n": 1}', "exclude": "s:s1"},
        {**_BOB, "channel": "stock:2", "payload": b"hi", "content_type": "text/plain"},
        _json(4, why, **_BOB | {"channel": "stock:1"}),
        _json(11, {}, **_BOB | {"channel": "stock:1"}),
        {"session": "", "user": "", "origin": "http 192.0.2.1"},
        _json(7, change, session="", user=""),
        _json(3, {"durationMs": 9500, "code": 5000, **_WHERE}, **_BOB),
        {"hub": "other", "channel": "stock:1"},
    ]
    made = Lake(spark, tmp_path_factory.mktemp("audit") / "lake")
    take(made.table("journal"), journal(spark, *rows), "archive", 0)
    for name in DERIVED:
        follow(made, name)
    return made


def _told(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("seq", "what", *names)) for row in frame.collect()]


@pytest.mark.parametrize("name", ["order-1", "n1:5"])
def test_a_message_tells_its_sender_and_to_whom_it_went(lake: Lake, name: str) -> None:
    found = about_message(lake, Question("shop"), name)
    assert _told(found, "user", "session", "transport", "address", "detail") == [
        (
            *(5, "message", "ana", "s1", "websocket", "10.0.0.7"),
            'id order-1, application/json, 8 bytes, {"n": 1}',
        ),
        (5, "went to", "bob", "s2", "mqtt", "10.0.0.9", "by subscription stock:1"),
    ]


def test_a_user_is_seen_from_beginning_to_end(lake: Lake) -> None:
    found = about_user(lake, Question("shop"), "bob")
    assert _told(found, "channel", "detail") == [
        (2, "session began", None, None),
        (3, "subscribed", "stock:1", None),
        (5, "went to", "stock:1", "by subscription stock:1"),
        (6, "message", "stock:2", "text/plain, 2 bytes, hi"),
        (7, "refused", "stock:1", "2006 PUBLISH_DENIED (publish): no"),
        (8, "unsubscribed", "stock:1", None),
        (10, "changed", None, "ban users/bob → ok"),
        (11, "session ended", None, "after 9.5 s, code 5000"),
    ]


def test_a_channel_tells_what_was_sent_to_how_many_and_from_where(lake: Lake) -> None:
    found = about_channel(lake, Question("shop"), "stock:1")
    assert _told(found, "user", "transport", "address", "detail")[:3] == [
        (3, "subscribed", "bob", None, None, None),
        (4, "subscribed", "ana", None, None, "pattern"),
        (
            *(5, "message", "ana", "websocket", "10.0.0.7"),
            'id order-1, application/json, 8 bytes, to 1 sessions, {"n": 1}',
        ),
    ]
    # After Bob has left, only Ana's pattern is there; the message has no session, but an origin.
    assert _told(found, "user", "transport", "address", "detail")[-1] == (
        *(9, "message", "", "http", "192.0.2.1"),
        "application/json, 2 bytes, to 1 sessions, {}",
    )


def test_times_bound_what_is_told_and_not_what_must_be_known(lake: Lake) -> None:
    late = Question("shop", T0 + 5_000, T0 + 7_000)
    found = _told(about_user(lake, late, "bob"), "address")
    assert found == [(5, "went to", "10.0.0.9"), (6, "message", "10.0.0.9")]
    assert about_user(lake, Question("other"), "bob").count() == 0


def test_an_answer_is_cut_and_says_so(lake: Lake) -> None:
    answer = ask_audit(lake, Question("shop"), Subject(channel="stock:1", peaks=True), 1)
    assert (len(answer.rows), answer.is_cut) == (1, False)
    answer = ask_audit(lake, Question("shop"), Subject(peaks=True), 1)
    assert (len(answer.rows), answer.is_cut) == (1, True)
    assert answer.columns[0] == "minute"


def test_peaks_are_the_busiest_minutes(lake: Lake) -> None:
    rows = peaks(Question().rows(lake, "messages")).collect()
    assert [(row.hub, row.channel, row.messages, row.bytes) for row in rows] == [
        ("shop", "stock:1", 2, 10),
        ("other", "stock:1", 1, 2),
        ("shop", "stock:2", 1, 2),
    ]
    assert {row.minute.timestamp() * 1000 for row in rows} == {T0}


def test_questions_that_make_no_sense_are_refused(lake: Lake) -> None:
    with pytest.raises(ArautoError) as raised:
        Question("shop", T0, T0)
    assert raised.value.code is Code.BAD_FIELD
    with pytest.raises(ArautoError) as raised:
        about_user(lake, Question(), "")
    assert raised.value.code is Code.BAD_FIELD
    with pytest.raises(ArautoError) as raised:
        about_channel(lake, Question(), "no channel")
    assert raised.value.code is Code.BAD_CHANNEL_NAME
