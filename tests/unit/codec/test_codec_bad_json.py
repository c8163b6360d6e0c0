"""Bad input in the JSON flavour: what is refused, with which code, and which field is named."""

import json
from typing import Any

import pytest

from arauto.codec.events import DocumentChangeRequest, Operation
from arauto.codec.json import JsonCodec
from arauto.codec.unknown import Unknown
from arauto.errors import ArautoError, Code
from tests.unit.codec.samples import decode_whole, whole

CODEC = JsonCodec()

#: Something that must never come back in an error.
SECRET = "hunter2"
EPOCH = "0190f3a2b4c5d6e7"


def publish(**fields: Any) -> bytes:
    """One publish whose single message has these fields beside its channel and payload."""
    message = {"channel": "a", "text": SECRET, **fields}
    return json.dumps({"event": "publish", "id": 1, "messages": [message]}).encode()


def request(event: str, **fields: Any) -> bytes:
    return json.dumps({"event": event, "id": 1, **fields}).encode()


def change(*operations: Any, **fields: Any) -> bytes:
    return request("document_change", channel="doc:a", operations=list(operations), **fields)


def add(value: bytes) -> bytes:
    """A document change that adds a value given as JSON text."""
    return (
        b'{"event":"document_change","id":1,"channel":"doc:a",'
        b'"operations":[{"op":"add","path":"/a","value":' + value + b"}]}"
    )


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


ENVELOPES = {
    "nothing": b"",
    "white space": b" \n",
    "not JSON": b"hunter2",
    "truncated": b'{"event":"ping","id":',
    "truncated after an unknown event": b'{"event":"hunter2"',
    "truncated after a bad field": b'{"event":"ping","id":"hunter2"',
    "nested beyond all measure after a bad field": b'{"event":"ping","id":"","x":'
    + nested(100_000),
    "trailing garbage": b'{"event":"ping"}hunter2',
    "two objects": b'{"event":"ping"}{"event":"ping"}',
    "an array": b'[{"event":"ping"}]',
    "a number": b"7",
    "null": b"null",
    "a string": b'"ping"',
    "byte order mark": b'\xef\xbb\xbf{"event":"ping"}',
    "UTF-16": '{"event":"ping"}'.encode("utf-16"),
    "bad UTF-8 in a field name": b'{"event":"ping","\xff":1}',
    "bad UTF-8 in a string": b'{"event":"presence","channel":"\xff"}',
    "bad UTF-8 in embedded data": b'{"event":"publish","messages":[{"channel":"a","data":"\xff"}]}',
    "an encoded surrogate": b'{"event":"publish","messages":[{"channel":"a","data":"\xed\xa0\x80"}]}',
    "half a surrogate pair": b'{"event":"presence","channel":"\\ud800"}',
    "half a surrogate pair in data": b'{"event":"publish","messages":[{"channel":"a","data":"\\ud800"}]}',
    "NaN": b'{"event":"publish","messages":[{"channel":"a","data":NaN}]}',
    "Infinity": b'{"event":"publish","messages":[{"channel":"a","data":-Infinity}]}',
    "a comment": b'{"event":"ping"/*x*/}',
    "a trailing comma": b'{"event":"ping",}',
    "single quotes": b"{'event':'ping'}",
    "a leading zero": b'{"event":"ping","id":01}',
    "a control character": b'{"event":"presence","channel":"a\nb"}',
    "a NUL at the end": b'{"event":"ping"}\x00',
    "no event": b'{"id":1}',
    "a number as event": b'{"event":1}',
    "null as event": b'{"event":null}',
    "nested beyond all measure": b'{"event":"publish","messages":[{"channel":"a","data":'
    + nested(100_000)
    + b"}]}",
}

FIELDS: dict[str, tuple[bytes, str]] = {
    # ids
    "negative id": (b'{"event":"ping","id":-1}', "id"),
    "id beyond 53 bits": (b'{"event":"ping","id":9007199254740992}', "id"),
    "id beyond 64 bits": (b'{"event":"ping","id":18446744073709551616}', "id"),
    "id of 5000 digits": (b'{"event":"ping","id":' + b"9" * 5000 + b"}", "id"),
    "fractional id": (b'{"event":"ping","id":1.5}', "id"),
    "id as a float": (b'{"event":"ping","id":1.0}', "id"),
    "id as text": (b'{"event":"ping","id":"1"}', "id"),
    "id true": (b'{"event":"ping","id":true}', "id"),
    "id null": (b'{"event":"ping","id":null}', "id"),
    "unknown field": (b'{"event":"ping","hunter2":1}', ""),
    "id in close": (b'{"event":"close","id":1}', ""),
    # publish
    "no messages": (request("publish"), "messages"),
    "empty batch": (request("publish", messages=[]), "messages"),
    "messages no array": (request("publish", messages={}), "messages"),
    "message no object": (request("publish", messages=["a"]), "messages[0]"),
    "no channel": (request("publish", messages=[{"text": SECRET}]), "messages[0].channel"),
    "channel no text": (publish(channel=7), "messages[0].channel"),
    "no payload": (request("publish", messages=[{"channel": "a"}]), "messages[0]"),
    "two payloads": (publish(data=1), "messages[0]"),
    "three payloads": (publish(data=1, base64=""), "messages[0]"),
    "text no text": (publish(text=1), "messages[0].text"),
    "text null": (publish(text=None), "messages[0].text"),
    "bad base64": (publish(base64="hunter2!"), "messages[0].base64"),
    "base64 without padding": (publish(base64="YQ"), "messages[0].base64"),
    "URL-safe base64": (publish(base64="-_-_"), "messages[0].base64"),
    "content type beside text": (publish(content_type="text/html"), "messages[0].content_type"),
    "unknown message field": (publish(hunter2=1), "messages[0]"),
    "unknown field called as the parser names places": (
        request("ping", **{"x - at `$.hunter2": 1}),
        "",
    ),
    "unknown field called as the parser ends names": (
        request("ping", **{"x` - at `$.hunter2": 1}),
        "",
    ),
    "key with a NUL": (publish(key="a\0b"), "messages[0].key"),
    "key too long": (publish(key="é" * 128), "messages[0].key"),
    "idempotency key too long": (publish(idempotency_key="k" * 129), "messages[0].idempotency_key"),
    "idempotency key with a line break": (
        publish(idempotency_key="a\nb"),
        "messages[0].idempotency_key",
    ),
    "unknown echo": (publish(echo=SECRET), "messages[0].echo"),
    "echo as a number": (publish(echo=1), "messages[0].echo"),
    "retain as a number": (publish(retain=1), "messages[0].retain"),
    "negative ttl": (publish(ttl_ms=-1), "messages[0].ttl_ms"),
    "ttl beyond a century": (publish(ttl_ms=3_155_760_000_001), "messages[0].ttl_ms"),
    "headers no object": (publish(headers=[]), "messages[0].headers"),
    "header value no text": (publish(headers={"a": 1}), "messages[0].headers[...]"),
    "header name with a space": (publish(headers={"a b": ""}), "messages[0].headers"),
    "empty header name": (publish(headers={"": ""}), "messages[0].headers"),
    "header name too long": (publish(headers={"n" * 65: ""}), "messages[0].headers"),
    "header value with a line break": (publish(headers={"a": "b\r\nc: d"}), "messages[0].headers"),
    "too many headers": (publish(headers={f"h{n}": "" for n in range(33)}), "messages[0].headers"),
    "too many header bytes": (publish(headers={"h": "v" * 8192}), "messages[0].headers"),
    "header of the pipeline": (publish(headers={"x-hops": "1"}), "messages[0].headers"),
    "data too deep": (
        b'{"event":"publish","messages":[{"channel":"a","data":' + nested(129) + b"}]}",
        "messages[0].data",
    ),
    # subscribe, history
    "no items": (request("subscribe", items=[]), "items"),
    "item no object": (request("subscribe", items=["a"]), "items[0]"),
    "since null": (request("subscribe", items=[{"channel": "a", "since": None}]), "items[0].since"),
    "epoch as a number": (
        request("subscribe", items=[{"channel": "a", "since": {"epoch": 1, "offset": 0}}]),
        "items[0].since.epoch",
    ),
    "epoch too short": (
        request("subscribe", items=[{"channel": "a", "since": {"epoch": "1", "offset": 0}}]),
        "items[0].since.epoch",
    ),
    "epoch in capitals": (
        request("history", channel="a", until={"epoch": EPOCH.upper(), "offset": 0}),
        "until.epoch",
    ),
    "epoch beyond 63 bits": (
        request("history", channel="a", since={"epoch": "8" + "0" * 15, "offset": 0}),
        "since.epoch",
    ),
    "negative offset": (
        request("history", channel="a", since={"epoch": EPOCH, "offset": -1}),
        "since.offset",
    ),
    "offset missing": (request("history", channel="a", since={"epoch": EPOCH}), "since.offset"),
    "unknown part of a serial": (
        request("history", channel="a", since={"epoch": EPOCH, "offset": 1, "x": 1}),
        "since",
    ),
    "since and positions": (
        request(
            "subscribe",
            items=[{"channel": "a", "since": {"epoch": EPOCH, "offset": 1}, "positions": {}}],
        ),
        "items[0]",
    ),
    "too many positions": (
        request(
            "subscribe",
            items=[
                {
                    "channel": "*",
                    "positions": {str(n): {"epoch": EPOCH, "offset": n} for n in range(10_001)},
                }
            ],
        ),
        "items[0].positions",
    ),
    "page too long": (request("history", channel="a", limit=1001), "limit"),
    "negative time": (request("history", channel="a", from_ms=-1), "from_ms"),
    "unknown direction": (request("history", channel="a", direction=SECRET), "direction"),
    "unsubscribe from nothing": (request("unsubscribe", channels=[]), "channels"),
    "unsubscribe from a number": (request("unsubscribe", channels=[1]), "channels[0]"),
    "presence of nothing": (request("presence"), "channel"),
    # identity
    "no credentials": (request("auth"), ""),
    "credentials too long": (request("auth", text="x" * 16_385), "credentials"),
    "no restore key": (request("session_restore"), "key"),
    "empty restore key": (request("session_restore", key=""), "key"),
    "restore key too long": (request("session_restore", key="k" * 257), "key"),
    # services
    "no method": (request("rpc", text=""), "method"),
    "empty stream": (request("stream_enqueue", stream="", text=""), "stream"),
    "empty notification": (
        request("mark_notification_as_read", channel="a", notifications=[""]),
        "notifications[0]",
    ),
    # documents
    "no operations": (change(), "operations"),
    "unknown operation": (change({"op": SECRET, "path": ""}), "operations[0].op"),
    "no path": (change({"op": "remove"}), "operations[0].path"),
    "add without a value": (change({"op": "add", "path": "/a"}), "operations[0].value"),
    "move without from": (change({"op": "move", "path": "/a"}), "operations[0].from"),
    "negative version": (change({"op": "remove", "path": ""}, if_version=-1), "if_version"),
    "value too deep": (add(nested(65)), "operations[0].value"),
    "value too large a number": (add(b"9223372036854775808"), "operations[0].value"),
    "value far too large a number": (add(b"9" * 5000), "operations[0].value"),
    "value beyond doubles": (add(b"1e400"), "operations[0].value"),
    "binary no text": (add(b'{"$binary":1}'), "operations[0].value"),
    "binary no base64": (add(b'{"$binary":"hunter2!"}'), "operations[0].value"),
    "binary with a letter beyond ASCII": (add('{"$binary":"é"}'.encode()), "operations[0].value"),
    "literal no object": (add(b'{"$literal":[]}'), "operations[0].value"),
}


def refusal(data: bytes) -> ArautoError:
    with pytest.raises(ArautoError) as caught:
        decode_whole(CODEC, data)
    error = caught.value
    assert SECRET not in str(error)
    assert len(str(error)) < 200
    return error


@pytest.mark.parametrize("data", ENVELOPES.values(), ids=ENVELOPES)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    assert refusal(data).code is Code.BAD_ENVELOPE


@pytest.mark.parametrize(("data", "field"), FIELDS.values(), ids=FIELDS)
def test_a_bad_field_is_refused_and_named(data: bytes, field: str) -> None:
    error = refusal(data)
    assert (error.code, error.field) == (Code.BAD_FIELD, field)


@pytest.mark.parametrize(
    ("event", "list_name", "item"),
    [
        ("publish", "messages", {"channel": "a", "text": ""}),
        ("subscribe", "items", {"channel": "a"}),
        ("unsubscribe", "channels", "a"),
        ("document_change", "operations", {"op": "remove", "path": ""}),
        ("mark_notification_as_read", "notifications", "a"),
    ],
)
def test_a_batch_takes_a_thousand_items_and_no_more(event: str, list_name: str, item: Any) -> None:
    other = (
        {"channel": "doc:a"} if event in ("document_change", "mark_notification_as_read") else {}
    )
    decode_whole(CODEC, request(event, **other, **{list_name: [item] * 1000}))
    error = refusal(request(event, **other, **{list_name: [item] * 1001}))
    assert (error.code, error.field) == (Code.BATCH_TOO_LARGE, list_name)


@pytest.mark.parametrize("name", ["hunter2", "", "PING", "ping ", "publish\0"])
def test_an_event_that_does_not_exist_is_refused(name: str) -> None:
    error = refusal(json.dumps({"event": name}).encode())
    assert (error.code, error.field) == (Code.UNKNOWN_EVENT, "event")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("subscirbe", "; did you mean subscribe?"),
        ("Subscribe", "; did you mean subscribe?"),
        ("documentGet", "; did you mean document_get?"),
        ("hunter2", ""),
        ("subscirbe" * 100_000, ""),
    ],
)
def test_a_mistyped_event_is_answered_with_the_one_that_was_meant(name: str, hint: str) -> None:
    error = refusal(json.dumps({"event": name}).encode())
    assert (error.code, error.field) == (Code.UNKNOWN_EVENT, "event")
    assert error.message == "must be one of the event names" + hint


@pytest.mark.parametrize(
    "name",
    [
        *("session_info", "session_restored", "ack", "join", "leave", "error", "gap"),
        *("document_updated", "document_info"),
        *("notification_new", "notification_read", "notification_info"),
    ],
)
def test_an_event_of_the_server_is_refused(name: str) -> None:
    error = refusal(json.dumps({"event": name, "id": 1}).encode())
    assert (error.code, error.field) == (Code.NOT_FROM_CLIENT, "event")


def test_two_different_events_in_one_object_are_refused() -> None:
    error = refusal(b'{"event":"ping","event":"publish","id":1}')
    assert error.field == "event"


@pytest.mark.parametrize(
    ("data", "request_id"),
    [
        (request("publish"), 1),
        (publish(hunter2=1), 1),
        (b'{"event":"hunter2","id":7}', 7),
        (b'{"event":"ping","id":-1}', 0),
        (b'{"event":"ping","id":true}', 0),
        (b'{"event":"ping","id":9007199254740992}', 0),
        (b'{"event":"ping","id":1', 0),
        (b"[]", 0),
        (b"\xff", 0),
        (nested(100_000), 0),
    ],
)
def test_the_id_of_a_refused_request_is_found_if_it_is_there(data: bytes, request_id: int) -> None:
    assert CODEC.request_id(data) == request_id


@pytest.mark.parametrize(
    "data",
    [
        b'{"event":"close"}',
        b'{"event":"publish","channel":"a"}',
        b'{"event":"publish","channel":"a","serial":{"epoch":"x","offset":1},"ts_ms":1,"text":""}',
        b'{"event":"document_get","channel":"a","version":1,"value":{"$binary":1}}',
        b'{"event":"nothing"}',
        b"",
        b"\xff",
    ],
)
def test_a_client_refuses_what_no_server_sends(data: bytes) -> None:
    with pytest.raises(ArautoError):
        CODEC.decode_event(data)


def test_a_client_ignores_fields_it_does_not_know() -> None:
    event = CODEC.decode_event(
        b'{"event":"document_updated","channel":"a","version":1,"new":1,'
        b'"operations":[{"op":"remove","path":"","new":1}]}'
    )
    assert CODEC.decode_event(CODEC.encode_event(event)) == event


def test_surplus_members_of_an_operation_are_ignored_as_rfc_6902_wants() -> None:
    data = change({"op": "remove", "path": "/a", "value": 1, "from": "/b", "note": "x"})
    request = whole(CODEC.decode_known(data, Unknown()))
    assert isinstance(request, DocumentChangeRequest)
    assert request.operations == (Operation(op="remove", path="/a"),)
