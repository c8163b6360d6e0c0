"""Sessions seen, ended and shut out through the admin API."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Publication,
    Restored,
    RestoreKey,
    RestoreRequest,
    SessionInfo,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.errors import Code, StorageError
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import Wire, connect
from tests.stored import stored

HUB = "/v1/hubs/shop"
SECRET = "shared-by-issuer-and-node-32-bytes"
SETTINGS: dict[str, Any] = {"jwt": {"algorithm": "HS256", "secret": SECRET}}


def token_for(node: RunningNode, user: str) -> str:
    """What the hub's issuer would give the user now."""
    now_s = node.node.clock.wall_ms() / 1_000
    grants = {"channels": [{"channel": "news:*", "subscribe": True, "publish": True}]}
    claims = {"sub": user, "aud": "shop", "iat": now_s, "exp": now_s + 600, "grants": grants}
    return jwt.encode(claims, SECRET, algorithm="HS256")


async def signed_in(node: RunningNode, token: str, **options: Any) -> tuple[Wire, str, str]:
    """(connection, session id, restore key) of a client that authenticated."""
    wire = await connect(node.url, **options)
    session = (await wire.next(SessionInfo)).session
    reply = await wire.ask(AuthRequest(id=1, credentials=token.encode()), AuthReply)
    assert reply.success
    return wire, session, (await wire.next(RestoreKey)).key


@pytest.fixture(autouse=True)
async def hub_with_tokens(admin: Admin) -> None:
    await admin.ok("PUT", HUB, SETTINGS)


async def test_a_session_is_shown_with_subscriptions_and_grants(
    node: RunningNode, admin: Admin
) -> None:
    wire, id, _ = await signed_in(node, token_for(node, "ann"), flavour="arauto.v1.json")
    items = (SubscribeItem(channel="news:1"), SubscribeItem(channel="news:*"))
    await wire.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    seen = await admin.ok("GET", f"{HUB}/sessions/{id}")
    assert (seen["id"], seen["user"], seen["authenticated"]) == (id, "ann", True)
    assert (seen["transport"], seen["flavour"]) == ("websocket", "arauto.v1.json")
    assert (seen["address"], seen["backlogBytes"]) == ("127.0.0.1", 0)
    assert seen["subscriptions"] == ["u:ann", "news:1", "news:*"]
    assert seen["grants"] == [{"channel": "news:*", "publish": True, "subscribe": True}]
    assert seen["authExpiresMs"] > seen["sinceMs"] > 0


async def test_sessions_are_listed_in_pages_and_by_user(node: RunningNode, admin: Admin) -> None:
    token = token_for(node, "ann")
    anns = {(await signed_in(node, token))[1] for _ in range(3)}
    others = set()
    for _ in range(4):
        wire = await connect(node.url)
        others.add((await wire.next(SessionInfo)).session)
    found: list[str] = []
    after = ""
    for _ in range(4):
        page = await admin.ok("GET", f"{HUB}/sessions", limit=2, after=after)
        found += [item["id"] for item in page["items"]]
        after = page["next"]
    assert after == ""
    assert found == sorted(anns | others)
    mine = await admin.ok("GET", f"{HUB}/sessions", user="ann")
    assert {item["id"] for item in mine["items"]} == anns
    assert {(item["user"], item["subscriptions"]) for item in mine["items"]} == {("ann", 1)}


async def test_a_session_that_is_not_there_is_not_found(admin: Admin) -> None:
    for method in ("GET", "DELETE"):
        status, problem = await admin.refused(method, f"{HUB}/sessions/none")
        assert (status, problem["code"]) == (404, Code.NOT_FOUND)


async def test_a_disconnected_session_is_told_why_and_cannot_be_restored(
    node: RunningNode, admin: Admin
) -> None:
    token = token_for(node, "ann")
    wire, id, key = await signed_in(node, token)
    await admin.ok("DELETE", f"{HUB}/sessions/{id}")
    assert (await wire.next(ErrorEvent)).code == Code.FORCED_LOGOUT
    await wire.closed.wait()
    assert wire.close_code == 4503
    back = await connect(node.url)
    refused = await back.ask(RestoreRequest(id=2, key=key), ErrorEvent)
    assert refused.code == Code.BAD_RESTORE_KEY
    # The user as such is still welcome.
    await signed_in(node, token)


async def test_a_lost_session_is_ended_too_and_no_other(node: RunningNode, admin: Admin) -> None:
    lost = [await signed_in(node, token_for(node, user)) for user in ("ann", "bob")]
    for wire, _, _ in lost:
        await wire.close()
    while (await admin.ok("GET", f"{HUB}/sessions"))["items"]:
        pass
    (_, id, key), (_, other_id, other_key) = lost
    await admin.ok("DELETE", f"{HUB}/sessions/{id}")
    back = await connect(node.url)
    refused = await back.ask(RestoreRequest(id=2, key=key), ErrorEvent)
    assert refused.code == Code.BAD_RESTORE_KEY
    restored = await back.ask(RestoreRequest(id=3, key=other_key), Restored)
    assert restored.session == other_id
    status, problem = await admin.refused("DELETE", f"{HUB}/sessions/{id}")
    assert (status, problem["code"]) == (404, Code.NOT_FOUND)


async def test_no_session_of_a_deleted_hub_is_restored_in_the_next_of_its_name(
    node: RunningNode, admin: Admin
) -> None:
    """Threat: who was let in by one tenant gets into another by the name alone."""
    connected, _, key = await signed_in(node, token_for(node, "ann"))
    lost, lost_id, lost_key = await signed_in(node, token_for(node, "bob"))
    await lost.close()
    while lost_id in str(await admin.ok("GET", f"{HUB}/sessions")):
        pass
    await admin.ok("DELETE", HUB, force=True)
    await connected.closed.wait()
    await admin.ok("PUT", HUB, {"jwt": {"algorithm": "HS256", "secret": "quite-another-" * 3}})
    back = await connect(node.url)
    for dead in (key, lost_key):
        refused = await back.ask(RestoreRequest(id=2, key=dead), ErrorEvent)
        assert refused.code == Code.BAD_RESTORE_KEY


async def test_nor_one_that_came_and_was_lost_while_the_hub_was_being_deleted(
    node: RunningNode, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = node.node.operations.hubs._store
    delete = store.delete
    keys: list[str] = []

    async def meanwhile(*which: str) -> bool:
        if not keys:
            wire, _, key = await signed_in(node, token_for(node, "ann"))
            keys.append(key)
            await wire.close()
            while not await stored(node.node.storage.kv, "shop", "restore:", 1):  # noqa: ASYNC110
                await asyncio.sleep(0)
        return await delete(*which)

    monkeypatch.setattr(store, "delete", meanwhile)
    assert "shop" not in node.node.directory.hubs
    await admin.ok("DELETE", HUB)
    await admin.ok("PUT", HUB, {"jwt": {"algorithm": "HS256", "secret": "quite-another-" * 3}})
    back = await connect(node.url)
    refused = await back.ask(RestoreRequest(id=2, key=keys[0]), ErrorEvent)
    assert refused.code == Code.BAD_RESTORE_KEY


async def test_a_stream_of_events_is_seen_and_ended_like_any_session(
    node: RunningNode, admin: Admin
) -> None:
    headers = {"Authorization": f"Bearer {token_for(node, 'ann')}"}
    async with (
        httpx.AsyncClient(base_url=node.http_url, timeout=10) as client,
        client.stream("GET", "/v1/sse?hub=shop&channel=news:1", headers=headers) as response,
    ):
        lines = response.aiter_lines()
        while "subscribe" not in await anext(lines):
            pass
        [seen] = (await admin.ok("GET", f"{HUB}/sessions", user="ann"))["items"]
        assert (seen["transport"], seen["subscriptions"]) == ("sse", 2)
        await admin.ok("DELETE", f"{HUB}/sessions/{seen['id']}")
        rest = [line async for line in lines]
    assert any(str(int(Code.FORCED_LOGOUT)) in line for line in rest)


async def test_a_revoked_user_gets_nothing_more_by_any_way(node: RunningNode, admin: Admin) -> None:
    """Threat T7: revocation ends subscriptions, restore keys and tokens, and only those of before it."""
    token = token_for(node, "ann")
    wire, _, key = await signed_in(node, token)
    other, _, _ = await signed_in(node, token_for(node, "bob"))
    for each in (wire, other):
        request = SubscribeRequest(id=2, items=(SubscribeItem(channel="news:1"),))
        await each.ask(request, SubscribeReply)
    lost, _, lost_key = await signed_in(node, token)
    await lost.close()

    stop = asyncio.Event()

    async def stream() -> int:
        sent = 0
        while not stop.is_set():
            body = {"messages": [{"channel": "news:1", "text": str(sent)}]}
            await admin.ok("POST", f"{HUB}/publish", body)
            sent += 1
        return sent

    streaming = asyncio.ensure_future(stream())
    await wire.messages(5)
    revoked = await admin.ok("POST", f"{HUB}/users/ann/revoke")
    assert revoked["sessionsEnded"] == 1
    hub = node.node.directory.hubs["shop"]
    assert hub.sessions_of("ann") == []
    seen = len([event for event in wire.events if isinstance(event, Publication)])
    await other.messages(seen + 20)
    stop.set()
    await streaming
    await wire.closed.wait()
    assert any(isinstance(e, ErrorEvent) and e.code == Code.FORCED_LOGOUT for e in wire.events)

    back = await connect(node.url)
    assert (await back.ask(RestoreRequest(id=3, key=key), ErrorEvent)).code == Code.BAD_RESTORE_KEY
    late = await back.ask(RestoreRequest(id=4, key=lost_key), ErrorEvent)
    assert late.code == Code.AUTH_FAILED
    again = await back.ask(AuthRequest(id=5, credentials=token.encode()), AuthReply)
    assert again.error is not None
    assert again.error.code == Code.TOKEN_INVALID
    async with httpx.AsyncClient(base_url=node.http_url) as client:
        response = await client.post(
            "/v1/publish?hub=shop",
            json={"messages": [{"channel": "news:1", "text": "x"}]},
            headers={"Authorization": f"Bearer {token}"},
        )
    assert (response.status_code, response.json()["code"]) == (401, Code.TOKEN_INVALID)
    # Whoever decides that ann may come back gives her a new token, and that works.
    await signed_in(node, token_for(node, "ann"))


async def test_a_user_is_revoked_in_one_hub_only(node: RunningNode, admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop2", SETTINGS)
    now_s = node.node.clock.wall_ms() // 1_000
    claims = {"sub": "ann", "aud": "shop2", "iat": now_s, "exp": now_s + 600}
    token = jwt.encode(claims, SECRET, algorithm="HS256")
    wire, _, _ = await signed_in(node, token, hub="shop2")
    assert (await admin.ok("POST", f"{HUB}/users/ann/revoke"))["sessionsEnded"] == 0
    await signed_in(node, token, hub="shop2")
    assert not wire.closed.is_set()


@pytest.mark.parametrize("user", ["a/b", "a%2Fb", "é@shop", "..", "x?y&z", "a+b;c", "%"])
async def test_every_user_can_be_revoked_whatever_their_id(
    node: RunningNode, admin: Admin, user: str
) -> None:
    await signed_in(node, token_for(node, user))
    quoted = "".join(f"%{byte:02X}" for byte in user.encode())
    revoked = await admin.ok("POST", f"{HUB}/users/{quoted}/revoke")
    assert (revoked["user"], revoked["sessionsEnded"]) == (user, 1)


async def test_a_revocation_outlives_a_restart(start_node: StartNode, tmp_path: Path) -> None:
    stored = {"kind": "sqlite", "dataDir": str(tmp_path)}
    auth = {"session": {"secret": "a-session-secret-of-32-bytes-or-more"}}
    first = await start_node(storage=stored, auth=auth)
    token = token_for(first, "ann:x")
    async with Admin(first.node) as admin:
        await admin.ok("PUT", HUB, SETTINGS)
        lost, _, key = await signed_in(first, token)
        await lost.close()
        await admin.ok("POST", f"{HUB}/users/ann%3Ax/revoke")
    await first.node.stop()

    second = await start_node(storage=stored, auth=auth)
    wire = await connect(second.url)
    again = await wire.ask(AuthRequest(id=1, credentials=token.encode()), AuthReply)
    assert again.error is not None
    assert again.error.code == Code.TOKEN_INVALID
    refused = await wire.ask(RestoreRequest(id=2, key=key), ErrorEvent)
    assert refused.code == Code.AUTH_FAILED
    await signed_in(second, token_for(second, "ann:x"))
    await signed_in(second, token_for(second, "bob"))


async def test_a_revocation_that_cannot_be_written_down_is_in_force_all_the_same(
    node: RunningNode, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_for(node, "ann")
    wire, _, _ = await signed_in(node, token)

    async def put(*_: object) -> None:
        raise StorageError(Code.STORAGE_UNAVAILABLE, "gone")

    monkeypatch.setattr(node.node.storage.kv, "put", put)
    status, problem = await admin.refused("POST", f"{HUB}/users/ann/revoke")
    assert (status, problem["code"]) == (503, Code.STORAGE_UNAVAILABLE)
    await wire.closed.wait()
    back = await connect(node.url)
    again = await back.ask(AuthRequest(id=1, credentials=token.encode()), AuthReply)
    assert not again.success
