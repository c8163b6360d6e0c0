"""Example records with names, from which tests/vectors and the protocol pages' examples are made."""

from collections.abc import Mapping

import msgspec

from arauto.codec import events as ev
from arauto.codec.base import Codec
from arauto.codec.unread import operations_of
from arauto.model import JSON, TEXT, Direction, Grant, Grants, Member, Message, Serial

__all__ = ["EVENTS", "REQUESTS", "decode_whole", "whole"]


def decode_whole(codec: Codec, data: bytes) -> ev.Request:
    """Decode a request, and the values that a server reads later."""
    return whole(codec.decode_request(data))


def whole(request: ev.Request) -> ev.Request:
    """The request with the values that a server reads later."""
    if isinstance(request, ev.DocumentChangeRequest):
        return msgspec.structs.replace(request, operations=operations_of(request))
    return request


EPOCH = 0x0190F3A2B4C5D6E7
HERE = Serial(EPOCH, 12)

REQUESTS: Mapping[str, ev.Request] = {
    "ping": ev.Ping(id=1),
    "ping_without_id": ev.Ping(),
    "pong": ev.Pong(id=3),
    "close": ev.CloseRequest(),
    "restore": ev.RestoreRequest(id=4, key="Zk3vT9qX"),
    "restore_with_positions": ev.RestoreRequest(id=4, key="Zk3vT9qX", positions={"stock:42": HERE}),
    "auth_token": ev.AuthRequest(id=5, credentials=b"eyJhbGciOiJIUzI1NiJ9.e30.c2ln"),
    "auth_binary": ev.AuthRequest(id=5, credentials=b"\x00\xff"),
    "subscribe": ev.SubscribeRequest(id=6, items=(ev.SubscribeItem(channel="stock:42"),)),
    "subscribe_recover": ev.SubscribeRequest(
        id=7, items=(ev.SubscribeItem(channel="stock:42", since=HERE),)
    ),
    "subscribe_pattern": ev.SubscribeRequest(
        id=8,
        items=(
            ev.SubscribeItem(channel="weather:*", positions={"weather:lisbon": HERE}),
            ev.SubscribeItem(channel="/shop/floor1", positions={}),
        ),
    ),
    "unsubscribe": ev.UnsubscribeRequest(id=9, channels=("stock:42", "weather:*")),
    "publish_json": ev.PublishRequest(
        id=10,
        items=(ev.PublishItem(channel="stock:42", payload=b'{"left":3}', content_type=JSON),),
    ),
    "publish_text": ev.PublishRequest(
        id=11,
        items=(ev.PublishItem(channel="chat", payload="Olá".encode(), content_type=TEXT),),
    ),
    "publish_binary": ev.PublishRequest(
        items=(ev.PublishItem(channel="frames", payload=b"\x00\x01\xff"),)
    ),
    "publish_image": ev.PublishRequest(
        id=12,
        items=(ev.PublishItem(channel="frames", payload=b"\x89PNG", content_type="image/png"),),
    ),
    "publish_all_options": ev.PublishRequest(
        id=300,
        items=(
            ev.PublishItem(
                channel="stock:42",
                payload=b'{"left":2}',
                content_type=JSON,
                idempotency_key="order-77",
                key="sku-1",
                echo=ev.Echo.NOT_SESSION,
                retain=True,
                store=True,
                push=True,
                ttl_ms=60_000,
                headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
            ),
        ),
    ),
    "publish_batch": ev.PublishRequest(
        id=9007199254740991,
        items=(
            ev.PublishItem(channel="a", payload=b"1", content_type=JSON),
            ev.PublishItem(channel="b", payload=b"", content_type=TEXT, echo=ev.Echo.NOT_USER),
        ),
    ),
    "presence": ev.PresenceRequest(id=13, channel="room:1"),
    "occupancy": ev.OccupancyRequest(id=14, channel="room:1"),
    "history_newest": ev.HistoryRequest(
        id=15, channel="stock:42", limit=50, direction=Direction.BACKWARD
    ),
    "history_between": ev.HistoryRequest(
        id=16,
        channel="stock:42",
        since=Serial(EPOCH, 3),
        until=HERE,
        from_ms=1_700_000_000_000,
        to_ms=1_700_000_060_000,
    ),
    "rpc": ev.RpcRequest(id=17, method="orders.place", payload=b"{}", timeout_ms=5_000),
    "stream_enqueue": ev.StreamRequest(id=18, stream="clicks", payload=b"\xca\xfe"),
    "document_get": ev.DocumentGetRequest(id=19, channel="doc:cart-7"),
    "document_change": ev.DocumentChangeRequest(
        id=20,
        channel="doc:cart-7",
        operations=(
            ev.Operation(op="test", path="/open", value=True),
            ev.Operation(op="add", path="/items/-", value={"sku": "A1", "n": 2}),
            ev.Operation(op="replace", path="/note", value=None),
            ev.Operation(op="remove", path="/draft"),
            ev.Operation(op="move", path="/b", source="/a"),
            ev.Operation(op="copy", path="/all", source=""),
        ),
        if_version=6,
    ),
    "document_values": ev.DocumentChangeRequest(
        id=21,
        channel="doc:values",
        operations=(
            ev.Operation(
                op="add",
                path="",
                value=[None, False, -1, 9007199254740993, 1.5, 1.0, "é", b"\x00\xff", [], {}],
            ),
            ev.Operation(op="add", path="/escaped", value={"$binary": "not base64"}),
            ev.Operation(op="add", path="/twice", value={"$literal": {"$binary": b"\x01"}}),
        ),
    ),
    "mark_read": ev.MarkReadRequest(
        id=22, channel="notification:ann", notifications=("n-1", "n-2")
    ),
}

_ERROR = ev.ErrorEvent(code=2005, message="no grant or rule lets this session subscribe")
_MEMBER = Member(session="s-1", user="ann", joined_ms=1_700_000_000_000, extra={"name": "Ann"})
_GRANTS = Grants(
    channels=(Grant(channel="stock:*", publish=True, subscribe=True),), rpcs=("orders.*",)
)
_JSON_MESSAGE = Message(
    hub="",
    channel="stock:42",
    payload=b'{"left":3}',
    epoch=EPOCH,
    offset=12,
    ts_ms=1_700_000_000_123,
    content_type=JSON,
    session="s-1",
)
_BINARY_MESSAGE = Message(
    hub="", channel="stock:42", payload=b"\x00\xff", epoch=EPOCH, offset=13, ts_ms=1_700_000_000_124
)

EVENTS: Mapping[str, ev.Event] = {
    "ping": ev.Ping(),
    "pong": ev.Pong(id=1),
    "error": ev.ErrorEvent(
        id=10, code=1003, message="must have at least one item", field="messages"
    ),
    "error_retryable": ev.ErrorEvent(
        code=3000, message="a session may send 1000 requests per second", retryable=True
    ),
    "session_info": ev.SessionInfo(
        hub="shop",
        session="s-1",
        node="n1",
        authenticated=False,
        ping_interval_ms=25_000,
        message_bytes_max=65_536,
    ),
    "session_info_deadline": ev.SessionInfo(
        hub="shop",
        session="s-2",
        node="n1",
        authenticated=False,
        allow_anonymous=False,
        user_channel=False,
        auth_deadline_ms=5_000,
        ping_interval_ms=25_000,
        message_bytes_max=65_536,
    ),
    "restore_key": ev.RestoreKey(key="Zk3vT9qX", ttl_ms=120_000),
    "restored": ev.Restored(
        id=4,
        session="s-1",
        user="ann",
        grants=_GRANTS,
        extra={"name": "Ann"},
        results=(
            ev.SubscribeResult(channel="stock:42", serial=HERE, recovered=True, recovered_count=3),
            ev.SubscribeResult(channel="secret", error=_ERROR),
        ),
        expires_in_ms=1_800_000,
    ),
    "auth": ev.AuthReply(
        id=5,
        success=True,
        user="ann",
        token="eyJ0eXAi.e30.c2ln",
        token_expires_ms=1_700_000_300_000,
        grants=_GRANTS,
        extra={"name": "Ann"},
        expires_in_ms=3_600_000,
    ),
    "auth_refused": ev.AuthReply(
        id=5,
        success=False,
        error=ev.ErrorEvent(code=2001, message="the credentials were refused"),
    ),
    "subscribe": ev.SubscribeReply(
        id=6, results=(ev.SubscribeResult(channel="stock:42", serial=HERE),)
    ),
    "subscribe_empty_channel": ev.SubscribeReply(
        id=6, results=(ev.SubscribeResult(channel="new", serial=Serial(EPOCH, 0)),)
    ),
    "subscribe_refused": ev.SubscribeReply(
        id=6, results=(ev.SubscribeResult(channel="secret", error=_ERROR),)
    ),
    "subscribe_pattern": ev.SubscribeReply(
        id=8,
        results=(
            ev.SubscribeResult(
                channel="weather:*",
                recovered_count=2,
                positions={"weather:lisbon": Serial(EPOCH, 14)},
                unrecovered=("weather:porto",),
            ),
        ),
    ),
    "unsubscribe": ev.UnsubscribeReply(id=9, channels=("stock:42", "weather:*")),
    "unsubscribe_by_server": ev.UnsubscribeReply(channels=("secret",), error=_ERROR),
    "publish_json": ev.Publication(message=_JSON_MESSAGE),
    "publish_text": ev.Publication(
        message=Message(
            hub="",
            channel="chat",
            payload="Olá".encode(),
            content_type=TEXT,
            epoch=EPOCH,
            offset=1,
            ts_ms=1_700_000_000_123,
            user="ann",
        )
    ),
    "publish_binary": ev.Publication(message=_BINARY_MESSAGE),
    "publish_false_json": ev.Publication(
        message=Message(
            hub="",
            channel="a",
            payload=b'1,"user":"root"',
            content_type=JSON,
            epoch=EPOCH,
            offset=1,
            ts_ms=1_700_000_000_123,
        )
    ),
    "publish_all_fields": ev.Publication(
        message=Message(
            hub="",
            channel="stock:42",
            payload=b'{"left":2}',
            epoch=EPOCH,
            offset=9007199254740991,
            ts_ms=1_700_000_000_123,
            content_type=JSON,
            id="order-77",
            session="s-1",
            user="ann",
            key="sku-1",
            headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
            expires_ms=1_700_000_060_123,
            retain=True,
            store=True,
        )
    ),
    "ack": ev.Ack(id=10, results=(ev.AckItem(serial=HERE),)),
    "ack_mixed": ev.Ack(
        id=11,
        results=(
            ev.AckItem(serial=HERE, duplicate=True),
            ev.AckItem(
                error=ev.ErrorEvent(
                    code=1005, message="a channel name is not empty", field="channel"
                )
            ),
        ),
    ),
    "join": ev.Join(channel="room:1", member=_MEMBER),
    "leave": ev.Leave(channel="room:1", member=_MEMBER),
    "presence": ev.Presence(id=13, channel="room:1", members=(_MEMBER,), total=250),
    "occupancy": ev.Occupancy(channel="room:1", count=250),
    "history": ev.HistoryReply(
        id=15,
        channel="stock:42",
        messages=(_JSON_MESSAGE, _BINARY_MESSAGE),
        more=True,
        next=Serial(EPOCH, 13),
        serial=Serial(EPOCH, 20),
    ),
    "history_incomplete": ev.HistoryReply(
        id=16, channel="stock:42", messages=(), complete=False, serial=Serial(EPOCH, 20)
    ),
    "gap": ev.Gap(channel="stock:42", after=HERE, upto=Serial(EPOCH, 40), reason="slow_consumer"),
    "document_info": ev.DocumentInfo(channel="doc:cart-7", version=6),
    "document_get": ev.DocumentGetReply(
        id=19, channel="doc:cart-7", version=6, value={"open": True, "photo": b"\x89PNG"}
    ),
    "document_change": ev.DocumentChangeReply(id=20, channel="doc:cart-7", version=7),
    "document_updated": ev.DocumentUpdated(
        channel="doc:cart-7",
        version=7,
        operations=(
            ev.Operation(op="add", path="/items/-", value={"sku": "A1", "n": 2}),
            ev.Operation(op="move", path="/b", source="/a"),
        ),
        user="ann",
        ts_ms=1_700_000_000_123,
    ),
}
