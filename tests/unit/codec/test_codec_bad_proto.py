"""Bad input in the protobuf flavour: what is refused, with which code, and which field is named."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message as ProtoMessage

from arauto.codec import arauto_pb2 as pb
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec
from arauto.errors import ArautoError, Code
from tests.unit.codec.samples import decode_whole

CODEC = ProtoCodec()

#: Something that must never come back in an error.
SECRET = "hunter2"


def envelope(event: int, payload: bytes | ProtoMessage = b"") -> bytes:
    data = payload if isinstance(payload, bytes) else payload.SerializeToString()
    return pb.Envelope(event=event, payload=data).SerializeToString()  # type: ignore[arg-type]


def publish(**fields: Any) -> bytes:
    """One publish whose single message has these fields beside its channel and payload."""
    item = pb.PublishItem(**{"channel": "a", "payload": SECRET.encode(), **fields})
    return envelope(EventType.PUBLISH, pb.PublishRequest(id=1, messages=[item]))


def subscribe(**fields: Any) -> bytes:
    request = pb.SubscribeRequest(id=1, items=[pb.SubscribeItem(channel="a", **fields)])
    return envelope(EventType.SUBSCRIBE, request)


def history(**fields: Any) -> bytes:
    return envelope(EventType.HISTORY, pb.HistoryRequest(id=1, channel="a", **fields))


def change(*operations: pb.Operation, **fields: Any) -> bytes:
    request = pb.DocumentChangeRequest(id=1, channel="doc:a", operations=operations, **fields)
    return envelope(EventType.DOCUMENT_CHANGE, request)


def add(value: pb.Value) -> bytes:
    return change(pb.Operation(op=pb.OP_ADD, path="/a", value=value))


def nested(depth: int) -> pb.Value:
    value = pb.Value(integer=1)
    for _ in range(depth):
        value = pb.Value(list=True, items=[value])
    return value


PING = envelope(EventType.PING, pb.Ping(id=1))
GOOD = publish()

ENVELOPES = {
    "text": b"hunter2",
    "JSON": b'{"event":"ping"}',
    "a lone byte": b"\x08",
    "truncated by one": GOOD[:-1],
    "truncated in the middle": GOOD[: len(GOOD) // 2],
    "trailing garbage": GOOD + b"\xff",
    "length beyond the end": b"\x08\x0a\x12\x7f\x08",
    "length of 255 with 255 bytes": b"\x08\x0a\x12\xff\xff\x01" + b"a" * 253,
    "length of four gigabytes": b"\x08\x0a\x12\xff\xff\xff\xff\x0f",
    "overlong varint": b"\x08" + b"\xff" * 10 + b"\x01",
    "end of a group that never began": b"\x0c",
    "field number 0": b"\x00\x01",
    "wire type 7": b"\x0f\x01",
    "payload no publish request": envelope(EventType.PUBLISH, b"\x12\x05abc"),
    "payload no UTF-8": envelope(EventType.PUBLISH, b"\x12\x05\x0a\x01\xff\x12\x00"),
    "payload with an encoded surrogate": envelope(EventType.PRESENCE, b"\x12\x03\xed\xa0\x80"),
    "payload text": envelope(EventType.SUBSCRIBE, b"hunter2"),
    "payload truncated": envelope(EventType.AUTH, b"\x12\x7f"),
    "nested beyond all measure": add(nested(99)),
}

FIELDS: dict[str, tuple[bytes, str]] = {
    # unknown fields
    "unknown field in the envelope": (PING + b"\x18\x01", "envelope"),
    "event of the wrong wire type": (b"\x0a\x01a", "envelope"),
    "payload of the wrong wire type": (b"\x08\x01\x10\x01", "envelope"),
    "unknown field in ping": (envelope(EventType.PING, b"\x08\x01\x10\x01"), "payload"),
    "id of the wrong wire type": (envelope(EventType.PING, b"\x0a\x01a"), "payload"),
    "a field in close": (envelope(EventType.CLOSE, b"\x08\x01"), "payload"),
    # ids
    "id beyond 53 bits": (envelope(EventType.PING, pb.Ping(id=2**53)), "id"),
    "id of 64 bits": (envelope(EventType.PONG, pb.Pong(id=2**64 - 1)), "id"),
    "id beyond 53 bits in a publish": (
        envelope(
            EventType.PUBLISH, b"\x08\x80\x80\x80\x80\x80\x80\x80\x10\x12\x05\x0a\x01a\x12\x00"
        ),
        "id",
    ),
    # publish
    "no messages": (envelope(EventType.PUBLISH, pb.PublishRequest(id=1)), "messages"),
    "no payload at all": (envelope(EventType.PUBLISH), "messages"),
    "unknown echo": (publish(echo=7), "messages[0].echo"),
    "negative echo": (publish(echo=-1), "messages[0].echo"),
    "content type too long": (publish(content_type="a" * 128), "messages[0].content_type"),
    "content type with a line break": (
        publish(content_type="a/b\r\nx: y"),
        "messages[0].content_type",
    ),
    "content type beyond ASCII": (publish(content_type="é/b"), "messages[0].content_type"),
    "key with a NUL": (publish(key="a\0b"), "messages[0].key"),
    "key too long": (publish(key="é" * 128), "messages[0].key"),
    "idempotency key too long": (publish(idempotency_key="k" * 129), "messages[0].idempotency_key"),
    "idempotency key with a line break": (
        publish(idempotency_key="a\nb"),
        "messages[0].idempotency_key",
    ),
    "ttl beyond a century": (publish(ttl_ms=3_155_760_000_001), "messages[0].ttl_ms"),
    "ttl of 64 bits": (publish(ttl_ms=2**64 - 1), "messages[0].ttl_ms"),
    "header name with a space": (publish(headers={"a b": ""}), "messages[0].headers"),
    "empty header name": (publish(headers={"": ""}), "messages[0].headers"),
    "header name too long": (publish(headers={"n" * 65: ""}), "messages[0].headers"),
    "header value with a line break": (publish(headers={"a": "b\r\nc: d"}), "messages[0].headers"),
    "too many headers": (publish(headers={f"h{n}": "" for n in range(33)}), "messages[0].headers"),
    "too many header bytes": (publish(headers={"h": "v" * 8192}), "messages[0].headers"),
    "header of the pipeline": (publish(headers={"x-hops": "1"}), "messages[0].headers"),
    # subscribe, history
    "no items": (envelope(EventType.SUBSCRIBE, pb.SubscribeRequest(id=1)), "items"),
    "epoch beyond 63 bits": (subscribe(since=pb.Serial(epoch=2**63)), "items[0].since.epoch"),
    "offset beyond 53 bits": (subscribe(since=pb.Serial(offset=2**53)), "items[0].since.offset"),
    "since and positions": (subscribe(since=pb.Serial(), positions=pb.Positions()), "items[0]"),
    "position beyond 63 bits": (
        subscribe(positions=pb.Positions(channels={"a": pb.Serial(epoch=2**63)})),
        "items[0].positions.epoch",
    ),
    "too many positions": (
        subscribe(positions=pb.Positions(channels={str(n): pb.Serial() for n in range(10_001)})),
        "items[0].positions",
    ),
    "since beyond 63 bits": (history(since=pb.Serial(epoch=2**64 - 1)), "since.epoch"),
    "until beyond 53 bits": (history(until=pb.Serial(offset=2**64 - 1)), "until.offset"),
    "page too long": (history(limit=1001), "limit"),
    "time beyond 53 bits": (history(from_ms=2**53), "from_ms"),
    "other time beyond 53 bits": (history(to_ms=2**64 - 1), "to_ms"),
    "unknown direction": (history(direction=2), "direction"),
    "unsubscribe from nothing": (
        envelope(EventType.UNSUBSCRIBE, pb.UnsubscribeRequest(id=1)),
        "channels",
    ),
    # identity
    "credentials too long": (
        envelope(EventType.AUTH, pb.AuthRequest(id=1, credentials=b"x" * 16_385)),
        "credentials",
    ),
    "no restore key": (envelope(EventType.SESSION_RESTORE, pb.RestoreRequest(id=1)), "key"),
    "restore key too long": (
        envelope(EventType.SESSION_RESTORE, pb.RestoreRequest(id=1, key="k" * 257)),
        "key",
    ),
    "restored position beyond 63 bits": (
        envelope(
            EventType.SESSION_RESTORE,
            pb.RestoreRequest(key="k", positions={"a": pb.Serial(epoch=2**63)}),
        ),
        "positions.epoch",
    ),
    # services
    "no method": (envelope(EventType.RPC, pb.RpcRequest(id=1)), "method"),
    "method with a NUL": (envelope(EventType.RPC, pb.RpcRequest(method="a\0")), "method"),
    "timeout beyond 53 bits": (
        envelope(EventType.RPC, pb.RpcRequest(method="m", timeout_ms=2**53)),
        "timeout_ms",
    ),
    "no stream": (envelope(EventType.STREAM_ENQUEUE, pb.StreamRequest(id=1)), "stream"),
    "no notifications": (
        envelope(EventType.MARK_NOTIFICATION_AS_READ, pb.MarkReadRequest(id=1)),
        "notifications",
    ),
    "empty notification": (
        envelope(EventType.MARK_NOTIFICATION_AS_READ, pb.MarkReadRequest(notifications=[""])),
        "notifications[0]",
    ),
    # documents
    "no operations": (change(), "operations"),
    "no operation": (change(pb.Operation(path="/a")), "operations[0].op"),
    "unknown operation": (change(pb.Operation(op=7)), "operations[0].op"),  # type: ignore[arg-type]
    "add without a value": (change(pb.Operation(op=pb.OP_ADD)), "operations[0].value"),
    "remove with a value": (
        change(pb.Operation(op=pb.OP_REMOVE, value=pb.Value(null=True))),
        "operations[0].value",
    ),
    "move without source": (change(pb.Operation(op=pb.OP_MOVE)), "operations[0].source"),
    "remove with source": (
        change(pb.Operation(op=pb.OP_REMOVE, source="")),
        "operations[0].source",
    ),
    "version beyond 53 bits": (
        change(pb.Operation(op=pb.OP_REMOVE), if_version=2**53),
        "if_version",
    ),
    "value of no kind": (add(pb.Value()), "operations[0].value"),
    "value NaN": (add(pb.Value(number=float("nan"))), "operations[0].value"),
    "value infinite": (add(pb.Value(number=float("-inf"))), "operations[0].value"),
    "value too deep": (add(nested(65)), "operations[0].value"),
    "number with items": (
        add(pb.Value(integer=1, items=[pb.Value(null=True)])),
        "operations[0].value",
    ),
    "text with keys": (add(pb.Value(text="a", keys=["b"])), "operations[0].value"),
    "list with keys": (add(pb.Value(list=True, keys=["a"])), "operations[0].value"),
    "map with fewer keys": (
        add(pb.Value(map=True, items=[pb.Value(null=True)])),
        "operations[0].value",
    ),
    "map with fewer items": (add(pb.Value(map=True, keys=["a"])), "operations[0].value"),
    "map with a key twice": (
        add(pb.Value(map=True, keys=["a", "a"], items=[pb.Value(null=True)] * 2)),
        "operations[0].value",
    ),
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
    ("event", "list_name", "make"),
    [
        (
            EventType.PUBLISH,
            "messages",
            lambda n: pb.PublishRequest(messages=[pb.PublishItem(channel="a", payload=b"b")] * n),
        ),
        (
            EventType.PUBLISH,
            "messages",
            lambda n: pb.PublishRequest(messages=[pb.PublishItem(channel="a", retain=True)] * n),
        ),
        (
            EventType.SUBSCRIBE,
            "items",
            lambda n: pb.SubscribeRequest(items=[pb.SubscribeItem(channel="a")] * n),
        ),
        (EventType.UNSUBSCRIBE, "channels", lambda n: pb.UnsubscribeRequest(channels=["a"] * n)),
        (
            EventType.DOCUMENT_CHANGE,
            "operations",
            lambda n: pb.DocumentChangeRequest(operations=[pb.Operation(op=pb.OP_REMOVE)] * n),
        ),
        (
            EventType.MARK_NOTIFICATION_AS_READ,
            "notifications",
            lambda n: pb.MarkReadRequest(notifications=["a"] * n),
        ),
    ],
)
def test_a_batch_takes_a_thousand_items_and_no_more(
    event: EventType, list_name: str, make: Callable[[int], ProtoMessage]
) -> None:
    decode_whole(CODEC, envelope(event, make(1000)))
    error = refusal(envelope(event, make(1001)))
    assert (error.code, error.field) == (Code.BATCH_TOO_LARGE, list_name)


@pytest.mark.parametrize("number", [0, 29, 127, 128, 2**31 - 1, -1])
def test_an_event_that_does_not_exist_is_refused(number: int) -> None:
    error = refusal(envelope(number, b"\x08\x01"))
    assert (error.code, error.field) == (Code.UNKNOWN_EVENT, "event")


def test_an_empty_frame_names_no_event() -> None:
    assert refusal(b"").code is Code.UNKNOWN_EVENT


@pytest.mark.parametrize(
    "event",
    [
        *(EventType.SESSION_INFO, EventType.SESSION_RESTORED, EventType.ACK, EventType.JOIN),
        *(EventType.LEAVE, EventType.ERROR, EventType.GAP),
        *(EventType.DOCUMENT_UPDATED, EventType.DOCUMENT_INFO),
        *(EventType.NOTIFICATION_NEW, EventType.NOTIFICATION_READ, EventType.NOTIFICATION_INFO),
    ],
)
def test_an_event_of_the_server_is_refused(event: EventType) -> None:
    error = refusal(envelope(event))
    assert (error.code, error.field) == (Code.NOT_FROM_CLIENT, "event")


@pytest.mark.parametrize(
    ("data", "request_id"),
    [
        (publish(echo=7), 1),
        (envelope(99, pb.Ping(id=7)), 7),
        (envelope(EventType.PING, pb.Ping(id=2**53)), 0),
        (envelope(EventType.PING, b"\x0a\x01a"), 0),
        (GOOD[:-1], 0),
        (PING + b"\x18\x01", 1),
        (b"hunter2", 0),
        (b"", 0),
    ],
)
def test_the_id_of_a_refused_request_is_found_if_it_is_there(data: bytes, request_id: int) -> None:
    assert CODEC.request_id(data) == request_id


@pytest.mark.parametrize(
    "data",
    [
        envelope(EventType.CLOSE),
        envelope(EventType.NOTIFICATION_NEW),
        envelope(99),
        envelope(EventType.PUBLISH, b"\xff"),
        envelope(EventType.DOCUMENT_GET, pb.DocumentGetReply(channel="a")),
        b"\xff",
    ],
)
def test_a_client_refuses_what_no_server_sends(data: bytes) -> None:
    with pytest.raises(ArautoError):
        CODEC.decode_event(data)
