"""A document written step by step is the document written at once, and no step is a long one."""

from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.base import Codec
from arauto.codec.events import DocumentGetReply, EncodedValue
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.codec.sse import SseCodec
from arauto.codec.value_steps import all_at_once
from tests.unit.codec.strategies import values
from tests.unit.hub.test_costs import count_steps

flavours = pytest.mark.parametrize("codec", [ProtoCodec(), JsonCodec()], ids=["proto", "json"])


def reply(value: Any) -> DocumentGetReply:
    return DocumentGetReply(id=3, channel="doc:a", version=7, value=value)


def large(value: Any) -> Any:
    """Values around it, so that it is written in parts."""
    pad = "x" * 3_000
    return {"pad": pad, "$binary": [value, pad, {"$literal": {"a": pad, "é": value}}], "b": value}


@flavours
@given(value=values, is_large=st.booleans())
def test_a_value_written_ahead_is_the_same_on_the_wire(
    codec: Codec, value: Any, is_large: bool
) -> None:
    whole = large(value) if is_large else value
    data = all_at_once(codec.encode_value(msgspec.msgpack.encode(whole)))
    ahead = codec.encode_event(reply(EncodedValue(data)))
    assert codec.decode_event(ahead) == codec.decode_event(codec.encode_event(reply(whole)))


@pytest.mark.parametrize("name", ["$binary", "$literal", "plain"])
def test_a_lone_member_that_looks_like_an_escape_is_escaped_in_parts_too(name: str) -> None:
    codec = JsonCodec()
    value = {name: ["x" * 1_500, "y" * 1_500]}
    data = all_at_once(codec.encode_value(msgspec.msgpack.encode(value)))
    assert codec.encode_event(reply(EncodedValue(data))) == codec.encode_event(reply(value))


def test_a_stream_writes_values_as_json_does() -> None:
    packed = msgspec.msgpack.encode({"a": 1})
    assert all_at_once(SseCodec().encode_value(packed)) == b'{"a":1}'


@flavours
@pytest.mark.parametrize(
    "value",
    [
        list(range(6_000)),
        {f"k{n}": n for n in range(6_000)},
        [[None] * 1_500 for _ in range(24)],
        {f"k{n}": {"a": ["x" * 50] * 20} for n in range(200)},
    ],
    ids=["list", "dict", "lists of nulls", "rows"],
)
def test_no_step_is_a_long_one(codec: Codec, value: Any) -> None:
    packed = msgspec.msgpack.encode(value)
    steps = codec.encode_value(packed)
    costs: list[int] = []
    while not costs or getgeneratorstate(steps) != GEN_CLOSED:
        costs.append(count_steps(lambda: next(steps, None)))
    # Nulls are a byte each, so a part may hold a thousand of them; joining the parts is the last step.
    assert max(costs) < max(sum(costs) / 8, 10_000)
