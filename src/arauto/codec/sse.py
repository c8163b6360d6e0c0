"""Server-sent events: the JSON flavour's events in the form a browser's EventSource reads. Pure.

    id: 1;stock:42@0190f3a2b4c5d6e7.12
    event: publish
    data: {"event":"publish","channel":"stock:42",…}

Recovery. The browser remembers one id, the last, and returns it as `Last-Event-ID`; a stream may have many
channels, and an event is encoded once for all its readers. So `SseCodec` writes into an event's id the
places that event alone speaks of, and each connection's `StreamPositions` rewrites what is about to be
written: it collects those places, and puts all of them into the id of the last event. A connection cut
in the middle of a write leaves the reader with the previous id: it sees some messages twice, and never
misses one without being told.
"""

import re
from collections.abc import Generator, Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from arauto.codec.checks import bad_field, check_serial
from arauto.codec.events import Event, Publication, Request, SubscribeReply
from arauto.codec.json import JsonCodec
from arauto.codec.unknown import Unknown
from arauto.errors import ArautoError, Code
from arauto.limits import LAST_EVENT_ID_BYTES_MAX
from arauto.model import Message, Serial
from arauto.names import ALL_CHANNELS, check_channel

__all__ = ["KEEPALIVE", "SseCodec", "StreamPositions", "parse_last_event_id"]

#: A comment: keeps proxies from closing an idle stream, and readers ignore it.
KEEPALIVE: Final = b":\n\n"

_VERSION: Final = "1;"
_ALL: Final = ALL_CHANNELS.encode()
_PLACE = re.compile(r"([^@,;]+)@([0-9a-f]{16})\.([0-9]{1,16})\Z")
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def parse_last_event_id(text: str) -> dict[str, Serial]:
    """Return the place per channel that a `Last-Event-ID` header holds; empty for an empty header.

    A channel of the stream that is missing from a header that is not empty was dropped to keep the id
    short, or is new. Subscribe it with `since=Serial(0, 0)`: the answer then says `recovered: false`.

    Raises:
        ArautoError: BAD_FIELD.
    """
    if not text:
        return {}
    if len(text) > LAST_EVENT_ID_BYTES_MAX:
        raise _bad_id(f"must have at most {LAST_EVENT_ID_BYTES_MAX} bytes")
    if not text.startswith(_VERSION):
        raise _bad_id("must be an id this server gave")
    positions: dict[str, Serial] = {}
    for part in text[len(_VERSION) :].split(","):
        found = _PLACE.match(part)
        if not found:
            raise _bad_id("must be an id this server gave")
        channel = _unquoted(found[1])
        serial = Serial(int(found[2], 16), int(found[3]))
        check_serial(serial, "last_event_id")
        if channel in positions:
            raise _bad_id("must name each channel once")
        positions[channel] = serial
    return positions


def _unquoted(text: str) -> str:
    try:
        return text if text == ALL_CHANNELS else check_channel(unquote(text, errors="strict"))
    except (UnicodeDecodeError, ArautoError):
        raise _bad_id("must hold well-formed channel names") from None


def _bad_id(rule: str) -> ArautoError:
    return bad_field("last_event_id", rule)


@lru_cache(maxsize=8192)
def _quoted(channel: str) -> str:
    # Leaves the usual names readable and the separators , @ ; and % unambiguous.
    return quote(channel, safe=":/!$&'()*+=~")


def _places(positions: Iterable[tuple[str, Serial]]) -> str:
    return ",".join(f"{_quoted(channel)}@{at.epoch:016x}.{at.offset}" for channel, at in positions)


def _reply_positions(reply: SubscribeReply) -> list[tuple[str, Serial]]:
    positions: list[tuple[str, Serial]] = []
    for result in reply.results:
        # While recovered messages are still to come, the reader's place is where it was.
        if result.error is not None or result.recovered_count:
            continue
        if result.positions is not None:
            positions += result.positions.items()
        elif result.serial is not None:
            positions.append((result.channel, result.serial))
    return positions


class SseCodec:
    """Implements `Codec` for streams of server-sent events, which carry no requests. Stateless."""

    name = "sse"
    is_text = True

    __slots__ = ("_json",)

    def __init__(self) -> None:
        self._json = JsonCodec()

    def encode_event(self, event: Event) -> bytes:
        """Return one whole chunk: id if the event speaks of a place, name, data and an empty line."""
        data = self._json.encode_event(event)
        # Line breaks can only stand between the tokens of an embedded value: any space will do there.
        if b"\n" in data or b"\r" in data:
            data = data.translate(_LINE_BREAKS)
        name = data[10 : data.index(b'"', 10)]  # every event starts {"event":"name"
        head = b""
        if type(event) is Publication:
            message = event.message
            place = f"{_quoted(message.channel)}@{message.epoch:016x}.{message.offset}"
            head = f"id: {_VERSION}{place}\n".encode()
        elif type(event) is SubscribeReply:
            positions = _reply_positions(event)
            if positions:
                head = f"id: {_VERSION}{_places(positions)}\n".encode()
        return b"%bevent: %b\ndata: %b\n\n" % (head, name, data)

    def decode_event(self, data: bytes) -> Event:
        """Client side: the bytes of one chunk, up to its empty line → event."""
        lines = [line[5:] for line in data.splitlines() if line.startswith(b"data:")]
        return self._json.decode_event(b"\n".join(lines))

    def decode_request(self, data: bytes) -> Request:
        raise _no_requests()

    def decode_known(self, data: bytes, unknown: Unknown) -> Request:
        raise _no_requests()

    def encode_message(self, message: Message) -> bytes:
        return self.encode_event(Publication(message=message))

    def encode_value(self, packed: bytes) -> Generator[None, None, bytes]:
        return self._json.encode_value(packed)

    def encode_request(self, request: Request) -> bytes:
        raise _no_requests()

    def request_id(self, data: bytes) -> int:
        return 0


def _no_requests() -> ArautoError:
    return ArautoError(Code.NOT_AVAILABLE, "server-sent events carry no requests")


class StreamPositions:
    """The places one stream's reader has reached. One per connection; see the top of this file."""

    __slots__ = ("_places",)

    def __init__(self, positions: dict[str, Serial]) -> None:
        """Start from what the reader brought in `Last-Event-ID`, if anything."""
        self._places: dict[bytes, tuple[bytes, int]] = {}
        for place in _places(positions.items()).encode().split(b",") if positions else ():
            self._note(place)

    def rewrite(self, chunks: bytes) -> bytes:
        """Return what to write instead of `chunks`: any number of whole chunks, joined."""
        parts = chunks.split(b"\n\n")
        parts.pop()  # what follows the last empty line: nothing
        moved = False
        for index, part in enumerate(parts):
            if part.startswith(b"id: "):
                moved = True
                line, _, parts[index] = part.partition(b"\n")
                for place in line[6:].split(b","):
                    self._note(place)
        if moved:
            parts[-1] = b"id: %b\n%b" % (self._id(), parts[-1])
        parts.append(b"")
        return b"\n\n".join(parts)

    def _note(self, place: bytes) -> None:
        channel, _, serial = place.partition(b"@")
        epoch, _, offset = serial.partition(b".")
        # Epochs all have 16 digits, so they compare as bytes. A retained message comes with its old place.
        reached = (epoch, int(offset))
        known = self._places.pop(channel, reached)
        self._places[channel] = max(known, reached)

    def _id(self) -> bytes:
        """Return all places; over the limit, those that moved longest ago are dropped for good. Not the
        one that stands for all that are not named: whoever has lost a place falls back on it."""
        places = {channel: b"%b@%b.%d" % (channel, *at) for channel, at in self._places.items()}
        room_bytes = LAST_EVENT_ID_BYTES_MAX - len(_VERSION) + 1
        excess = sum(len(place) + 1 for place in places.values()) - room_bytes
        for channel in list(places):
            if excess <= 0:
                break
            if channel != _ALL:
                excess -= len(places.pop(channel)) + 1
                del self._places[channel]
        return _VERSION.encode() + b",".join(places.values())
