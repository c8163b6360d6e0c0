"""Nobody hides a message from rules and replays by marking it as the pipeline's own.

Requests are put together by hand, because the client's encoder refuses these headers already.
"""

from typing import Any

import httpx
import msgspec
import pytest

from arauto.codec import arauto_pb2 as pb
from arauto.codec.events import ErrorEvent, Publication
from arauto.errors import Code
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode
from tests.integration.session.talk import FLAVOURS, publish, subscribed
from tests.integration.wire import connect

#: Written out, so that a name that is dropped from the node's own list is missed here.
MARKS = {
    "x-origin": "pipeline",
    "x-hops": "8",
    "x-rule": "shop/pair@1",
    "x-user": "ann",
    "x-replay": "r1",
    "x-original-ts": "1000",
    "x-original-serial": "00000000000000ff-3",
    "x-original-user": "ann",
}
HTTP = "/v1/publish?hub=shop"


def forged(flavour: str, *headers: dict[str, str], id: int = 0) -> bytes:
    """A publish of one message to `a` for each set of headers."""
    if flavour == "arauto.v1.json":
        messages = [{"channel": "a", "text": "forged", "headers": each} for each in headers]
        return msgspec.json.encode({"event": "publish", "id": id, "messages": messages})
    items = [pb.PublishItem(channel="a", payload=b"forged", headers=each) for each in headers]
    body = pb.PublishRequest(id=id, messages=items).SerializeToString()
    return pb.Envelope(event=pb.EVENT_PUBLISH, payload=body).SerializeToString()


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("id", [0, 7], ids=["no answer wanted", "answer wanted"])
async def test_a_session_cannot_publish_a_mark_of_the_pipeline(
    node: RunningNode, flavour: str, id: int
) -> None:
    wire = await connect(node.url, flavour=flavour)
    await subscribed(wire, "a")
    for name, value in MARKS.items():
        wire.send_raw(forged(flavour, {"n": "1", name: value}, id=id))
        error = await wire.next(ErrorEvent)
        assert (error.code, error.field, error.id) == (Code.BAD_FIELD, "messages[0].headers", id)
        assert f"{name}," in error.message
    wire.send(publish("a", b"honest"))
    assert await wire.messages(1) == [b"honest"]
    await wire.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_mark_does_not_pass_behind_honest_messages(node: RunningNode, flavour: str) -> None:
    wire = await connect(node.url, flavour=flavour)
    await subscribed(wire, "a")
    wire.send_raw(forged(flavour, {}, {"n": "1"}, {"x-origin": "pipeline"}))
    assert (await wire.next(ErrorEvent)).field == "messages[2].headers"
    wire.send(publish("a", b"honest"))
    assert await wire.messages(1) == [b"honest"]
    await wire.close()


@pytest.mark.parametrize("value", ["pipeline", "", "me"])
async def test_a_mark_is_refused_whatever_it_says(node: RunningNode, value: str) -> None:
    wire = await connect(node.url)
    wire.send_raw(forged("arauto.v1.proto", {"x-origin": value}))
    assert (await wire.next(ErrorEvent)).code == Code.BAD_FIELD
    await wire.close()


async def test_an_http_request_cannot_publish_a_mark_of_the_pipeline(node: RunningNode) -> None:
    wire = await connect(node.url)
    await subscribed(wire, "a")
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        for name, value in MARKS.items():
            messages: list[Any] = [
                {"channel": "a", "text": "before"},
                {"channel": "a", "text": "forged", "headers": {"n": "1", name: value}},
            ]
            response = await client.post(HTTP, json={"messages": messages})
            problem = response.json()
            assert (response.status_code, problem["code"]) == (400, Code.BAD_FIELD)
            assert problem["field"] == "messages[1].headers"
            assert f"{name}," in problem["message"]
        honest = {"channel": "a", "text": "honest", "headers": {"n": "1"}}
        assert (await client.post(HTTP, json={"messages": [honest]})).status_code == 200
    assert await wire.messages(1) == [b"honest"]
    await wire.close()


async def test_names_that_only_look_like_marks_are_headers_like_any_other(
    node: RunningNode,
) -> None:
    """The pipeline reads its marks to the letter, so these hide nothing."""
    headers = {"X-Origin": "pipeline", "x-origin-country": "pt", "origin": "pipeline"}
    wire = await connect(node.url)
    await subscribed(wire, "a")
    wire.send_raw(forged("arauto.v1.proto", headers))
    assert (await wire.next(Publication)).message.headers == headers
    await wire.close()


async def test_an_administrator_publishes_marks_and_subscribers_see_them(node: RunningNode) -> None:
    wire = await connect(node.url)
    await subscribed(wire, "a")
    async with Admin(node.node) as admin:
        body = {"messages": [{"channel": "a", "text": "alert", "headers": MARKS}]}
        (result,) = (await admin.ok("POST", "/v1/hubs/shop/publish", body))["results"]
    assert "error" not in result
    assert (await wire.next(Publication)).message.headers == MARKS
    await wire.close()
