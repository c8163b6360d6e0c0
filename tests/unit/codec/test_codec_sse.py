"""Server-sent events: the form of a chunk, ids as places, and recovery over several channels."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.events import (
    ErrorEvent,
    Event,
    Ping,
    Publication,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
)
from arauto.codec.sse import KEEPALIVE, SseCodec, StreamPositions, parse_last_event_id
from arauto.errors import ArautoError, Code
from arauto.limits import EPOCH_MAX, LAST_EVENT_ID_BYTES_MAX, UINT53_MAX
from arauto.model import JSON, TEXT, Message, Serial
from arauto.names import check_channel
from tests.unit.codec.strategies import events

CODEC = SseCodec()
EPOCH = 0x0190F3A2B4C5D6E7


def is_channel(name: str) -> bool:
    try:
        return bool(check_channel(name))
    except ArautoError:
        return False


channels = st.one_of(
    st.from_regex(r"[a-z:/@,;%.~+-]{1,20}", fullmatch=True), st.text(max_size=20)
).filter(is_channel)
serials = st.builds(Serial, st.integers(0, EPOCH_MAX), st.integers(0, UINT53_MAX))


def publication(
    channel: str, offset: int, payload: bytes = b"1", content_type: str = JSON, epoch: int = EPOCH
) -> Publication:
    return Publication(
        message=Message(
            hub="",
            channel=channel,
            payload=payload,
            content_type=content_type,
            epoch=epoch,
            offset=offset,
            ts_ms=1,
        )
    )


class EventSource:
    """Reads a stream the way the standard tells browsers to, and remembers the last id."""

    def __init__(self) -> None:
        self.last_event_id = ""
        self.events: list[tuple[str, str]] = []

    def read(self, stream: bytes) -> "EventSource":
        name, data, last_id = "", "", self.last_event_id
        lines = stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines[:-1]:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last_event_id = last_id
                if data:
                    self.events.append((name or "message", data[:-1]))
                name = data = ""
            elif field == "event":
                name = value
            elif field == "data":
                data += value + "\n"
            elif field == "id" and "\0" not in value:
                last_id = value
        return self


# --- chunks ------------------------------------------------------------------------------------------


def test_a_publication_carries_its_place() -> None:
    chunk = CODEC.encode_event(publication("stock:42", 12))
    assert chunk.startswith(b"id: 1;stock:42@0190f3a2b4c5d6e7.12\nevent: publish\ndata: {")
    assert chunk.endswith(b"}\n\n")


def test_an_event_of_no_place_carries_no_id() -> None:
    assert CODEC.encode_event(Ping(id=1)) == b'event: ping\ndata: {"event":"ping","id":1}\n\n'


@given(events)
def test_every_event_is_one_chunk_that_a_browser_reads(event: Event) -> None:
    chunk = CODEC.encode_event(event)
    assert chunk.count(b"\n\n") == 1
    source = EventSource().read(chunk)
    assert [name for name, _ in source.events] == [json.loads(source.events[0][1])["event"]]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":1}\n\nid: 1;b@0000000000000001.9\nevent: error\ndata: {}\n\n',
        b'{\n\n"a"\r\n:\r1}',
        b"[1,\n\n2]",
        b"[1,\rdata: x\r2]",
    ],
)
@pytest.mark.parametrize("content_type", [JSON, TEXT, ""])
def test_a_payload_cannot_break_out_of_its_event(payload: bytes, content_type: str) -> None:
    chunk = CODEC.encode_event(publication("a", 1, payload, content_type))
    assert b"\r" not in chunk
    assert chunk.count(b"\n") == 4
    source = EventSource().read(chunk)
    assert len(source.events) == 1
    assert parse_last_event_id(source.last_event_id) == {"a": Serial(EPOCH, 1)}


def test_line_breaks_between_tokens_become_spaces() -> None:
    chunk = CODEC.encode_event(publication("a", 1, b'{\n"a":\r\n[1]}'))
    decoded = CODEC.decode_event(chunk)
    assert isinstance(decoded, Publication)
    assert json.loads(decoded.message.payload) == {"a": [1]}


@given(events)
def test_a_client_reads_a_chunk_back(event: Event) -> None:
    decoded = CODEC.decode_event(CODEC.encode_event(event))
    assert type(decoded) is type(event)
    assert CODEC.encode_event(decoded) == CODEC.encode_event(event)


def test_there_are_no_requests_over_server_sent_events() -> None:
    for call in (
        lambda: CODEC.decode_request(b'{"event":"ping"}'),
        lambda: CODEC.encode_request(SubscribeRequest(items=())),
    ):
        with pytest.raises(ArautoError) as caught:
            call()
        assert caught.value.code is Code.NOT_AVAILABLE
    assert CODEC.request_id(b'{"id":1}') == 0


# --- ids ---------------------------------------------------------------------------------------------


@given(st.dictionaries(channels, serials, min_size=1, max_size=5))
def test_places_survive_the_browser(positions: dict[str, Serial]) -> None:
    results = tuple(SubscribeResult(channel=name, serial=at) for name, at in positions.items())
    source = EventSource().read(CODEC.encode_event(SubscribeReply(id=1, results=results)))
    assert source.last_event_id.isascii()
    assert parse_last_event_id(source.last_event_id) == positions


def test_an_empty_header_holds_no_places() -> None:
    assert parse_last_event_id("") == {}


BAD_IDS = {
    "another version": "2;a@0000000000000001.1",
    "no version": "a@0000000000000001.1",
    "nothing after the version": "1;",
    "another server's id": "12345",
    "no serial": "1;a",
    "epoch too short": "1;a@1.1",
    "epoch in capitals": "1;a@000000000000000A.1",
    "epoch beyond 63 bits": "1;a@8000000000000000.1",
    "no offset": "1;a@0000000000000001.",
    "negative offset": "1;a@0000000000000001.-1",
    "offset beyond 53 bits": "1;a@0000000000000001.9007199254740992",
    "offset in other digits": "1;a@0000000000000001.\u0661",
    "offset too long": "1;a@0000000000000001." + "9" * 17,
    "line break after the offset": "1;a@0000000000000001.1\n",
    "empty part": "1;a@0000000000000001.1,",
    "channel twice": "1;a@0000000000000001.1,a@0000000000000001.2",
    "channel twice, quoted": "1;a@0000000000000001.1,%61@0000000000000001.2",
    "empty channel": "1;@0000000000000001.1",
    "channel with a wildcard": "1;a*@0000000000000001.1",
    "channel with a quoted line break": "1;a%0A@0000000000000001.1",
    "channel not UTF-8": "1;%FF@0000000000000001.1",
    "channel with a space": "1;a b@0000000000000001.1",
    "channel too long": "1;" + "a" * 256 + "@0000000000000001.1",
    "too long": "1;" + ",".join(f"{n}@0000000000000001.1" for n in range(200)),
}


@pytest.mark.parametrize("text", BAD_IDS.values(), ids=BAD_IDS)
def test_an_id_that_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(ArautoError) as caught:
        parse_last_event_id(text)
    assert caught.value.code is Code.BAD_FIELD
    assert caught.value.field.startswith("last_event_id")


@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: "1;" + text))
def test_no_header_makes_the_parser_raise_anything_else(text: str) -> None:
    try:
        parse_last_event_id(text)
    except ArautoError as error:
        assert error.code is Code.BAD_FIELD  # noqa: PT017 - both outcomes are right


# --- positions of a stream ---------------------------------------------------------------------------


def written(stream: StreamPositions, *sent: Event) -> bytes:
    return stream.rewrite(b"".join(CODEC.encode_event(event) for event in sent))


def test_the_last_event_of_a_write_holds_every_place() -> None:
    stream = StreamPositions({})
    data = written(stream, publication("a", 1), publication("b", 7), publication("a", 2))
    assert data.count(b"id: ") == 1
    source = EventSource().read(data)
    assert len(source.events) == 3
    assert parse_last_event_id(source.last_event_id) == {
        "a": Serial(EPOCH, 2),
        "b": Serial(EPOCH, 7),
    }


def test_a_stream_cut_anywhere_leaves_places_of_what_was_read() -> None:
    """A reader may see a message twice, but never holds a place beyond what it has read."""
    stream = StreamPositions({})
    data = b"".join(
        written(stream, publication("a", n), publication("b", n), publication("a", n + 1))
        for n in (1, 3, 5)
    )
    for cut in range(len(data) + 1):
        source = EventSource().read(data[:cut])
        read: dict[str, int] = {}
        for _, text in source.events:
            event: dict[str, Any] = json.loads(text)
            read[event["channel"]] = event["serial"]["offset"]
        for channel, serial in parse_last_event_id(source.last_event_id).items():
            assert serial.offset <= read[channel]


def test_a_returning_reader_keeps_the_places_it_brought() -> None:
    stream = StreamPositions({"a": Serial(EPOCH, 5), "é,@;%": Serial(EPOCH, 6)})
    source = EventSource().read(written(stream, publication("b", 1)))
    assert parse_last_event_id(source.last_event_id) == {
        "a": Serial(EPOCH, 5),
        "é,@;%": Serial(EPOCH, 6),
        "b": Serial(EPOCH, 1),
    }


def test_a_retained_message_does_not_move_a_place_back() -> None:
    stream = StreamPositions({})
    reply = SubscribeReply(id=1, results=(SubscribeResult(channel="a", serial=Serial(EPOCH, 10)),))
    source = EventSource().read(written(stream, reply, publication("a", 3)))
    assert parse_last_event_id(source.last_event_id) == {"a": Serial(EPOCH, 10)}


def test_a_new_epoch_moves_a_place_on() -> None:
    stream = StreamPositions({"a": Serial(EPOCH, 10)})
    source = EventSource().read(written(stream, publication("a", 1, epoch=EPOCH + 1)))
    assert parse_last_event_id(source.last_event_id) == {"a": Serial(EPOCH + 1, 1)}


def test_offsets_are_compared_as_numbers() -> None:
    stream = StreamPositions({"a": Serial(EPOCH, 9)})
    source = EventSource().read(written(stream, publication("a", 10)))
    assert parse_last_event_id(source.last_event_id) == {"a": Serial(EPOCH, 10)}


def test_while_recovered_messages_are_still_to_come_the_place_stays() -> None:
    stream = StreamPositions({"a": Serial(EPOCH, 5)})
    result = SubscribeResult(
        channel="a", serial=Serial(EPOCH, 7), recovered=True, recovered_count=2
    )
    source = EventSource().read(written(stream, SubscribeReply(id=1, results=(result,))))
    assert parse_last_event_id(source.last_event_id) == {}
    source.read(written(stream, publication("a", 6)))
    assert parse_last_event_id(source.last_event_id) == {"a": Serial(EPOCH, 6)}


def test_a_pattern_gives_the_places_of_what_it_covers() -> None:
    positions = {"w:a": Serial(EPOCH, 1), "w:b": Serial(EPOCH, 2)}
    result = SubscribeResult(channel="w:*", positions=positions)
    source = EventSource().read(CODEC.encode_event(SubscribeReply(id=1, results=(result,))))
    assert parse_last_event_id(source.last_event_id) == positions


def test_a_refused_subscription_has_no_place() -> None:
    error = ErrorEvent(code=2005, message="")
    result = SubscribeResult(channel="a", error=error, serial=Serial(EPOCH, 1))
    chunk = CODEC.encode_event(SubscribeReply(id=1, results=(result,)))
    assert not chunk.startswith(b"id")


def test_events_of_no_place_pass_unchanged() -> None:
    stream = StreamPositions({"a": Serial(EPOCH, 1)})
    data = KEEPALIVE + CODEC.encode_event(Ping())
    assert stream.rewrite(data) == data
    assert stream.rewrite(b"") == b""


def test_ids_stay_short_by_dropping_the_places_that_moved_longest_ago() -> None:
    stream = StreamPositions({})
    source = EventSource()
    for n in range(300):
        source.read(written(stream, publication(f"channel-{n}", 1), publication("busy", n + 1)))
        assert len(source.last_event_id) <= LAST_EVENT_ID_BYTES_MAX
    positions = parse_last_event_id(source.last_event_id)
    assert positions["busy"] == Serial(EPOCH, 300)
    assert positions["channel-299"] == Serial(EPOCH, 1)
    assert "channel-0" not in positions
    assert len(positions) > 100


def test_a_reply_with_more_places_than_an_id_holds_is_cut() -> None:
    stream = StreamPositions({})
    positions = {f"w:{n}": Serial(EPOCH, n) for n in range(5000)}
    result = SubscribeResult(channel="w:*", positions=positions)
    source = EventSource().read(written(stream, SubscribeReply(id=1, results=(result,))))
    assert 0 < len(parse_last_event_id(source.last_event_id)) < 5000


def test_a_keepalive_is_no_event() -> None:
    assert EventSource().read(KEEPALIVE).events == []
