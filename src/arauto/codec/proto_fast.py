"""A quick reader for the publish requests that nearly every client sends. Pure; used by `proto`.

Reading fields through generated objects costs about twice what the rest of decoding a publish does. Messages
that hold just a channel, a payload and perhaps a common content type, in field order, are read here
straight from the bytes; for anything else — other fields, another order, anything wrong — the answer is None
and the general decoder has the word. A property test and a fuzz target hold the two to the same answers.
"""

from arauto.codec.events import PublishItem, PublishRequest
from arauto.limits import BATCH_LEN_MAX, UINT53_MAX
from arauto.model import JSON, TEXT

__all__ = ["read_publish"]

_ID_TAG = 0x08
_MESSAGE_TAG = 0x12
_CHANNEL_TAG = 0x0A
_PAYLOAD_TAG = 0x12
_CONTENT_TYPE_TAG = 0x1A
_CONTENT_TYPES = {name.encode(): name for name in (JSON, TEXT)}


def read_publish(payload: bytes) -> PublishRequest | None:
    """Return the request, or None if the general decoder must look at it.

    What is returned needs no further checks: there is nothing in it that a check could refuse.
    """
    try:
        pos = request_id = 0
        if payload[0] == _ID_TAG:
            request_id = payload[1]
            pos = 2
            if request_id > 127:
                request_id, pos = _read_long(payload, request_id, pos)
        end = len(payload)
        items: list[PublishItem] = []
        for _ in range(BATCH_LEN_MAX):
            if payload[pos] != _MESSAGE_TAG:
                return None
            size = payload[pos + 1]
            pos += 2
            if size > 127:
                size, pos = _read_long(payload, size, pos)
            item = _read_item(payload, pos, pos + size)
            if item is None:
                return None
            items.append(item)
            pos += size
            if pos == end:
                return PublishRequest(id=request_id, items=tuple(items))
    except (IndexError, UnicodeDecodeError):
        pass
    return None


def _read_item(data: bytes, pos: int, end: int) -> PublishItem | None:
    # Reading past the end is harmless: the position then fails to meet `end`, or raises IndexError.
    if data[pos] != _CHANNEL_TAG:
        return None
    size = data[pos + 1]
    pos += 2
    if size > 127:
        size, pos = _read_long(data, size, pos)
    at = pos + size
    if data[at] != _PAYLOAD_TAG:
        return None
    channel = data[pos:at].decode()
    size = data[at + 1]
    pos = at + 2
    if size > 127:
        size, pos = _read_long(data, size, pos)
    at = pos + size
    if at == end:
        return PublishItem(channel=channel, payload=data[pos:at])
    if data[at] != _CONTENT_TYPE_TAG or at + 2 + data[at + 1] != end:
        return None
    content_type = _CONTENT_TYPES.get(data[at + 2 : end])
    if content_type is None:
        return None
    return PublishItem(channel=channel, payload=data[pos:at], content_type=content_type)


def _read_long(data: bytes, first: int, pos: int) -> tuple[int, int]:
    """Return a number of more than one byte and where it ends; more than 53 bits are not for us."""
    value = first & 127
    for shift in range(7, 53, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128 and value <= UINT53_MAX:
            return value, pos
    raise IndexError
