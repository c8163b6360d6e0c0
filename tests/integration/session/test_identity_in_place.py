"""Anonymous, authenticated, someone else, back again after a loss: over real sockets and a real provider."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    CloseRequest,
    ErrorEvent,
    Ping,
    Pong,
    Publication,
    Restored,
    RestoreKey,
    RestoreRequest,
    SessionInfo,
    SubscribeReply,
    UnsubscribeReply,
)
from arauto.errors import Code
from arauto.settings import AuthProvider, ChannelSettings, HubSettings, NamespaceSettings, Rules
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.session.talk import FLAVOURS, publish, subscribed
from tests.integration.wire import Wire, connect
from tests.stored import stored

PEOPLE: dict[bytes, dict[str, Any]] = {
    b"ann": {
        "success": True,
        "user": "ann",
        "channels": [{"channel": "vip:*", "publish": True, "subscribe": True}],
        "extra": {"nick": "Ann"},
    },
    b"bob": {"success": True, "user": "bob"},
}


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """A little auth service: knows two people by name."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        body = await reader.readexactly(int(length.partition(b":")[2]))
        asked = base64.b64decode(json.loads(body)["credentials"])
        answer = json.dumps(PEOPLE.get(asked, {"success": False})).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/auth"
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def guarded(start_node: StartNode) -> AsyncIterator[RunningNode]:
    """A node whose hub asks the provider, with a namespace of its own for those with a grant."""
    async with provider() as url:
        node = await start_node(session={"restoreSaveDelayS": 0.05})
        settings = HubSettings(default_public=True, auth_provider=AuthProvider(url=url))
        await node.set("hub", "shop", "", settings)
        await node.set("rules", "shop", "closed", Rules(public=False))
        await node.set("namespace", "shop", "vip", NamespaceSettings(rules="closed"))
        yield node


async def sign_in(wire: Wire, who: bytes, id: int = 1) -> AuthReply:
    return await wire.ask(AuthRequest(id=id, credentials=who), AuthReply)


async def saved(node: RunningNode, count: int) -> None:
    """Wait until that many restore states are in the store."""
    async with asyncio.timeout(10):
        while len(await stored(node.node.storage.kv, "shop", "restore:", 100)) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_rights_come_and_go_with_the_identity(guarded: RunningNode, flavour: str) -> None:
    wire = await connect(guarded.url, flavour=flavour)
    info = await wire.next(SessionInfo)
    assert not info.authenticated
    reply = await subscribed(wire, "vip:1", "news")
    assert [bool(result.error) for result in reply.results] == [True, False]

    signed = await sign_in(wire, b"ann")
    assert (signed.success, signed.user, signed.extra) == (True, "ann", {"nick": "Ann"})
    joined = await wire.next(SubscribeReply)
    assert (joined.id, joined.results[0].channel) == (0, "u:ann")
    assert (await subscribed(wire, "vip:1")).results[0].error is None
    await wire.ask(publish("vip:1", b"for ann", id=2), Ack)
    assert await wire.messages(1) == [b"for ann"]

    failed = await sign_in(wire, b"mallory", id=3)
    assert not failed.success
    assert failed.error is not None
    assert failed.error.code == Code.AUTH_FAILED
    await wire.ask(publish("vip:1", b"still ann", id=4), Ack)
    assert await wire.messages(1) == [b"still ann"]

    assert (await sign_in(wire, b"bob", id=5)).user == "bob"
    ended = await wire.next(UnsubscribeReply)
    assert sorted(ended.channels) == ["u:ann", "vip:1"]
    ack = await wire.ask(publish("vip:1", b"no", id=6), Ack)
    assert ack.results[0].error is not None
    assert ack.results[0].error.code == Code.PUBLISH_DENIED
    await wire.ask(publish("news", b"public", id=7), Ack)
    assert await wire.messages(1) == [b"public"]
    await wire.close()


async def test_a_token_from_authenticating_opens_another_connection_and_http(
    guarded: RunningNode,
) -> None:
    wire = await connect(guarded.url)
    token = (await sign_in(wire, b"ann")).token
    assert token
    other = await connect(guarded.url, token=token)
    info = await other.next(SessionInfo)
    assert (info.authenticated, info.user) == (True, "ann")
    assert (await subscribed(other, "vip:1")).results[0].error is None
    elsewhere = await connect(guarded.url, hub="another", token=token)
    assert (await elsewhere.next(ErrorEvent)).code == Code.TOKEN_INVALID
    for each in (wire, other):
        await each.close()


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_lost_connection_is_taken_up_again_with_everything(
    guarded: RunningNode, flavour: str
) -> None:
    publisher = await connect(guarded.url)
    wire = await connect(guarded.url, flavour=flavour)
    id = (await wire.next(SessionInfo)).session
    await sign_in(wire, b"ann")
    key = (await wire.next(RestoreKey)).key
    place = (await subscribed(wire, "news", "vip:1")).results[0].serial
    assert place is not None
    await wire.close()
    await saved(guarded, 1)
    await publisher.ask(publish("news", b"1", b"2", id=1), Ack)
    back = await connect(guarded.url, flavour=flavour)
    request = RestoreRequest(id=4, key=key, positions={"news": place})
    restored = await back.ask(request, Restored)
    assert (restored.session, restored.user) == (id, "ann")
    results = {result.channel: result for result in restored.results}
    assert results["news"].recovered
    assert results["news"].recovered_count == 2
    assert await back.messages(2) == [b"1", b"2"]
    assert results["vip:1"].error is None
    again = await connect(guarded.url)
    error = await again.ask(request, ErrorEvent)
    assert (error.code, error.field) == (Code.BAD_RESTORE_KEY, "key")
    for each in (publisher, back, again):
        await each.close()


async def test_of_many_connections_with_one_key_exactly_one_wins(guarded: RunningNode) -> None:
    wire = await connect(guarded.url)
    await sign_in(wire, b"ann")
    key = (await wire.next(RestoreKey)).key
    await wire.close()
    await saved(guarded, 1)
    rivals = [await connect(guarded.url) for _ in range(8)]
    for rival in rivals:
        rival.send(RestoreRequest(id=2, key=key))
    outcomes = await asyncio.gather(*(_outcome(rival) for rival in rivals))
    assert sorted(outcomes) == [0] + [Code.BAD_RESTORE_KEY] * 7
    for rival in rivals:
        await rival.close()


async def _outcome(wire: Wire) -> int:
    event: Restored | ErrorEvent = await wire.next(Restored | ErrorEvent)  # type: ignore[arg-type]
    return event.code if isinstance(event, ErrorEvent) else 0


async def test_after_a_polite_close_nothing_can_be_taken_up(guarded: RunningNode) -> None:
    wire = await connect(guarded.url)
    await sign_in(wire, b"ann")
    key = (await wire.next(RestoreKey)).key
    await saved(guarded, 1)
    wire.send(CloseRequest())
    await asyncio.wait_for(wire.closed.wait(), 10)
    assert wire.close_code == 1000
    await saved(guarded, 0)
    other = await connect(guarded.url)
    assert (await other.ask(RestoreRequest(id=1, key=key), ErrorEvent)).code == Code.BAD_RESTORE_KEY
    await other.close()


async def test_rights_withdrawn_during_the_absence_are_not_restored(guarded: RunningNode) -> None:
    wire = await connect(guarded.url)
    await sign_in(wire, b"ann")
    key = (await wire.next(RestoreKey)).key
    await subscribed(wire, "news", "hall")
    await wire.close()
    await saved(guarded, 1)
    await guarded.set("rules", "shop", "closed", Rules(public=False))
    await guarded.set("channel", "shop", "hall", ChannelSettings(rules="closed"))
    back = await connect(guarded.url)
    restored = await back.ask(RestoreRequest(id=1, key=key), Restored)
    errors = {r.channel: r.error.code if r.error else 0 for r in restored.results}
    assert errors["hall"] == Code.SUBSCRIBE_DENIED
    assert errors["news"] == 0
    guarded.node.revocations.revoke_user("shop", "ann")
    second = (await back.next(RestoreKey)).key
    await back.close()
    await saved(guarded, 1)
    last = await connect(guarded.url)
    assert (await last.ask(RestoreRequest(id=1, key=second), ErrorEvent)).code == Code.AUTH_FAILED
    await last.close()


@pytest.mark.parametrize("mode", ["development", "production"])
@pytest.mark.parametrize("is_opened", [False, True])
async def test_a_provider_on_this_machine_is_asked_only_where_the_setting_says_so_whatever_the_mode(
    start_node: StartNode, mode: str, is_opened: bool
) -> None:
    secret = {"secret": "a secret of the tests, longer than 32 bytes"}
    auth = {"providerAllowPrivateNetworks": is_opened, "session": secret}
    async with provider() as url:
        node = await start_node(node={"mode": mode}, auth=auth)
        await node.set("hub", "shop", "", HubSettings(auth_provider=AuthProvider(url=url)))
        wire = await connect(node.url)
        reply = await sign_in(wire, b"bob")
        assert reply.success is is_opened
        if reply.error is not None:
            assert reply.error.code == Code.AUTH_UNAVAILABLE
        await wire.close()


async def test_a_hub_without_strangers_sends_them_away_in_time(start_node: StartNode) -> None:
    async with provider() as url:
        node = await start_node(session={"authDeadlineS": 1})
        settings = HubSettings(allow_anonymous=False, auth_provider=AuthProvider(url=url))
        await node.set("hub", "shop", "", settings)
        late, known = await connect(node.url), await connect(node.url)
        assert (await late.next(SessionInfo)).auth_deadline_ms == 1_000
        assert (await sign_in(known, b"bob")).success
        error = await late.next(ErrorEvent)
        assert error.code == Code.AUTH_DEADLINE
        await asyncio.wait_for(late.closed.wait(), 10)
        assert late.close_code == 4501
        assert (await known.ask(Ping(id=3), Pong)).id == 3
        await known.close()


async def test_silence_is_asked_about_and_then_ends_the_connection(start_node: StartNode) -> None:
    node = await start_node(session={"pingIntervalS": 1, "pongTimeoutS": 1})
    deaf, lively = await connect(node.url), await connect(node.url)

    async def answer() -> None:
        while True:
            await lively.next(Ping)
            lively.send(Pong())

    answering = asyncio.ensure_future(answer())
    await deaf.next(Ping)
    assert (await deaf.next(ErrorEvent)).code == Code.HEARTBEAT_LOST
    await asyncio.wait_for(deaf.closed.wait(), 10)
    assert deaf.close_code == 4001
    assert (await lively.ask(Ping(id=9), Pong)).id == 9
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    await lively.close()


async def test_the_first_event_is_always_the_sessions_own_introduction(
    guarded: RunningNode,
) -> None:
    wire = await connect(guarded.url)
    token = (await sign_in(wire, b"ann")).token
    await wire.ask(publish("u:ann", b"waiting", id=2, retain=True), Ack)
    other = await connect(guarded.url, token=token)
    await other.next(Publication)
    first = await connect(guarded.url, token=token)
    await first.next(Publication)
    assert isinstance(first.events[0], SessionInfo)
    for each in (wire, other, first):
        await each.close()
