"""Server-sent events through a real node: several channels, recovery, limits and slow readers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jwt
import msgspec
import pytest

from arauto.codec.events import Ack
from arauto.errors import Code
from arauto.settings import HubSettings, NamespaceSettings, Rules
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.session.talk import publish
from tests.integration.wire import Wire, connect

_TIMEOUT_S = 10.0


class Stream:
    """A stream as a browser's EventSource sees it."""

    def __init__(self, lines: AsyncIterator[str], status: int) -> None:
        self._lines = lines
        self.status = status
        self.last_id = ""

    async def next(self, *names: str) -> dict[str, Any]:
        """The next event of one of these names; of any name if there are none."""
        name = data = ""
        async with asyncio.timeout(_TIMEOUT_S):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                elif line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data = line[6:]
                elif not line and data:
                    if not names or name in names:
                        found: dict[str, Any] = msgspec.json.decode(data)
                        return found
                    name = data = ""
        raise ConnectionError("the stream ended")

    async def texts(self, count: int) -> list[str]:
        return [(await self.next("publish"))["text"] for _ in range(count)]


@asynccontextmanager
async def streaming(
    node: RunningNode, *channels: str, hub: str = "shop", last_id: str = "", **query: str
) -> AsyncIterator[Stream]:
    params: list[tuple[str, str | int | float | bool | None]]
    params = [("hub", hub), *(("channel", name) for name in channels), *query.items()]
    headers = {"Last-Event-ID": last_id} if last_id else {}
    url = f"{node.http_url}/v1/sse"
    async with (
        httpx.AsyncClient(timeout=_TIMEOUT_S) as client,
        client.stream("GET", url, params=params, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Stream(answer.aiter_lines(), answer.status_code)


async def say(wire: Wire, channel: str, *texts: str) -> None:
    payloads = [text.encode() for text in texts]
    ack = await wire.ask(publish(channel, *payloads, id=1, content_type="text/plain"), Ack)
    assert all(result.error is None for result in ack.results)


async def sessions_left(node: RunningNode, count: int) -> None:
    hub = node.node.directory.hubs["shop"]
    async with asyncio.timeout(_TIMEOUT_S):
        while len(hub.sessions) != count:  # noqa: ASYNC110 - nobody announces that a session ended
            await asyncio.sleep(0.01)


async def test_one_stream_carries_several_channels_and_patterns(node: RunningNode) -> None:
    wire = await connect(node.url)
    async with streaming(node, "stock:42", "weather:*", "/sea") as stream:
        info = await stream.next("session_info")
        assert info["hub"] == "shop"
        reply = await stream.next("subscribe")
        assert [result["channel"] for result in reply["results"]] == [
            "stock:42",
            "weather:*",
            "/sea",
        ]
        await say(wire, "stock:42", "a")
        await say(wire, "weather:pt", "b")
        await say(wire, "/sea/north", "c")
        await say(wire, "elsewhere", "no")
        await say(wire, "stock:42", "d")
        assert await stream.texts(4) == ["a", "b", "c", "d"]
    await wire.close()


async def test_the_last_event_id_brings_back_what_was_missed_on_every_channel(
    node: RunningNode,
) -> None:
    wire = await connect(node.url)
    channels = ("stock:42", "weather:*")
    async with streaming(node, *channels) as stream:
        await say(wire, "stock:42", "1")
        await say(wire, "weather:pt", "2")
        assert await stream.texts(2) == ["1", "2"]
        last_id = stream.last_id
    await say(wire, "stock:42", "3")
    await say(wire, "weather:pt", "4")
    await say(wire, "weather:es", "5")
    async with streaming(node, *channels, last_id=last_id) as stream:
        reply = await stream.next("subscribe")
        assert [result["recovered"] for result in reply["results"]] == [True, True]
        assert sorted(await stream.texts(3)) == ["3", "4", "5"]
        await say(wire, "stock:42", "6")
        assert await stream.texts(1) == ["6"]
        last_id = stream.last_id
    async with streaming(node, *channels, last_id=last_id) as stream:
        await say(wire, "stock:42", "7")
        assert await stream.texts(1) == ["7"], "nothing comes twice"
    await wire.close()


async def test_a_pattern_recovers_channels_that_were_not_open_when_the_stream_began(
    node: RunningNode,
) -> None:
    """Seen: such a stream was given no id, so a browser that came back recovered nothing, without a word."""
    publisher = await connect(node.url)
    async with streaming(node, "news:*", "/tree") as stream:
        await stream.next("subscribe")
        assert stream.last_id
        place = stream.last_id
    await say(publisher, "news:1", "a")
    await say(publisher, "news:1", "b")
    await say(publisher, "/tree/leaf", "c")
    async with streaming(node, "news:*", "/tree", last_id=place) as stream:
        reply = await stream.next("subscribe")
        assert [result["recovered"] for result in reply["results"]] == [True, True]
        assert sorted(await stream.texts(3)) == ["a", "b", "c"]
        later = stream.last_id
    async with streaming(node, "news:*", "/tree", last_id=later) as stream:
        reply = await stream.next("subscribe")
        assert [result["recovered"] for result in reply["results"]] == [True, True]
        await say(publisher, "news:2", "d")
        assert await stream.texts(1) == ["d"]


async def test_places_of_a_pattern_that_an_id_has_no_room_for_come_again_from_the_beginning(
    node: RunningNode,
) -> None:
    publisher = await connect(node.url)
    names = [f"w:{'x' * 100}:{number:02}" for number in range(60)]
    async with streaming(node, "w:*") as stream:
        await stream.next("subscribe")
        for name in names:
            await say(publisher, name, name)
        assert await stream.texts(len(names)) == names
        place = stream.last_id
    await say(publisher, names[0], "missed")
    dropped = [name for name in names if name not in place]
    assert dropped == names[: len(dropped)]
    assert 0 < len(dropped) < len(names)
    async with streaming(node, "w:*", last_id=place) as stream:
        [result] = (await stream.next("subscribe"))["results"]
        assert (result["recovered"], result["recovered_count"]) == (True, len(dropped) + 1)
        texts = await stream.texts(len(dropped) + 1)
        assert sorted(texts) == sorted([*dropped, "missed"])
    await publisher.close()


async def test_a_place_that_is_gone_is_told(start_node: StartNode) -> None:
    rules = {"clientPublish": True, "liveHistoryLen": 2}
    node = await start_node(hub={"defaults": {"defaultPublic": True}, "defaultRules": rules})
    wire = await connect(node.url)
    async with streaming(node, "log") as stream:
        await say(wire, "log", "1")
        await stream.texts(1)
    await say(wire, "log", *"23456")
    async with streaming(node, "log", last_id=stream.last_id) as again:
        [result] = (await again.next("subscribe"))["results"]
        assert not result.get("recovered")
    await wire.close()


async def test_a_refused_channel_is_told_and_the_others_go_on(node: RunningNode) -> None:
    await node.set("rules", "shop", "closed", Rules(public=False))
    await node.set("namespace", "shop", "vip", NamespaceSettings(rules="closed"))
    wire = await connect(node.url)
    async with streaming(node, "vip:1", "news", "a b") as stream:
        results = (await stream.next("subscribe"))["results"]
        codes = [result.get("error", {}).get("code", 0) for result in results]
        assert codes == [Code.SUBSCRIBE_DENIED, 0, Code.BAD_CHANNEL_NAME]
        await say(wire, "news", "x")
        assert await stream.texts(1) == ["x"]
    await wire.close()


async def test_a_token_that_may_read_none_of_the_channels_is_refused(start_node: StartNode) -> None:
    secret = "a-shared-key-of-at-least-32-bytes!!"
    defaults = {"defaultPublic": False, "jwt": {"algorithm": "HS256", "secret": secret}}
    node = await start_node(hub={"defaults": defaults})
    grants = {"channels": [{"channel": "stock:*", "subscribe": True}]}
    claims = {"sub": "ana", "aud": "shop", "exp": int(time.time()) + 600, "grants": grants}
    token = jwt.encode(claims, secret, algorithm="HS256")
    async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
        params = {"hub": "shop", "channel": ["till:1", "till:*"], "token": token}
        answer = await client.get(f"{node.http_url}/v1/sse", params=params)
    assert (answer.status_code, answer.json()["code"]) == (403, Code.SUBSCRIBE_DENIED)
    await sessions_left(node, 0)
    async with streaming(node, "till:1", "stock:1", token=token) as stream:
        await stream.next("subscribe")  # the user's own channel
        results = (await stream.next("subscribe"))["results"]
        codes = [result.get("error", {}).get("code", 0) for result in results]
    assert codes == [Code.SUBSCRIBE_DENIED, 0]


async def test_a_reader_that_leaves_frees_its_session(node: RunningNode) -> None:
    for _ in range(5):
        async with streaming(node, "news") as stream:
            await stream.next("subscribe")
            await sessions_left(node, 1)
        await sessions_left(node, 0)
    channel = node.node.directory.hubs["shop"].channels["news"]
    assert channel.member_count == 0


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("hub=shop", Code.BAD_FIELD, "channel"),
        ("hub=shop&" + "&".join(f"channel=c{n}" for n in range(101)), Code.BAD_FIELD, "channel"),
        ("hub=shop&channel=a&" + "x=1&" * 200, Code.BAD_FIELD, "query"),
        ("hub=bad%20name&channel=a", Code.BAD_HUB_NAME, "hub"),
        ("channel=a", Code.BAD_HUB_NAME, "hub"),
        ("hub=shop&channel=a&lastEventId=made-up", Code.BAD_FIELD, "last_event_id"),
        ("hub=shop&channel=a&token=nobody", Code.AUTH_FAILED, "credentials"),
    ],
)
async def test_a_bad_address_is_refused_with_the_field(
    node: RunningNode, query: str, code: Code, field: str
) -> None:
    async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
        answer = await client.get(f"{node.http_url}/v1/sse?{query}")
    assert answer.status_code in (400, 401)
    assert answer.json()["code"] == code
    assert answer.json()["field"] == field
    hub = node.node.directory.hubs.get("shop")
    assert hub is None or not hub.sessions


async def test_a_hub_that_is_full_answers_that_it_is(node: RunningNode) -> None:
    settings = HubSettings(default_public=True)
    await node.set("hub", "shop", "", settings)
    wire = await connect(node.url)
    await say(wire, "a", "x")
    quotas = msgspec.structs.replace(settings.quotas, sessions_max=1)
    await node.set("hub", "shop", "", HubSettings(default_public=True, quotas=quotas))
    async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
        answer = await client.get(f"{node.http_url}/v1/sse?hub=shop&channel=a")
    assert answer.status_code == 503
    assert answer.json()["code"] == Code.TOO_MANY_SESSIONS
    await wire.close()


async def test_a_stream_that_is_not_read_is_bounded_and_then_cut(start_node: StartNode) -> None:
    """T14: the reader stops; the publisher does not notice, and the node does not pay for it."""
    node = await start_node(
        connection={"port": 0, "sse": {"sendBufferBytes": 100_000}},
        hub={
            "defaults": {
                "defaultPublic": True,
                # Its publisher sends more in a second than a session may.
                "quotas": {"messageBytesMax": 50_000, "sessionMessagesPerS": 0},
            },
            "defaultRules": {"clientPublish": True, "liveHistoryLen": 0},
        },
    )
    wire = await connect(node.url)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port, limit=1_024)
    writer.write(b"GET /v1/sse?hub=shop&channel=flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"event: subscribe")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    [subscriber] = node.node.directory.hubs["shop"].channels["flood"].subscribers
    for _ in range(400):
        await say(wire, "flood", "x" * 40_000)
        assert subscriber.outbox.backlog_bytes <= 100_000
        if subscriber.outbox.closed:
            break
    assert subscriber.outbox.closed
    await sessions_left(node, 1)
    # The wire is left; the stream's connection is cut although nobody reads it.
    async with asyncio.timeout(_TIMEOUT_S):
        while node.node.port.admission.count > 1:  # noqa: ASYNC110 - it counts, it does not tell
            await asyncio.sleep(0.05)
    writer.transport.abort()
    await wire.close()


async def test_a_silent_stream_is_kept_alive_with_comments(start_node: StartNode) -> None:
    node = await start_node(connection={"port": 0, "sse": {"keepAliveS": 0.2}})
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(b"GET /v1/sse?hub=shop&channel=a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(_TIMEOUT_S):
        for _ in range(3):
            await reader.readuntil(b":\n\n")
    writer.close()
    await sessions_left(node, 0)


async def test_a_stream_is_told_why_it_ends(node: RunningNode) -> None:
    async with streaming(node, "news") as stream:
        await stream.next("subscribe")
        [subscriber] = node.node.directory.hubs["shop"].sessions.values()
        subscriber.session.disconnect(Code.FORCED_LOGOUT, "an administrator ended the session")
        assert (await stream.next("error"))["code"] == Code.FORCED_LOGOUT
        with pytest.raises(ConnectionError):
            await stream.next()


@pytest.mark.parametrize("name", ["s:%C3%28", "s:%FF", "%ED%A0%80"])
async def test_a_name_that_is_not_utf_8_is_refused_and_not_another_name(
    node: RunningNode, name: str
) -> None:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=_TIMEOUT_S) as client:
        for refused in (
            await client.get(f"/v1/sse?hub=shop&channel={name}"),
            await client.post(f"/v1/publish?hub=shop&x={name}", json={"messages": []}),
        ):
            told = refused.json()
            assert (refused.status_code, told["code"]) == (400, Code.BAD_FIELD)
            assert told["field"] == "query"
    assert "shop" not in node.node.directory.hubs
