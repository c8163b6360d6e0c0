"""What the Python load generator sends, per protocol. Pure: returns bytes.

Protocols are named as on the generators' command line: arauto-proto, arauto-json, nats, redis, mqtt.
"""

from arauto.bench.failure import BenchError
from arauto.bench.frames import (
    Counter,
    MqttCounter,
    NatsCounter,
    RedisCounter,
    WebSocketCounter,
    client_frame,
)
from arauto.codec.base import Codec
from arauto.codec.events import PublishItem, PublishRequest, SubscribeItem, SubscribeRequest
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.model import TEXT

__all__ = ["PROTOCOLS", "counter", "hello", "publish", "subscribe"]

PROTOCOLS = ("arauto-proto", "arauto-json", "nats", "redis", "mqtt")

_CODECS: dict[str, Codec] = {"arauto-proto": ProtoCodec(), "arauto-json": JsonCodec()}


def counter(proto: str) -> Counter:
    """Return a fresh counter for a connection's bytes."""
    match proto:
        case "nats":
            return NatsCounter()
        case "redis":
            return RedisCounter()
        case "mqtt":
            return MqttCounter()
        case "arauto-proto" | "arauto-json":
            return WebSocketCounter(proto.removeprefix("arauto-"), upgraded=False)
    raise BenchError(f"unknown protocol {proto}")


def hello(proto: str, port: int, client: str) -> bytes:
    """Return what a connection says first; the server's answer is its first step."""
    match proto:
        case "nats":
            return b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"1"}\r\nPING\r\n'
        case "redis":
            return b"PING\r\n"
        case "mqtt":
            head = _mqtt_text("MQTT") + b"\x04\x02\x00\x00"  # 3.1.1, clean session, no keep-alive
            return _mqtt_packet(0x10, head + _mqtt_text(client))
    return (
        f"GET /v1/ws?hub=bench HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Protocol: {_CODECS[proto].name}\r\n\r\n"
    ).encode()


def subscribe(proto: str, channel: str) -> bytes:
    """Return a subscription; the server's answer is the connection's second step."""
    match proto:
        case "nats":
            return f"SUB {channel} 1\r\nPING\r\n".encode()
        case "redis":
            return _resp("SUBSCRIBE", channel)
        case "mqtt":
            return _mqtt_packet(0x82, b"\x00\x01" + _mqtt_text(channel) + b"\x00")
    codec = _CODECS[proto]
    request = SubscribeRequest(id=1, items=(SubscribeItem(channel=channel),))
    return client_frame(1 if codec.is_text else 2, codec.encode_request(request))


def publish(proto: str, channel: str, payload: bytes, *, number: int = 0, batch: int = 1) -> bytes:
    """Return one publication; Arauto answers if `number` is not 0, and takes `batch` equal items."""
    match proto:
        case "nats":
            return b"PUB %b %d\r\n%b\r\n" % (channel.encode(), len(payload), payload)
        case "redis":
            return _resp("PUBLISH", channel, payload.decode())
        case "mqtt":
            return _mqtt_packet(0x30, _mqtt_text(channel) + payload)
    codec = _CODECS[proto]
    kind = TEXT if codec.is_text else ""
    item = PublishItem(channel=channel, payload=payload, content_type=kind)
    request = PublishRequest(id=number, items=(item,) * batch)
    return client_frame(1 if codec.is_text else 2, codec.encode_request(request))


def _resp(*words: str) -> bytes:
    parts = [f"*{len(words)}\r\n", *(f"${len(word.encode())}\r\n{word}\r\n" for word in words)]
    return "".join(parts).encode()


def _mqtt_text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _mqtt_packet(first: int, body: bytes) -> bytes:
    length = bytearray()
    size = len(body)
    while size > 127:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((first,)) + bytes(length) + body
