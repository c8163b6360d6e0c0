"""A client of a later version on this node, live: saying more costs neither request nor connection."""

import httpx
import pytest

from arauto.codec.events import (
    Ack,
    ErrorEvent,
    OccupancyRequest,
    Ping,
    Pong,
    PublishItem,
    PublishRequest,
)
from arauto.codec.numbers import EventType
from arauto.codec.proto import _wrap
from arauto.errors import Code
from arauto.session import tolerance
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY
from tests.integration.session.talk import FLAVOURS
from tests.integration.wire import Wire, connect

MESSAGE = {"channel": "a", "text": "x"}


def newer_publish(wire: Wire, *, proto: bytes, json: str) -> bytes:
    """A publish of id 7 whose one message has another field."""
    if wire.codec.is_text:
        message = f'{{"channel":"a","text":"x",{json}}}'
        return f'{{"event":"publish","id":7,"messages":[{message}]}}'.encode()
    item = b"\x0a\x01a\x12\x01x" + proto
    return _wrap(EventType.PUBLISH, b"\x08\x07\x12" + bytes((len(item),)) + item)


def ignored(node: RunningNode) -> int:
    return node.node.metrics.total().unknown_fields


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_field_this_node_does_not_know_is_ignored_and_counted(
    node: RunningNode, flavour: str
) -> None:
    wire = await connect(node.url, flavour=flavour)
    for count in (1, 2):
        wire.send_raw(newer_publish(wire, proto=b"\x98\x06\x01", json='"priority":5'))
        assert (await wire.next(Ack)).results[0].serial is not None
        assert ignored(node) == count
    await wire.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_an_essential_field_is_refused_and_nothing_is_published(
    node: RunningNode, flavour: str
) -> None:
    wire = await connect(node.url, flavour=flavour)
    wire.send_raw(newer_publish(wire, proto=b"\xc0\x3e\x01", json='"must_reach":["ann"]'))
    error = await wire.next(ErrorEvent)
    assert (error.id, error.code, error.field) == (7, Code.BAD_FIELD, "messages[0]")
    assert "essential" in error.message
    total = node.node.metrics.total()
    assert (total.publishes, total.unknown_fields) == (0, 0)
    await wire.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_strict_connection_is_told_of_every_field_that_others_are_spared(
    node: RunningNode, flavour: str
) -> None:
    wire = await connect(node.url, flavour=flavour, strict="true")
    wire.send_raw(newer_publish(wire, proto=b"\x98\x06\x01", json='"priority":5'))
    error = await wire.next(ErrorEvent)
    assert (error.id, error.code, error.field) == (7, Code.BAD_FIELD, "messages[0]")
    assert ignored(node) == 0
    await wire.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_requests_of_later_versions_are_refused_one_by_one_for_as_long_as_they_come(
    start_node: StartNode, flavour: str
) -> None:
    node = await start_node(session={"errorsMax": 5})
    wire = await connect(node.url, flavour=flavour)
    unknown = (
        b'{"event":"channel_search","id":9}' if wire.codec.is_text else b"\x08\x7b\x12\x02\x08\x09"
    )
    for _ in range(20):
        wire.send_raw(unknown)
        error = await wire.next(ErrorEvent)
        assert (error.id, error.code, error.field) == (9, Code.UNKNOWN_EVENT, "event")
    assert await wire.ask(Ping(id=3), Pong)
    await wire.close()


async def test_a_typing_error_is_told_to_everyone(node: RunningNode) -> None:
    wire = await connect(node.url, flavour="arauto.v1.json")
    wire.send_raw(newer_publish(wire, proto=b"", json='"ttlMs":5'))
    assert "did you mean ttl_ms?" in (await wire.next(ErrorEvent)).message
    await wire.close()


async def test_the_first_word_of_a_connection_may_be_a_newer_one(node: RunningNode) -> None:
    """Before the hub is open, requests wait; they are read as leniently afterwards."""
    wire = await connect(node.url, hub="not-open-yet", flavour="arauto.v1.json")
    wire.send_raw(b'{"event":"ping","id":4,"load":0.5}')
    assert await wire.next(Pong) == Pong(id=4)
    await wire.close()


async def test_publishing_over_http_is_held_to_the_same_rule(node: RunningNode) -> None:
    body = {"messages": [{**MESSAGE, "priority": 5}], "trace": "t"}
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        taken = await client.post("/v1/publish?hub=shop", json=body)
        assert taken.status_code == 200
        assert "serial" in taken.json()["results"][0]
        assert ignored(node) == 1
        strict = await client.post("/v1/publish?hub=shop&strict=true", json=body)
        assert (strict.status_code, strict.json()["code"]) == (400, 1003)
        for field, said in (("must_reach", "essential"), ("ttlMs", "did you mean ttl_ms?")):
            bad = {"messages": [{**MESSAGE, field: 5}]}
            refused = await client.post("/v1/publish?hub=shop", json=bad)
            assert (refused.status_code, refused.json()["field"]) == (400, "messages[0]")
            assert said in refused.json()["message"]
    assert ignored(node) == 1


@pytest.mark.parametrize("value", ["", "xx", "TRUE"])
async def test_strict_in_other_words_is_refused_and_not_taken_for_no(
    node: RunningNode, value: str
) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
    }
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        query = f"hub=shop&strict={value}"
        for refused in (
            await client.post(f"/v1/publish?{query}", json={"messages": [MESSAGE]}),
            await client.get(f"/v1/ws?{query}", headers=upgrade),
        ):
            told = refused.json()
            assert (refused.status_code, told["code"], told["field"]) == (400, 1003, "strict")
    assert node.node.metrics.total().publishes == 0


@pytest.mark.parametrize(
    ("value", "status"), [("1", 400), ("true", 400), ("0", 200), ("false", 200)]
)
async def test_strict_is_a_word_or_a_digit(node: RunningNode, value: str, status: int) -> None:
    body = {"messages": [{**MESSAGE, "priority": 5}]}
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        taken = await client.post(f"/v1/publish?hub=shop&strict={value}", json=body)
    assert taken.status_code == status
    wire = await connect(node.url, flavour="arauto.v1.json", strict=value)
    wire.send_raw(newer_publish(wire, proto=b"", json='"priority":5'))
    if status == 400:
        await wire.next(ErrorEvent)
    else:
        await wire.next(Ack)
    await wire.close()


async def test_the_admin_api_stays_strict(node: RunningNode) -> None:
    body = {"messages": [{**MESSAGE, "priority": 5}]}
    async with Admin(node.node) as admin:
        _, problem = await admin.refused("POST", "/v1/hubs/shop/publish", body)
    assert problem["code"] == Code.BAD_FIELD


async def test_a_counter_and_one_line_show_it_without_any_name_of_theirs(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, object]] = []
    monkeypatch.setattr(
        tolerance._log, "debug", lambda event, **said: lines.append(said), raising=False
    )
    wire = await connect(node.url, flavour="arauto.v1.json")
    for n in range(20):
        wire.send_raw(b'{"event":"occupancy","id":1,"channel":"a","stranger%d":1}' % n)
    wire.send(OccupancyRequest(id=2, channel="a"))
    wire.send(PublishRequest(id=3, items=(PublishItem(channel="a", payload=b"x"),)))
    await wire.next(Ack)
    assert ignored(node) == 20
    assert [(line["request"], line["count"]) for line in lines] == [("occupancy", 1)]
    assert "stranger" not in repr(lines)
    assert all("stranger" not in str(code) for code in node.node.metrics.total().refused)
    await wire.close()
