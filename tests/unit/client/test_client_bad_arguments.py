"""A bad argument fails its own request, at once, and nothing beside it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arauto.client import Client, Document, Draft, Serial
from arauto.codec.events import (
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    Operation,
)
from arauto.errors import ArautoError, Code
from tests.unit.client.fake_node import FakeNode, Peer

Make = Callable[..., Client]

_BAD: list[dict[str, Any]] = [
    {"headers": {"a": 1}},
    {"headers": {1: "a"}},
    {"headers": {"a": "\ud800"}},
    {"headers": {"x-origin": "me"}},
    {"headers": "a"},
    {"key": 5},
    {"key": "\ud800"},
    {"idempotency_key": b"k"},
    {"content_type": 5, "data": b"x"},
    {"ttl_s": float("inf")},
    {"ttl_s": "1"},
    {"retain": "yes"},
    {"echo": "none"},
    {"channel": 5},
    {"channel": ["c"]},
]


@pytest.mark.parametrize("options", _BAD)
async def test_a_bad_argument_is_refused_to_its_caller_and_to_nobody_else(
    make: Make, node: FakeNode, flavour: str, options: dict[str, Any]
) -> None:
    draft: dict[str, Any] = {"channel": "c", "data": 1, **options}
    async with make(flavour=flavour) as client:
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                client.publish("c", 1),
                client.publish(**draft),
                client.publish("c", 2),
                return_exceptions=True,
            ),
            5,
        )
        with pytest.raises(ArautoError):
            client.publish_nowait(**draft)
        with pytest.raises(ArautoError):
            await client.publish_many([Draft(**draft)])
    first, bad, last = outcomes
    assert isinstance(bad, ArautoError)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)


async def test_what_cannot_be_encoded_fails_alone_wherever_it_is_noticed(
    make: Make, node: FakeNode, flavour: str
) -> None:
    """The last line of defence: an error of the codec itself, in a request that waits beside others."""
    async with make(flavour=flavour) as client:
        assert client._session is not None
        bad = Operation(op="add", path="/a", value=object())
        request = DocumentChangeRequest(channel="doc:a", operations=(bad,))
        failing = client._session.requests.call(request, resend=False)
        outcome, serial = await asyncio.wait_for(
            asyncio.gather(failing, client.publish("c", 1), return_exceptions=True), 5
        )
    assert isinstance(outcome, ArautoError)
    assert outcome.code is Code.BAD_FIELD
    assert not isinstance(serial, BaseException)


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ({"op": "add", "path": "/a"}, "operations[0].value"),
        ({"op": "move", "path": "/a"}, "operations[0].from"),
        ({"op": "turn", "path": "/a"}, "operations[0].op"),
        ({"op": "add", "path": "/a", "value": object()}, "operations[0].value"),
        ({"op": "add", "path": 5, "value": 1}, "operations[0]"),
    ],
)
async def test_an_operation_that_lacks_a_part_is_refused_to_its_caller(
    make: Make, node: FakeNode, operation: dict[str, Any], field: str
) -> None:
    def get(peer: Peer, request: DocumentGetRequest) -> None:
        peer.send(DocumentGetReply(id=request.id, channel=request.channel, version=0, value=None))

    node.handlers[DocumentGetRequest] = get
    async with make() as client, client.document("doc:a") as document:
        assert isinstance(document, Document)
        with pytest.raises(ArautoError) as caught:
            await asyncio.wait_for(document.change([operation]), 5)
    assert (caught.value.code, caught.value.field) == (Code.BAD_OPERATION, field)


@pytest.mark.parametrize(
    ("channel", "since"),
    [
        ("c", "343e111b494e0be3:46"),
        ("c", 46),
        ("c", ("343e111b494e0be3", 46)),
        ("c", {"c": "343e111b494e0be3:46"}),
        ("c", {"c": None}),
        ("c", {3: Serial(1, 2)}),
        ("c", Serial("343e111b494e0be3", 46)),  # type: ignore[arg-type]
        ("c", Serial(1, -1)),
        ("c", Serial(2**64, 1)),
        ("c*", Serial(1, 2)),
        ("c*", "343e111b494e0be3:46"),
        ("/c", [("c", Serial(1, 2))]),
    ],
)
async def test_a_place_that_is_none_is_refused_where_it_was_given(
    make: Make, channel: str, since: Any
) -> None:
    async with make() as client:
        with pytest.raises(ArautoError, match=r"Serial|two integers|dict of places") as refused:
            client.subscribe(channel, since=since)
        assert (refused.value.code, refused.value.field) == (Code.BAD_FIELD, "since")
        client.subscribe(channel)  # it is not held against the name


@pytest.mark.parametrize("field", ["since", "until"])
async def test_a_bad_place_in_a_history_is_refused_where_it_was_given(
    make: Make, field: str
) -> None:
    async with make() as client:
        with pytest.raises(ArautoError) as refused:
            client.history("c", **{field: "343e111b494e0be3:46"})  # type: ignore[arg-type]
        assert (refused.value.code, refused.value.field) == (Code.BAD_FIELD, field)
