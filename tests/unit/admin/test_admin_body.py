"""Bodies are read strictly, and refusals name field and rule without repeating what was sent."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.admin.examples import EXAMPLES
from arauto.admin.records import CorrelationBody, Problem
from arauto.admin.rollups import RollupBody
from arauto.codec.json_body import decode_body
from arauto.errors import ArautoError, Code
from arauto.model import When
from arauto.session.oneshot import PublishBody, read_messages
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules


class _Inner(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=0, le=9)]
    word: Annotated[str, msgspec.Meta(max_length=3)] = ""


class _Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: _Inner
    flags: dict[str, bool] = {}
    data: bytes = b""
    code: Annotated[str, msgspec.Meta(pattern="^a+$")] = "a"
    more: tuple[_Inner, ...] = ()
    by: dict[str, When | None] = {}
    way: Literal["up", "down"] | None = None


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        (b"", "body", "is required"),
        (b"{", "body", "must be one JSON value and nothing else"),
        (b'{"inner":{"count":1}} {}', "body", "must be one JSON value and nothing else"),
        (b"\xff", "body", "must be UTF-8"),
        (b"[]", "body", "must be of type object, not array"),
        (b"{}", "inner", "is required"),
        (b'{"inner":{}}', "inner.count", "is required"),
        (b'{"inner":{"count":"1"}}', "inner.count", "must be of type int, not str"),
        (b'{"inner":{"count":1.5}}', "inner.count", "must be of type int, not float"),
        (b'{"inner":{"count":-1}}', "inner.count", "must be of type int and >= 0"),
        (b'{"inner":{"count":10}}', "inner.count", "must be of type int and <= 9"),
        (
            b'{"inner":{"count":1,"word":"long"}}',
            "inner.word",
            "must be of type str and length <= 3",
        ),
        (
            b'{"inner":{"count":1,"x":1}}',
            "inner",
            "must have no unknown fields; it may have count, word",
        ),
        (
            b'{"inner":{"count":1,"Cuont":1}}',
            "inner",
            "must have no unknown fields; did you mean count?",
        ),
        (
            b'{"inner":{"count":1},"more":[{"count":1,"wrd":1}]}',
            "more[0]",
            "must have no unknown fields; did you mean word?",
        ),
        (
            b'{"inner":{"count":1},"by":{"x":"markd"}}',
            "by[...]",
            "must be one of never, marked, all; did you mean marked?",
        ),
        (b'{"inner":{"count":1},"way":"secret"}', "way", "must be one of down, up"),
        (
            b'{"inner":{"count":1},"x":1}',
            "body",
            "must have no unknown fields; it may have inner, flags, data, code, more, by, way",
        ),
        (
            b'{"inner":{"count":1},"flags":{"SENT":1}}',
            "flags[...]",
            "must be of type bool, not int",
        ),
        (b'{"inner":{"count":1},"data":"?"}', "data", "must be standard base64 with padding"),
        (b'{"inner":{"count":1},"code":"b"}', "code", "breaks a rule of the schema"),
    ],
)
def test_a_refusal_names_the_field_and_the_rule(body: bytes, field: str, rule: str) -> None:
    with pytest.raises(ArautoError) as caught:
        decode_body(body, _Outer)
    error = caught.value
    assert (error.code, error.field, error.message) == (Code.BAD_FIELD, field, rule)


def test_a_body_too_deep_to_be_read_is_refused() -> None:
    body = b'{"messages":[{"channel":"a","data":' + b"[" * 100_000
    with pytest.raises(ArautoError, match="must not be nested so deep"):
        decode_body(body, PublishBody)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for wanted in (_Outer, HubSettings, PublishBody):
        refusal = None
        try:
            decode_body(data, wanted)
        except ArautoError as error:
            refusal = error
        assert refusal is None or (refusal.code is Code.BAD_FIELD and refusal.field)


@given(st.text(alphabet="SENT", min_size=4, max_size=8))
def test_what_was_sent_is_never_repeated(text: str) -> None:
    bodies: list[Any] = [
        {text: 1},
        # As the parser itself names a place.
        {f"x - at `$.{text}": 1},
        {f"x` - at `$.{text}": 1},
        {"store": text},
        {"retainS": text},
        {"messages": [{text: 1}]},
        {"messages": [{"channel": text, "echo": text}]},
        {"messages": [{"channel": text, "base64": text + "?"}]},
    ]
    for body in bodies:
        for wanted in (Rules, PublishBody):
            with pytest.raises(ArautoError) as caught:
                decode_body(msgspec.json.encode(body), wanted)
            assert text not in caught.value.message + caught.value.field


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_the_description_can_be_read(name: str) -> None:
    records = (
        HubSettings,
        Rules,
        NamespaceSettings,
        ChannelSettings,
        PublishBody,
        CorrelationBody,
        Problem,
        RollupBody,
    )
    wanted: type[msgspec.Struct] = {record.__name__: record for record in records}[name]
    for example in EXAMPLES[name]:
        decode_body(msgspec.json.encode(example), wanted)


def test_messages_are_those_of_the_json_flavour() -> None:
    body = (
        b'{"messages":[{"channel":"a","data":{"b": 1},"ttl_ms":5},{"channel":"c","base64":"AAE="}]}'
    )
    first, second = read_messages(body)
    assert (first.channel, first.payload, first.ttl_ms) == ("a", b'{"b": 1}', 5)
    assert first.content_type == "application/json"
    assert (second.payload, second.content_type) == (b"\x00\x01", "")
