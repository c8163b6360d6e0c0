"""Strangers who make hub names up keep nobody out, and who only asks makes no hub (T28)."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import httpx
import jwt
import pytest

from arauto.codec.events import ErrorEvent, SessionInfo
from arauto.errors import Code
from arauto.settings import HubSettings
from tests.integration.admin.conftest import TOKEN
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.wire import connect

BODY = {"messages": [{"channel": "news", "text": "x"}]}
SECRET = "shared-by-issuer-and-node-32-bytes"


async def publish(node: RunningNode, hub: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=10) as client:
        return await client.post(
            f"{node.http_url}/v1/publish?hub={hub}", json=BODY, headers=headers
        )


async def make_up(node: RunningNode, count: int) -> list[int]:
    """The codes that publishing to so many made-up hubs is refused with."""
    codes: list[int] = []
    async with httpx.AsyncClient(base_url=node.http_url, timeout=30) as client:
        for begin in range(0, count, 50):
            urls = [f"/v1/publish?hub=made-up-{begin + n}" for n in range(50)]
            answers = await asyncio.gather(*(client.post(url, json=BODY) for url in urls))
            codes += [a.json()["code"] for a in answers if a.status_code != 200]
    return codes


def token(hub: str) -> str:
    now_s = int(time.time())
    claims = {"sub": "ann", "aud": hub, "iat": now_s, "exp": now_s + 60}
    grants = {"channels": [{"channel": "news", "publish": True, "subscribe": True}]}
    return jwt.encode({**claims, "grants": grants}, SECRET, algorithm="HS256")


async def test_hundreds_of_made_up_names_do_not_keep_a_configured_tenant_out(
    start_node: StartNode,
) -> None:
    node = await start_node(limits={"hubsMax": 40})
    await node.set("hub", "tenant", "", HubSettings(default_public=True))
    codes = await make_up(node, 300)
    assert codes == [Code.OVERLOADED] * 260
    wire = await connect(node.url, hub="tenant")
    await wire.next(SessionInfo)
    assert (await publish(node, "tenant")).json()["results"][0]["serial"]["offset"] == 1


async def test_a_tenant_whose_hub_is_open_keeps_its_place_too(start_node: StartNode) -> None:
    node = await start_node(limits={"hubsMax": 10})
    await node.set("hub", "tenant", "", HubSettings(default_public=True))
    await (await connect(node.url, hub="tenant")).next(SessionInfo)
    assert len(await make_up(node, 50)) == 40
    await (await connect(node.url, hub="tenant")).next(SessionInfo)


async def test_what_one_address_may_make_up_is_bounded_and_counted(start_node: StartNode) -> None:
    open_to_all = {"defaults": {"defaultPublic": True}, "defaultRules": {"clientPublish": True}}
    node = await start_node(hub={**open_to_all, "strangers": {"hubsPerAddressMax": 20}})
    assert await make_up(node, 50) == [Code.TOO_MANY_HUBS] * 30
    assert node.node.metrics.node.refused[Code.TOO_MANY_HUBS] == 30
    assert (await publish(node, "one-more")).status_code == 429
    wire = await connect(node.url, hub="one-more")
    assert (await wire.next(ErrorEvent)).code == Code.TOO_MANY_HUBS
    await asyncio.wait_for(wire.closed.wait(), 10)
    assert wire.close_code == 4006, "come back later"


async def refused_publication(node: RunningNode, hub: str) -> int:
    answer = await publish(node, hub)
    return int(answer.json()["results"][0]["error"]["code"])


async def publication_with_a_bad_token(node: RunningNode, hub: str) -> int:
    return int((await publish(node, hub, Authorization="Bearer x.y.z")).json()["code"])


async def stream_with_a_bad_token(node: RunningNode, hub: str) -> int:
    async with httpx.AsyncClient(timeout=10) as client:
        url = f"{node.http_url}/v1/sse?hub={hub}&channel=news&token={token('another')}"
        return int((await client.get(url)).json()["code"])


async def stream_code(node: RunningNode, hub: str, *channels: str, token: str = "") -> int:
    params: list[tuple[str, str | int | float | bool | None]]
    params = [("hub", hub), ("token", token), *(("channel", name) for name in channels)]
    async with (
        httpx.AsyncClient(timeout=10) as client,
        client.stream("GET", f"{node.http_url}/v1/sse", params=params) as answer,
    ):
        # Whoever is let in reads for ever.
        return 0 if answer.status_code == 200 else int(json.loads(await answer.aread())["code"])


async def stream_of_impossible_names(node: RunningNode, hub: str) -> int:
    return await stream_code(node, hub, "a b", "x" * 300)


async def stream_of_impossible_names_with_a_token(node: RunningNode, hub: str) -> int:
    return await stream_code(node, hub, "a b", token=token(hub))


async def stream_that_may_read_nothing(node: RunningNode, hub: str) -> int:
    return await stream_code(node, hub, "news", "weather:*", "a b")


async def publication_to_an_impossible_name(node: RunningNode, hub: str) -> int:
    async with httpx.AsyncClient(timeout=10) as client:
        url = f"{node.http_url}/v1/publish?hub={hub}"
        answer = await client.post(url, json={"messages": [{"channel": "a b", "text": "x"}]})
        return int(answer.json()["results"][0]["error"]["code"])


async def administrators_publication_to_an_impossible_name(node: RunningNode, hub: str) -> int:
    url = f"http://127.0.0.1:{node.node.admin_port.port}/v1/hubs/{hub}/publish"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(headers=bearer) as admin:
        answer = await admin.post(url, json={"messages": [{"channel": "a b", "text": "x"}]})
        return int(answer.json()["results"][0]["error"]["code"])


async def connection_with_a_bad_token(node: RunningNode, hub: str) -> int:
    wire = await connect(node.url, hub=hub, token=token("another"))
    return (await wire.next(ErrorEvent)).code


async def page_of_another_origin(node: RunningNode, hub: str) -> int:
    return int((await publish(node, hub, Origin="https://evil.example")).json()["code"])


async def stream_of_another_origin(node: RunningNode, hub: str) -> int:
    async with httpx.AsyncClient(timeout=10) as client:
        url = f"{node.http_url}/v1/sse?hub={hub}&channel=news"
        answer = await client.get(url, headers={"Origin": "https://evil.example"})
        return int(answer.json()["code"])


async def rule_that_is_not_there(node: RunningNode, hub: str) -> int:
    async with httpx.AsyncClient(timeout=10) as client:
        url = f"{node.http_url}/v1/correlations/r?hub={hub}"
        bearer = {"Authorization": f"Bearer {token(hub)}"}
        return int((await client.get(url, headers=bearer)).json()["code"])


async def question_of_an_administrator(node: RunningNode, hub: str) -> int:
    base_url = f"http://127.0.0.1:{node.node.admin_port.port}/v1/hubs/{hub}"
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as admin:
        for path in ("history?channel=news", "occupancy?channel=news", "channels"):
            answer = await admin.get(f"{base_url}/{path}")
            assert answer.status_code == 200, answer.text
        return int((await admin.get(f"{base_url}/presence?channel=news")).json()["code"])


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (refused_publication, Code.PUBLISH_DENIED),
        (publication_with_a_bad_token, Code.TOKEN_INVALID),
        (stream_of_impossible_names, Code.BAD_CHANNEL_NAME),
        (stream_of_impossible_names_with_a_token, Code.BAD_CHANNEL_NAME),
        (stream_that_may_read_nothing, Code.SUBSCRIBE_DENIED),
        (publication_to_an_impossible_name, Code.BAD_CHANNEL_NAME),
        (administrators_publication_to_an_impossible_name, Code.BAD_CHANNEL_NAME),
        (stream_with_a_bad_token, Code.TOKEN_INVALID),
        (connection_with_a_bad_token, Code.TOKEN_INVALID),
        (page_of_another_origin, Code.ORIGIN_DENIED),
        (stream_of_another_origin, Code.ORIGIN_DENIED),
        (rule_that_is_not_there, Code.CALL_DENIED),
        (question_of_an_administrator, Code.FEATURE_OFF),
    ],
)
async def test_who_only_asks_or_is_refused_opens_no_hub(
    start_node: StartNode, ask: Callable[[RunningNode, str], Awaitable[int]], code: Code
) -> None:
    jwt_settings = {"algorithm": "HS256", "secret": SECRET}
    node = await start_node(hub={"defaults": {"jwt": jwt_settings}, "defaultRules": {}})
    opened: list[str] = []
    opens = node.node.directory._open

    async def watched(name: str, *more: str | None) -> object:
        opened.append(name)
        return await opens(name, *more)

    node.node.directory._open = watched  # type: ignore[method-assign, assignment]
    assert await ask(node, "made-up") == code
    assert (opened, node.node.directory.hubs) == ([], {})
    await (await connect(node.url, hub="made-up", token=token("made-up"))).next(SessionInfo)
    assert opened == ["made-up"], "who is let in opens it"
