"""Both load generators count whole frames, however the bytes are cut."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.bench.failure import BenchError
from arauto.bench.frames import (
    Counter,
    MqttCounter,
    NatsCounter,
    RedisCounter,
    WebSocketCounter,
    client_frame,
)
from arauto.codec.events import ErrorEvent, SubscribeReply, SubscribeResult
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from tests.unit.bench import streams

_COUNTS = ("publications", "acked", "refused", "pings", "gaps", "others", "rest_bytes")

STREAMS = {
    "arauto-proto": streams.arauto("proto"),
    "arauto-json": streams.arauto("json"),
    "nats": streams.nats(),
    "redis": streams.redis(),
    "mqtt": streams.mqtt(),
}
protocols = pytest.mark.parametrize("proto", STREAMS)


def _counter(proto: str) -> Counter:
    match proto:
        case "nats":
            return NatsCounter()
        case "redis":
            return RedisCounter()
        case "mqtt":
            return MqttCounter()
    return WebSocketCounter(proto.removeprefix("arauto-"))


def _python_counts(counter: Counter) -> dict[str, int]:
    return {name: getattr(counter, name) for name in _COUNTS}


def _wanted(proto: str) -> dict[str, int]:
    return dict.fromkeys(_COUNTS, 0) | STREAMS[proto][1]


@protocols
def test_c_counts_the_same_wherever_the_stream_is_cut(
    proto: str, c_counts: Callable[[str, bytes], dict[str, Any]]
) -> None:
    counts = c_counts(proto, STREAMS[proto][0])
    assert {name: counts[name] for name in _COUNTS} == _wanted(proto)


@protocols
def test_python_counts_the_same_wherever_the_stream_is_cut(proto: str) -> None:
    stream = STREAMS[proto][0]
    for cut in range(len(stream) + 1):
        counter = _counter(proto)
        counter.feed(stream[:cut])
        counter.feed(stream[cut:])
        assert _python_counts(counter) == _wanted(proto), cut


@protocols
def test_an_unfinished_frame_is_not_counted(
    proto: str, c_counts: Callable[[str, bytes], dict[str, Any]]
) -> None:
    stream = STREAMS[proto][0]
    counter = _counter(proto)
    counter.feed(stream[:-1])
    counts = c_counts(proto, stream[:-1])
    assert counts["rest_bytes"] == counter.rest_bytes > 0
    total = counts["publications"] + counts["acked"] + counts["others"]
    assert total == sum(_wanted(proto)[name] for name in ("publications", "acked", "others")) - 1


@protocols
@given(cuts=st.lists(st.integers(min_value=1, max_value=80), max_size=60))
def test_python_counts_the_same_in_any_pieces(proto: str, cuts: list[int]) -> None:
    stream = STREAMS[proto][0]
    counter = _counter(proto)
    for size in cuts:
        counter.feed(stream[:size])
        stream = stream[size:]
    counter.feed(stream)
    assert _python_counts(counter) == _wanted(proto)


@protocols
def test_pings_are_answered_the_same_by_both(
    proto: str, c_counts: Callable[[str, bytes], dict[str, Any]]
) -> None:
    counter = _counter(proto)
    counter.feed(STREAMS[proto][0])
    assert c_counts(proto, STREAMS[proto][0])["answer_bytes"] == len(counter.answers)


@pytest.mark.parametrize("codec", [ProtoCodec(), JsonCodec()])
def test_an_error_event_ends_the_run_in_both(
    codec: ProtoCodec | JsonCodec, c_counts: Callable[[str, bytes], dict[str, Any]]
) -> None:
    flavour = codec.name.rpartition(".")[2]
    error = ErrorEvent(code=3000, message="slow down")
    refused = SubscribeReply(id=1, results=(SubscribeResult(channel="b", error=error),))
    for event in (error, refused):
        stream = streams.ws_frame(0x80 | (1 if codec.is_text else 2), codec.encode_event(event))
        with pytest.raises(BenchError):
            WebSocketCounter(flavour).feed(stream)
        with pytest.raises(BenchError):
            c_counts(f"arauto-{flavour}", stream)


@pytest.mark.parametrize(
    ("proto", "stream"),
    [
        ("nats", b"-ERR 'Authorization Violation'\r\n"),
        ("redis", b"-NOAUTH Authentication required.\r\n"),
        ("mqtt", b"\x20\x02\x00\x05"),
        ("mqtt", b"\x90\x03\x00\x01\x80"),
        ("arauto-proto", streams.ws_frame(0x88, b"\x0f\xa2slow")),
        ("arauto-json", client_frame(1, b"{}")),  # a server must not mask
    ],
)
def test_refusals_end_the_run_in_both(
    proto: str, stream: bytes, c_counts: Callable[[str, bytes], dict[str, Any]]
) -> None:
    with pytest.raises(BenchError):
        _counter(proto).feed(stream)
    with pytest.raises(BenchError):
        c_counts(proto, stream)


def test_a_long_frame_is_one_publication(c_counts: Callable[[str, bytes], dict[str, Any]]) -> None:
    body = ProtoCodec().encode_event(streams.publication(1, size=70_000))
    counter = WebSocketCounter("proto")
    counter.feed(streams.ws_frame(0x82, body))
    assert (counter.publications, counter.rest_bytes) == (1, 0)


def test_the_upgrade_answer_is_taken_off_first() -> None:
    counter = WebSocketCounter("proto", upgraded=False)
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    counter.feed(head[:20])
    counter.feed(head[20:] + STREAMS["arauto-proto"][0])
    assert counter.publications == 5


def test_a_refused_upgrade_ends_the_run() -> None:
    with pytest.raises(BenchError, match="403"):
        WebSocketCounter("json", upgraded=False).feed(b"HTTP/1.1 403 Forbidden\r\n\r\n")
