"""The vector files other languages test against say what our codecs say, both ways."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from arauto.codec.events import Event, Request
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.codec.sse import SseCodec
from tests.unit.codec.samples import EVENTS, REQUESTS, decode_whole
from tests.vectors import generate

PROTO, JSON, SSE = ProtoCodec(), JsonCodec(), SseCodec()


def read(name: str) -> list[dict[str, Any]]:
    path = Path(generate.__file__).parent / f"{name}.json"
    items: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return items


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def test_the_files_are_up_to_date() -> None:
    assert generate.stale() == []


def test_there_is_a_vector_of_every_record() -> None:
    assert {type(request) for request in REQUESTS.values()} == set(get_args(Request))
    assert {type(event) for event in EVENTS.values()} == set(get_args(Event))


@pytest.mark.parametrize("vector", read("requests"), ids=names(read("requests")))
def test_a_request_vector_reads_and_writes(vector: dict[str, Any]) -> None:
    request = REQUESTS[vector["name"]]
    assert decode_whole(PROTO, bytes.fromhex(vector["proto"])) == request
    assert decode_whole(JSON, vector["json"].encode()) == request
    assert PROTO.encode_request(request).hex() == vector["proto"]
    assert JSON.encode_request(request).decode() == vector["json"]


@pytest.mark.parametrize("vector", read("events"), ids=names(read("events")))
def test_an_event_vector_reads_and_writes(vector: dict[str, Any]) -> None:
    event = EVENTS[vector["name"]]
    assert PROTO.decode_event(bytes.fromhex(vector["proto"])) == event
    assert JSON.decode_event(vector["json"].encode()) == event
    assert PROTO.encode_event(event).hex() == vector["proto"]
    assert JSON.encode_event(event).decode() == vector["json"]


@pytest.mark.parametrize("vector", read("sse"), ids=names(read("sse")))
def test_a_chunk_vector_reads_and_writes(vector: dict[str, Any]) -> None:
    event = EVENTS[vector["name"]]
    assert SSE.decode_event(vector["chunk"].encode()) == event
    assert SSE.encode_event(event).decode() == vector["chunk"]


def test_a_vector_worked_out_by_hand_holds() -> None:
    """Byte by byte from the schema, so that generated vectors cannot all be wrong together."""
    vector = next(item for item in read("requests") if item["name"] == "publish_binary")
    by_hand = (
        "08 0a"  # Envelope.event = PUBLISH
        "12 0f"  # Envelope.payload, 15 bytes
        "12 0d"  # PublishRequest.messages, 13 bytes
        "0a 06 6672616d6573"  # PublishItem.channel = "frames"
        "12 03 0001ff"  # PublishItem.payload
    )
    assert vector["proto"] == by_hand.replace(" ", "")
