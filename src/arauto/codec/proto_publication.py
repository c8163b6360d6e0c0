"""A quick writer for publications, the one event that is encoded per message. Pure; used by `proto`.

Writes the envelope and the publication in one go, byte for byte what the generated code would write. The
parts that repeat from message to message (channel, session, time) are kept ready. Messages with anything
out of the ordinary go the general way. A property test holds the two to the same bytes.
"""

from functools import lru_cache

from arauto.model import Message

__all__ = ["write_publication"]

_SIZES = tuple(bytes((size,)) for size in range(128))


def _varint(value: int) -> bytes:
    if value < 128:
        return _SIZES[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=4_096)
def _channel_field(channel: str) -> bytes:
    text = channel.encode()
    return b"\x0a" + _varint(len(text)) + text


@lru_cache(maxsize=1_024)
def _session_field(session: str) -> bytes:
    text = session.encode()
    return b"\x42" + _varint(len(text)) + text if text else b""


@lru_cache(maxsize=16)
def _ts_field(ts_ms: int) -> bytes:
    return b"\x28" + _varint(ts_ms)


def write_publication(message: Message) -> bytes | None:
    """Return the envelope of a plain publication; None if the general encoder must write it."""
    if (
        message.content_type
        or message.id
        or message.user
        or message.headers
        or message.key
        or message.expires_ms
        or message.retain
        or message.store
        or not message.payload
        or not message.offset
        or not message.epoch
        or not message.ts_ms
    ):
        return None
    payload = message.payload
    size = len(payload)
    offset = message.offset
    if offset < 128:
        place = _SIZES[offset]
    elif offset < 16_384:
        place = bytes((offset & 127 | 128, offset >> 7))
    else:
        place = _varint(offset)
    body = b"".join(
        (
            _channel_field(message.channel),
            b"\x12",
            _SIZES[size] if size < 128 else _varint(size),
            payload,
            b"\x19",
            message.epoch.to_bytes(8, "little"),
            b"\x20",
            place,
            _ts_field(message.ts_ms),
            _session_field(message.session),
        )
    )
    size = len(body)
    return b"\x08\x0a\x12" + (_SIZES[size] if size < 128 else _varint(size)) + body
