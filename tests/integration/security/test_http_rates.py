"""The client HTTP API has a rate per caller: work without a session is limited as a session's is."""

from collections.abc import AsyncIterator

import httpx
import pytest

from arauto.errors import Code
from arauto.settings import HubSettings
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.test_quotas import set_quotas

BODY = {"messages": [{"channel": "a", "text": "x"}]}


@pytest.fixture
async def client(node: RunningNode) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=30) as client:
        yield client


async def exhausted(client: httpx.AsyncClient, hub: str = "shop") -> None:
    """Publish what costs seconds of the rate at once."""
    many = {"messages": [{"channel": "a", "text": ""}] * 1_000}
    response = await client.post(f"/v1/publish?hub={hub}", json=many)
    assert response.status_code == 200


def check_refused(response: httpx.Response) -> None:
    assert (response.status_code, response.json()["code"]) == (429, Code.RATE_LIMITED)
    assert 1 <= int(response.headers["retry-after"]) <= 11


async def test_a_stranger_publishes_at_the_rate_of_a_session(
    node: RunningNode, client: httpx.AsyncClient
) -> None:
    await set_quotas(node, session_messages_per_s=10)
    await exhausted(client)
    check_refused(await client.post("/v1/publish?hub=shop", json=BODY))
    # Nor is the body of who owes looked at.
    check_refused(await client.post("/v1/publish?hub=shop", content=b"{" * 100_000))
    assert node.node.metrics.total().refused[int(Code.RATE_LIMITED)] == 2


async def test_what_a_stranger_owes_one_hub_is_no_error_of_another(
    node: RunningNode, client: httpx.AsyncClient
) -> None:
    await set_quotas(node, session_messages_per_s=1)
    await node.set("hub", "big", "", HubSettings(default_public=True))
    await exhausted(client)
    check_refused(await client.post("/v1/publish?hub=shop", json=BODY))
    bad = {"Authorization": "Bearer x.y.z"}
    check_refused(await client.post("/v1/publish?hub=shop", json=BODY, headers=bad))
    for hub, status in (("big", 200), ("made-up", 200)):
        response = await client.post(f"/v1/publish?hub={hub}", json=BODY)
        assert response.status_code == status, hub
    async with client.stream("GET", "/v1/sse?hub=big&channel=a") as stream:
        assert stream.status_code == 200


async def test_more_names_made_up_are_no_more_rate(start_node: StartNode) -> None:
    node = await start_node(
        hub={"defaults": {"defaultPublic": True, "quotas": {"sessionMessagesPerS": 10}}}
    )
    async with httpx.AsyncClient(base_url=node.http_url, timeout=30) as client:
        await exhausted(client, "one")
        for hub in ("one", "two", "three"):
            check_refused(await client.post(f"/v1/publish?hub={hub}", json=BODY))
            check_refused(await client.get(f"/v1/sse?hub={hub}&channel=a"))
        await node.set("hub", "two", "", HubSettings(default_public=True))
        response = await client.post("/v1/publish?hub=two", json=BODY)
        assert response.status_code == 200


async def test_streams_are_opened_at_the_same_rate(
    node: RunningNode, client: httpx.AsyncClient
) -> None:
    await set_quotas(node, session_messages_per_s=10)
    await exhausted(client)
    check_refused(await client.get("/v1/sse?hub=shop&channel=a"))
    assert node.node.sse.connections == {}


async def test_tokens_that_prove_nothing_count_against_the_address(
    node: RunningNode, client: httpx.AsyncClient
) -> None:
    await set_quotas(node, session_messages_per_s=10)
    await exhausted(client)
    bearer = {"Authorization": "Bearer x.y.z"}
    check_refused(await client.post("/v1/publish?hub=shop", json=BODY, headers=bearer))
    check_refused(
        await client.put("/v1/correlations/r?hub=shop", json={"text": ""}, headers=bearer)
    )
