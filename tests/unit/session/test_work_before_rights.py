"""Nobody makes the node work for what they may not do: rights come before the work, counted in steps."""

import asyncio
from collections.abc import Callable

import pytest

from arauto.codec.base import Codec
from arauto.codec.events import (
    Ack,
    DocumentChangeReply,
    DocumentChangeRequest,
    ErrorEvent,
    Operation,
)
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.errors import Code
from arauto.session.environment import SessionLimits
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.hub.test_costs import count_steps
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import OPEN, Client, publish

FREE = Quotas(session_messages_per_s=0)
#: A large request takes its turn, which is some hundred steps more, but no step for each of its values.
MANY = 5_000
flavours = pytest.mark.parametrize("codec", [ProtoCodec(), JsonCodec()], ids=["proto", "json"])


def change(channel: str, values: int) -> DocumentChangeRequest:
    value = {f"k{n}": n for n in range(values)}
    return DocumentChangeRequest(
        id=1, channel=channel, operations=(Operation(op="add", path="/a", value=value),)
    )


def receiving(client: Client, codec: Codec, request: DocumentChangeRequest) -> Callable[[], object]:
    data = codec.encode_request(request)
    client.session._decode = codec.decode_request
    return lambda: client.session.receive(data)


@flavours
async def test_a_denied_change_costs_the_same_whatever_its_values(
    make_desk: MakeDesk, codec: Codec
) -> None:
    desk = make_desk(rules=Rules(), settings=HubSettings(default_public=True, quotas=FREE))
    client = await desk.connect()
    small = count_steps(receiving(client, codec, change("doc:1", 1)))
    large = count_steps(receiving(client, codec, change("doc:1", MANY)))
    await desk.settle()
    assert client.take(ErrorEvent).code == Code.PUBLISH_DENIED
    assert client.take(ErrorEvent).code == Code.PUBLISH_DENIED
    assert large - small < MANY / 4


@flavours
async def test_a_change_of_what_is_no_document_costs_the_same_whatever_its_values(
    make_desk: MakeDesk, codec: Codec
) -> None:
    desk = make_desk(rules=OPEN, settings=HubSettings(default_public=True, quotas=FREE))
    client = await desk.connect()
    await client.subscribe("room:1")
    small = count_steps(receiving(client, codec, change("room:1", 1)))
    large = count_steps(receiving(client, codec, change("room:1", MANY)))
    await desk.settle()
    assert client.take(ErrorEvent).code == Code.WRONG_CHANNEL_TYPE
    assert large - small < MANY / 4


@flavours
async def test_a_large_change_is_read_in_turns_one_after_the_other(
    make_desk: MakeDesk, codec: Codec
) -> None:
    """A frame of a megabyte had everybody wait until all of its values were built."""
    desk = make_desk(rules=OPEN, settings=HubSettings(default_public=True, quotas=FREE))
    one, two = [await desk.connect() for _ in range(2)]
    for client, channel in ((one, "doc:1"), (two, "doc:2")):
        data = codec.encode_request(change(channel, 3_000))
        client.session.handle(codec.decode_request(data))
    assert one.session.held_back() is not None
    turns = 0
    while one.session.held_back() is not None:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert two.session.held_back() is not None
    await desk.settle()
    assert one.take(DocumentChangeReply).version == 1
    assert two.take(DocumentChangeReply).version == 1


async def test_a_batch_counts_once_however_much_of_it_is_refused_and_each_item_has_its_answer(
    make_desk: MakeDesk,
) -> None:
    """Seen: a batch with a hundred refused items ended the session, without a word on those delivered."""
    settings = HubSettings(default_public=True, quotas=FREE)
    desk = make_desk(rules=Rules(), settings=settings, limits=SessionLimits(errors_max=3))
    client = await desk.connect()
    for id in (1, 2, 3):
        ack = await client.ask(publish("room:1", *[b"x"] * 1_000, id=id), Ack)
        codes = {item.error.code for item in ack.results if item.error is not None}
        assert (len(ack.results), codes) == (1_000, {int(Code.PUBLISH_DENIED)})
        assert client.is_connected()
    before = client.session.hub.counters.refused[int(Code.PUBLISH_DENIED)]
    client.send(publish("room:1", *[b"x"] * 1_000, id=4))
    assert client.closed_with is Code.TOO_MANY_ERRORS
    assert client.session.hub.counters.refused[int(Code.PUBLISH_DENIED)] == before + 1, (
        "no more work"
    )


@flavours
async def test_bad_values_are_named_to_whom_may_send_them(
    make_desk: MakeDesk, codec: Codec
) -> None:
    desk = make_desk(rules=OPEN)
    client = await desk.connect()
    request = change("doc:1", 3)
    good = codec.encode_request(request)
    client.session._decode = codec.decode_request
    bad = (
        good.replace(b'"k1"', b'"\\ud800"')
        if codec.name.endswith("json")
        else good.replace(b"k1", b"k0")
    )
    client.session.receive(bad)
    await desk.settle()
    assert client.take(ErrorEvent).code in (Code.BAD_FIELD, Code.BAD_ENVELOPE)
    client.session.receive(good)
    await desk.settle()
    assert client.take(DocumentChangeReply).version == 1
