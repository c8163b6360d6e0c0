"""Clients register correlation rules over the client port, within their rights: `/v1/correlations/{id}`."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import msgspec
import pytest

from arauto.errors import Code
from arauto.storage.base import Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode

SECRETS = {
    "shop": "shared-by-issuer-and-node-32-bytes",
    "bank": "another-secret-of-another-tenant-32",
}
CHANNELS = [
    {"channel": "orders:*", "subscribe": True},
    {"channel": "alerts:*", "publish": True},
]
GRANTS = {"channels": CHANNELS, "rpcs": ["arauto.correlation"]}


def rule(
    name: str,
    version: int = 1,
    *,
    channels: str = "'orders:*'",
    emit: str = "alerts:orders",
    extra: str = "",
) -> dict[str, Any]:
    text = (
        f"rule: {name}\nversion: {version}\nfrom: {{channels: [{channels}]{extra}}}\n"
        f"match: payload.total >= 1000\nemit: {{channel: '{emit}'}}\n"
    )
    return {"text": text}


class Client:
    """A user of a hub, or nobody."""

    def __init__(self, http: httpx.AsyncClient, hub: str, headers: dict[str, str]) -> None:
        self.http, self.hub, self.headers = http, hub, headers

    async def ask(self, method: str, id: str, body: Any = None) -> tuple[int, Any]:
        response = await self.http.request(
            method,
            f"/v1/correlations/{id}",
            params={"hub": self.hub},
            json=body,
            headers=self.headers,
        )
        return response.status_code, response.json() if response.content else None

    async def refused(self, method: str, id: str, body: Any = None) -> tuple[int, Code, str]:
        status, problem = await self.ask(method, id, body)
        return status, Code(problem["code"]), problem["field"]


class Clients:
    def __init__(self, http: httpx.AsyncClient, now_s: int) -> None:
        self.http, self.now_s = http, now_s

    def user(self, user: str, *, of: str = "shop", at: str = "", grants: Any = GRANTS) -> Client:
        """A user with a token of the hub `of`, who asks at the hub `at`."""
        claims = {
            "sub": user,
            "aud": of,
            "iat": self.now_s,
            "exp": self.now_s + 60,
            "grants": grants,
        }
        token = jwt.encode(claims, SECRETS[of], algorithm="HS256")
        return Client(self.http, at or of, {"Authorization": f"Bearer {token}"})

    def nobody(self, hub: str = "shop") -> Client:
        return Client(self.http, hub, {})


@pytest.fixture
async def clients(node: RunningNode, admin: Admin) -> AsyncIterator[Clients]:
    for hub, secret in SECRETS.items():
        await admin.ok("PUT", f"/v1/hubs/{hub}", {"jwt": {"algorithm": "HS256", "secret": secret}})
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as http:
        yield Clients(http, node.node.clock.wall_ms() // 1_000)


async def test_a_client_registers_looks_at_changes_and_deletes_its_rule(
    admin: Admin, clients: Clients
) -> None:
    ann = clients.user("ann")
    status, made = await ann.ask("PUT", "large", rule("large"))
    assert status == 200
    assert (made["hub"], made["id"], made["owner"], made["ruleVersion"]) == (
        "shop",
        "large",
        "ann",
        1,
    )
    assert await ann.ask("GET", "large") == (200, made)
    listed = {name: value for name, value in made.items() if name != "warnings"}
    assert (await admin.ok("GET", "/v1/correlations"))["items"] == [listed]
    status, changed = await ann.ask("PUT", "large", rule("large", 2) | {"enabled": False})
    assert (status, changed["ruleVersion"], changed["enabled"]) == (200, 2, False)
    assert await ann.ask("DELETE", "large") == (204, None)
    assert await ann.refused("GET", "large") == (404, Code.NOT_FOUND, "id")


async def test_whoever_brings_no_valid_token_gets_nowhere_and_makes_no_hub(
    node: RunningNode, clients: Clients
) -> None:
    for method in ("GET", "PUT", "DELETE"):
        refused = await clients.nobody().refused(method, "large", rule("large"))
        assert refused == (401, Code.UNAUTHENTICATED, "")
    assert (await clients.nobody("new").refused("GET", "x"))[0] == 401
    assert "new" not in node.node.directory.hubs
    forged = Client(clients.http, "shop", {"Authorization": "Bearer x.y.z"})
    assert (await forged.refused("PUT", "large", rule("large")))[:2] == (401, Code.TOKEN_INVALID)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_without_the_grant_to_call_nothing_is_done(clients: Clients, method: str) -> None:
    bare = clients.user("ann", grants={"channels": CHANNELS})
    assert (await bare.refused(method, "large", rule("large")))[:2] == (403, Code.CALL_DENIED)


@pytest.mark.parametrize(
    ("given", "status", "code", "field"),
    [
        (rule("r", channels="'bills:1'"), 403, Code.SUBSCRIBE_DENIED, "from.channels"),
        (rule("r", channels="'orders:1', '*'"), 403, Code.SUBSCRIBE_DENIED, "from.channels"),
        (rule("r", channels="'*'"), 403, Code.SUBSCRIBE_DENIED, "from.channels"),
        (rule("r", emit="news"), 403, Code.PUBLISH_DENIED, "emit.channel"),
        (rule("r", emit="u:bob"), 403, Code.PUBLISH_DENIED, "emit.channel"),
        (
            rule("r", extra=", kinds: [message, session_start]"),
            403,
            Code.SUBSCRIBE_DENIED,
            "from.kinds",
        ),
        ({"text": "rule: r\nmatch: payload.a >\n"}, 400, Code.BAD_RULE, "match"),
        (rule("other"), 400, Code.BAD_FIELD, "text"),
        ({"text": "x", "owner": "eve"}, 400, Code.BAD_FIELD, "body"),
        (None, 400, Code.BAD_FIELD, "body"),
    ],
)
async def test_a_rule_beyond_its_owners_rights_or_the_grammar_is_refused_and_not_kept(
    admin: Admin, clients: Clients, given: Any, status: int, code: Code, field: str
) -> None:
    refused = await clients.user("ann").refused("PUT", "r", given)
    assert refused == (status, code, field)
    assert (await admin.ok("GET", "/v1/correlations"))["items"] == []


async def test_nobody_but_the_owner_sees_replaces_or_deletes_a_rule(
    admin: Admin, clients: Clients
) -> None:
    ann, bob = clients.user("ann"), clients.user("bob")
    await ann.ask("PUT", "large", rule("large"))
    assert await bob.refused("GET", "large") == (404, Code.NOT_FOUND, "id")
    assert await bob.refused("DELETE", "large") == (404, Code.NOT_FOUND, "id")
    assert await bob.refused("PUT", "large", rule("large", 2)) == (409, Code.CONFLICT, "id")
    assert (await ann.ask("GET", "large"))[1]["ruleVersion"] == 1
    await admin.ok("PUT", "/v1/hubs/shop/correlations/house", rule("house"))
    assert await ann.refused("PUT", "house", rule("house", 2)) == (409, Code.CONFLICT, "id")
    assert await ann.refused("DELETE", "house") == (404, Code.NOT_FOUND, "id")


async def test_an_administrator_may_take_over_or_delete_a_clients_rule(
    admin: Admin, clients: Clients
) -> None:
    ann = clients.user("ann")
    await ann.ask("PUT", "large", rule("large"))
    taken = await admin.ok("PUT", "/v1/hubs/shop/correlations/large", rule("large", 2))
    assert taken["owner"] == ""
    assert await ann.refused("PUT", "large", rule("large", 3)) == (409, Code.CONFLICT, "id")
    await ann.ask("PUT", "mine", rule("mine"))
    await admin.ok("DELETE", "/v1/hubs/shop/correlations/mine")
    assert (await ann.ask("GET", "mine"))[0] == 404


async def test_a_token_of_one_tenant_opens_nothing_at_another(
    admin: Admin, clients: Clients
) -> None:
    await clients.user("ann", of="bank").ask("PUT", "large", rule("large"))
    stranger = clients.user("ann", of="shop", at="bank")
    for method in ("GET", "PUT", "DELETE"):
        refused = await stranger.refused(method, "large", rule("large", 2))
        assert refused[:2] == (401, Code.TOKEN_INVALID)
    assert (await clients.user("ann", of="shop").ask("GET", "large"))[0] == 404
    found = (await admin.ok("GET", "/v1/correlations"))["items"]
    assert [(each["hub"], each["ruleVersion"]) for each in found] == [("bank", 1)]


async def test_a_changed_text_needs_a_higher_version(clients: Clients) -> None:
    ann = clients.user("ann")
    await ann.ask("PUT", "large", rule("large", 2))
    changed = rule("large", 2, emit="alerts:other")
    assert await ann.refused("PUT", "large", changed) == (409, Code.CONFLICT, "text")


async def test_a_client_has_a_bounded_number_of_rules_and_the_others_still_have_room(
    node: RunningNode, clients: Clients
) -> None:
    registry = node.node.operations.correlations
    for n in range(20):
        text = rule(f"r{n}")["text"]
        await registry.set("shop", f"r{n}", text, enabled=True, by="test", owner="ann")
    refused = await clients.user("ann").refused("PUT", "more", rule("more"))
    assert refused[:2] == (409, Code.CONFLICT)
    assert (await clients.user("ann").ask("PUT", "r3", rule("r3", 2)))[0] == 200
    assert (await clients.user("bob").ask("PUT", "more", rule("more")))[0] == 200


async def test_a_hubs_clients_ask_so_often_and_no_more_and_other_hubs_do_not_pay(
    clients: Clients,
) -> None:
    ann = clients.user("ann")
    answers = [(await ann.ask("GET", "none"))[0] for _ in range(60)]
    assert answers.count(404) >= 10
    assert 429 in answers
    assert (await clients.user("ann", of="bank").ask("GET", "none"))[0] == 404


async def test_a_clients_changes_are_on_record_with_its_name(
    node: RunningNode, clients: Clients
) -> None:
    await clients.user("ann").ask("PUT", "large", rule("large"))
    journal = node.node.storage.journal
    await journal.flush()
    rows = [row for _, row in await journal.read(0, 100) if row.kind is Kind.AUDIT]
    last = msgspec.json.decode(rows[-1].payload)
    assert (last["operation"], last["target"], last["outcome"], last["by"]) == (
        "correlation.set",
        "large",
        "ok",
        "http 127.0.0.1 as ann",
    )


async def test_other_methods_and_pages_are_answered(clients: Clients) -> None:
    refused = await clients.user("ann").refused("POST", "large", rule("large"))
    assert refused == (400, Code.BAD_FIELD, "method")
    response = await clients.http.options("/v1/correlations/large?hub=shop")
    assert response.status_code == 204
