"""Changes made through the admin API reach running sessions at once; publishing, presence and history."""

import pytest

from arauto.codec.events import (
    Ack,
    AckItem,
    ErrorEvent,
    Publication,
    PublishItem,
    PublishRequest,
    SessionInfo,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
)
from arauto.errors import Code
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode
from tests.integration.wire import Wire, connect

HUB = "/v1/hubs/shop"


async def subscribe(wire: Wire, *channels: str) -> SubscribeReply:
    items = tuple(SubscribeItem(channel=channel) for channel in channels)
    return await wire.ask(SubscribeRequest(id=1, items=items), SubscribeReply)


async def publish(wire: Wire, channel: str, payload: bytes, id: int = 9) -> AckItem:
    request = PublishRequest(id=id, items=(PublishItem(channel=channel, payload=payload),))
    return (await wire.ask(request, Ack)).results[0]


def text(channel: str, *texts: str) -> dict[str, list[dict[str, str]]]:
    return {"messages": [{"channel": channel, "text": each} for each in texts]}


# --- live changes ----------------------------------------------------------------------------------


async def test_subscribers_whom_new_rules_shut_out_are_evicted(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", HUB, {})
    await admin.ok("PUT", f"{HUB}/rules/open", {"public": True})
    await admin.ok("PUT", f"{HUB}/namespaces/room", {"rules": "open"})
    wire = await connect(node.url)
    reply = await subscribe(wire, "room:1", "room:2")
    assert [result.error for result in reply.results] == [None, None]
    await admin.ok("PUT", f"{HUB}/channel-settings", {"rules": "open"}, channel="room:2")
    await admin.ok("PUT", f"{HUB}/rules/closed", {"public": False})
    await admin.ok("PUT", f"{HUB}/namespaces/room", {"rules": "closed"})
    evicted = await wire.next(UnsubscribeReply)
    assert evicted.channels == ("room:1",)
    assert evicted.error is not None
    assert evicted.error.code == Code.SUBSCRIBE_DENIED
    await admin.ok("POST", f"{HUB}/publish", text("room:1", "secret"))
    await admin.ok("POST", f"{HUB}/publish", text("room:2", "still yours"))
    assert await wire.messages(1) == [b"still yours"]
    # Deleting the rules of the last one falls back to the namespace's, which are closed too.
    await admin.ok("DELETE", f"{HUB}/rules/open", force="true")
    assert (await wire.next(UnsubscribeReply)).channels == ("room:2",)


async def test_quotas_take_hold_at_once(node: RunningNode, admin: Admin) -> None:
    open_hub = {"defaultPublic": True}
    await admin.ok("PUT", HUB, open_hub)
    wire = await connect(node.url)
    assert (await publish(wire, "a", b"x" * 100)).error is None
    await admin.ok("PUT", HUB, {**open_hub, "quotas": {"messageBytesMax": 10, "sessionsMax": 1}})
    refused = (await publish(wire, "a", b"x" * 100)).error
    assert refused is not None
    assert refused.code == Code.MESSAGE_TOO_LARGE
    late = await connect(node.url)
    assert (await late.next(ErrorEvent)).code == Code.TOO_MANY_SESSIONS
    await admin.ok("PUT", HUB, {**open_hub, "quotas": {"messagesPerS": 1}})
    outcomes = await admin.ok("POST", f"{HUB}/publish", text("a", "1", "2", "3"))
    codes = [result["error"]["code"] for result in outcomes["results"] if "error" in result]
    assert codes == [Code.HUB_RATE_LIMITED] * 2
    await admin.ok("PUT", HUB, {**open_hub, "quotas": {"subscriptionsPerSessionMax": 1}})
    reply = await subscribe(wire, "b", "c")
    assert [r.error and r.error.code for r in reply.results] == [None, Code.TOO_MANY_SUBSCRIPTIONS]


async def test_a_hub_with_sessions_is_deleted_only_by_force(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", HUB, {})
    wire = await connect(node.url)
    await wire.next(SessionInfo)
    status, problem = await admin.refused("DELETE", HUB)
    assert (status, problem["code"]) == (409, Code.CONFLICT)
    assert "1 sessions" in problem["message"]
    await admin.ok("DELETE", HUB, force="true")
    assert (await wire.next(ErrorEvent)).code == Code.HUB_CLOSED
    assert (await admin.ok("GET", "/v1/hubs"))["items"] == []


# --- messages --------------------------------------------------------------------------------------


async def test_messages_of_every_form_are_published_each_with_its_outcome(
    node: RunningNode, admin: Admin
) -> None:
    wire = await connect(node.url)
    await subscribe(wire, "a")
    messages = [
        {"channel": "a", "data": {"left": 7}, "headers": {"h": "v"}},
        {"channel": "a b", "text": "x"},
        {"channel": "a", "text": "hello", "idempotency_key": "k"},
        {"channel": "a", "text": "hello", "idempotency_key": "k"},
        {"channel": "a", "base64": "AAE=", "content_type": "application/cbor"},
    ]
    answer = await admin.ok("POST", f"{HUB}/publish", {"messages": messages})
    serials = [result.get("serial", {}).get("offset") for result in answer["results"]]
    assert serials == [1, None, 2, 2, 3]
    assert answer["results"][1]["error"]["code"] == Code.BAD_CHANNEL_NAME
    assert answer["results"][3]["duplicate"] is True
    received = [(await wire.next(Publication)).message for _ in range(3)]
    assert [m.payload for m in received] == [b'{"left":7}', b"hello", b"\x00\x01"]
    assert [(m.session, m.user) for m in received] == [("", "")] * 3
    assert received[0].headers == {"h": "v"}


async def test_an_administrator_may_publish_where_no_client_may(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", HUB, {})
    await admin.ok("PUT", f"{HUB}/rules/read", {"public": True, "clientPublish": False})
    await admin.ok("PUT", f"{HUB}/namespaces/news", {"rules": "read"})
    wire = await connect(node.url)
    await subscribe(wire, "news:1")
    own = (await publish(wire, "news:1", b"mine")).error
    assert own is not None
    assert own.code == Code.PUBLISH_DENIED
    await admin.ok("POST", f"{HUB}/publish", text("news:1", "official"))
    assert await wire.messages(1) == [b"official"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "messages"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"channel": "a"}]}, 400, "messages[0]"),
        ({"messages": [{"channel": "a", "text": "x", "data": 1}]}, 400, "messages[0]"),
        ({"messages": [{"channel": 1, "text": "x"}]}, 400, "messages[0].channel"),
        ({"messages": [{"channel": "a", "text": "x", "hub": "b"}]}, 400, "messages[0]"),
        ({"messages": [{"channel": "a", "base64": "?"}]}, 400, "messages[0].base64"),
        ({"messages": [{"channel": "a", "text": "x", "ttl_ms": -1}]}, 400, "messages[0].ttl_ms"),
        ({"messages": [{"channel": "a", "text": "x"}] * 1001}, 413, "messages"),
        ({"messages": [{"channel": "a", "text": "x"}], "hub": "other"}, 400, "body"),
    ],
)
async def test_bad_messages_are_refused_as_a_whole(
    admin: Admin, body: object, status: int, field: str
) -> None:
    refused = await admin.refused("POST", f"{HUB}/publish", body)
    assert (refused[0], refused[1]["field"]) == (status, field)
    assert (await admin.ok("GET", f"{HUB}/channels"))["items"] == []


async def test_the_past_is_read_in_pages_both_ways(admin: Admin) -> None:
    await admin.ok("PUT", f"{HUB}/rules/kept", {"store": "all"})
    await admin.ok("PUT", f"{HUB}/namespaces/log", {"rules": "kept"})
    await admin.ok("POST", f"{HUB}/publish", text("log:1", *"abcde"))
    page = await admin.ok("GET", f"{HUB}/history", channel="log:1", limit=3)
    assert [message["text"] for message in page["messages"]] == ["a", "b", "c"]
    assert (page["more"], page["complete"], page["serial"]["offset"]) == (True, False, 5)
    place = f"{page['next']['epoch']}-{page['next']['offset']}"
    rest = await admin.ok("GET", f"{HUB}/history", channel="log:1", since=place)
    assert [message["text"] for message in rest["messages"]] == ["d", "e"]
    assert (rest["more"], rest["complete"]) == (False, True)
    back = await admin.ok(
        "GET", f"{HUB}/history", channel="log:1", until=place, direction="backward"
    )
    assert [message["text"] for message in back["messages"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "channel"),
        ({"channel": "a*"}, "channel"),
        ({"channel": "a", "since": "x"}, "since"),
        ({"channel": "a", "since": "zzzzzzzzzzzzzzzz-1"}, "since.epoch"),
        ({"channel": "a", "since": "ffffffffffffffff-1"}, "since.epoch"),
        ({"channel": "a", "until": "0000000000000000-99999999999999999999"}, "until"),
        ({"channel": "a", "limit": "1001"}, "limit"),
        ({"channel": "a", "fromMs": "-1"}, "fromMs"),
        ({"channel": "a", "direction": "up"}, "direction"),
        ({"channel": "a", "direktion": "up"}, "query"),
    ],
)
async def test_bad_questions_about_the_past_are_refused_by_field(
    admin: Admin, query: dict[str, str], field: str
) -> None:
    status, problem = await admin.refused("GET", f"{HUB}/history", **query)
    assert (status, problem["field"]) == (400, field)


# --- channels --------------------------------------------------------------------------------------


async def test_live_channels_are_listed_by_name_and_pattern(admin: Admin) -> None:
    names = [f"room:{number:02}" for number in range(12)]
    for name in (*names, "other"):
        await admin.ok("POST", f"{HUB}/publish", text(name, "x"))
    first = await admin.ok("GET", f"{HUB}/channels", match="room:*", limit=10)
    rest = await admin.ok("GET", f"{HUB}/channels", match="room:*", after=first["next"])
    assert [item["name"] for item in first["items"] + rest["items"]] == names
    assert rest["next"] == ""
    item = first["items"][0]
    assert (item["serial"]["offset"], item["members"]) == (1, 0)
    assert item["rules"]["public"] is True


async def test_presence_and_occupancy_are_seen_from_outside(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", f"{HUB}/rules/seen", {"public": True, "presence": True})
    await admin.ok("PUT", f"{HUB}/namespaces/room", {"rules": "seen"})
    path = f"{HUB}/presence"
    assert await admin.ok("GET", path, channel="room:1") == {
        "channel": "room:1",
        "members": [],
        "total": 0,
    }
    wire = await connect(node.url)
    session = (await wire.next(SessionInfo)).session
    await subscribe(wire, "room:1", "hidden")
    seen = await admin.ok("GET", path, channel="room:1")
    assert (seen["total"], [member["session"] for member in seen["members"]]) == (1, [session])
    for channel, count in (("room:1", 1), ("hidden", 1), ("nobody", 0)):
        answer = await admin.ok("GET", f"{HUB}/occupancy", channel=channel)
        assert answer == {"channel": channel, "count": count}
    status, problem = await admin.refused("GET", path, channel="hidden")
    assert (status, problem["code"]) == (409, Code.FEATURE_OFF)


async def test_looking_at_a_channel_does_not_make_it(node: RunningNode, admin: Admin) -> None:
    await admin.ok("GET", f"{HUB}/occupancy", channel="a")
    await admin.refused("GET", f"{HUB}/presence", channel="a")
    await admin.ok("GET", f"{HUB}/channels")
    assert node.node.directory.hubs == {}
