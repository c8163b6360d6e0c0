"""What a newer client or server may say: vectors' requests and events with fields this version does not know.

Each is built from a sample: the same bytes, and something a later v1 may have added.
"""

import json
from collections.abc import Callable
from typing import Any

from arauto.codec import arauto_pb2 as pb
from arauto.codec.json import JsonCodec
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec, _unwrap, _wrap
from tests.unit.codec.samples import EVENTS, REQUESTS

__all__ = ["NEWER_EVENTS", "NEWER_REQUESTS"]

Change = Callable[[Any], None]

_PROTO, _JSON = ProtoCodec(), JsonCodec()

#: Field 99, a varint; field 1000, which says that it must be understood.
_NEW, _ESSENTIAL = b"\x98\x06\x01", b"\xc0\x3e\x01"


def _vary(
    proto: bytes, text: bytes, kind: Any, in_proto: Change | None, in_json: Change
) -> tuple[bytes, bytes]:
    number, payload = _unwrap(proto)
    if in_proto is None:
        proto = proto + _NEW
    else:
        message = kind.FromString(payload)
        in_proto(message)
        proto = _wrap(EventType(number), message.SerializeToString())
    plain = json.loads(text)
    in_json(plain)
    return proto, json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()


def _with(data: bytes, at: Callable[[Any], Any] = lambda message: message) -> Change:
    return lambda message: at(message).MergeFromString(data)


def _put(name: str, value: Any, at: Callable[[Any], Any] = lambda plain: plain) -> Change:
    return lambda plain: at(plain).update({name: value})


def _first(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return (lambda message: getattr(message, name)[0], lambda plain: plain[name][0])


_MESSAGE, _ITEM, _OPERATION = _first("messages"), _first("items"), _first("operations")
_RESULT, _MEMBER = _first("results"), _first("members")


def _request(
    sample: str, kind: Any, in_proto: Change | None, in_json: Change
) -> tuple[bytes, bytes]:
    request = REQUESTS[sample]
    return _vary(
        _PROTO.encode_request(request), _JSON.encode_request(request), kind, in_proto, in_json
    )


def _event(sample: str, kind: Any, in_proto: Change | None, in_json: Change) -> tuple[bytes, bytes]:
    event = EVENTS[sample]
    return _vary(_PROTO.encode_event(event), _JSON.encode_event(event), kind, in_proto, in_json)


#: Name → the sample it is carried out as ("" = refused), the code (0 = none), and both flavours' bytes.
NEWER_REQUESTS: dict[str, tuple[str, int, tuple[bytes, bytes]]] = {
    "field_beside_the_payload": (
        "presence",
        0,
        _request("presence", pb.PresenceRequest, None, _put("trace", "abc")),
    ),
    "field_in_a_request": (
        "history_newest",
        0,
        _request("history_newest", pb.HistoryRequest, _with(_NEW), _put("compact", True)),
    ),
    "field_in_ping": ("ping", 0, _request("ping", pb.Ping, _with(_NEW), _put("load", 0.5))),
    "field_in_close": (
        "close",
        0,
        _request("close", pb.CloseRequest, _with(_NEW), _put("why", "")),
    ),
    "field_in_a_message": (
        "publish_json",
        0,
        _request(
            "publish_json",
            pb.PublishRequest,
            _with(_NEW, _MESSAGE[0]),
            _put("priority", 5, _MESSAGE[1]),
        ),
    ),
    "field_in_a_subscription": (
        "subscribe_recover",
        0,
        _request(
            "subscribe_recover",
            pb.SubscribeRequest,
            _with(_NEW, _ITEM[0]),
            _put("sample", {"every": 2}, _ITEM[1]),
        ),
    ),
    "field_in_an_operation": (
        "document_change",
        0,
        _request(
            "document_change",
            pb.DocumentChangeRequest,
            _with(_NEW, _OPERATION[0]),
            _put("note", "n", _OPERATION[1]),
        ),
    ),
    "essential_field_in_a_message": (
        "",
        1003,
        _request(
            "publish_json",
            pb.PublishRequest,
            _with(_ESSENTIAL, _MESSAGE[0]),
            _put("must_reach", ["ann"], _MESSAGE[1]),
        ),
    ),
    "essential_field_in_a_request": (
        "",
        1003,
        _request("subscribe", pb.SubscribeRequest, _with(_ESSENTIAL), _put("must_filter", "x > 1")),
    ),
    "field_in_a_serial": (
        "",
        1003,
        _request(
            "subscribe_recover",
            pb.SubscribeRequest,
            _with(_NEW, lambda message: message.items[0].since),
            _put("shard", 1, lambda plain: plain["items"][0]["since"]),
        ),
    ),
    "word_of_a_newer_list": (
        "",
        1003,
        _request(
            "publish_json",
            pb.PublishRequest,
            lambda message: setattr(message.messages[0], "echo", 7),
            _put("echo", "not_group", _MESSAGE[1]),
        ),
    ),
    "event_of_a_newer_version": (
        "",
        1001,
        (
            _wrap(EventType.PING, b"\x08\x05").replace(b"\x08\x01", b"\x08\x7b", 1),
            b'{"event":"channel_search","id":5,"text":"stock"}',
        ),
    ),
}

#: Name → the sample it reads as ("" = an event to be ignored), and both flavours' bytes.
NEWER_EVENTS: dict[str, tuple[str, tuple[bytes, bytes]]] = {
    "field_beside_the_payload": ("pong", _event("pong", pb.Pong, None, _put("trace", "abc"))),
    "field_in_session_info": (
        "session_info",
        _event("session_info", pb.SessionInfo, _with(_NEW), _put("revision", 2)),
    ),
    "field_in_a_publication": (
        "publish_json",
        _event("publish_json", pb.Publication, _with(_NEW), _put("priority", 5)),
    ),
    "field_in_a_result": (
        "subscribe",
        _event(
            "subscribe", pb.SubscribeReply, _with(_NEW, _RESULT[0]), _put("lag_ms", 3, _RESULT[1])
        ),
    ),
    "field_in_a_serial": (
        "subscribe",
        _event(
            "subscribe",
            pb.SubscribeReply,
            _with(_NEW, lambda message: message.results[0].serial),
            _put("shard", 1, lambda plain: plain["results"][0]["serial"]),
        ),
    ),
    "field_in_a_member": (
        "presence",
        _event("presence", pb.Presence, _with(_NEW, _MEMBER[0]), _put("device", "x", _MEMBER[1])),
    ),
    "field_in_an_operation": (
        "document_updated",
        _event(
            "document_updated",
            pb.DocumentUpdated,
            _with(_NEW, _OPERATION[0]),
            _put("note", "n", _OPERATION[1]),
        ),
    ),
    "essential_number_from_a_server": (
        "pong",
        _event("pong", pb.Pong, _with(_ESSENTIAL), _put("must_wait", True)),
    ),
    "event_of_a_newer_version": (
        "",
        (
            _wrap(EventType.PING, b"\x08\x05").replace(b"\x08\x01", b"\x08\x7b", 1),
            b'{"event":"channel_found","channels":["a"]}',
        ),
    ),
}
