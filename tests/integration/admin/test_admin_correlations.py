"""Correlation rules in the admin API: checked, versioned, listed over all hubs, on record."""

from typing import Any

import msgspec
import pytest

from arauto.errors import Code
from arauto.storage.base import Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode

RULES = "/v1/hubs/shop/correlations"


def rule(name: str, version: int = 1, *, least: int = 1_000) -> str:
    return (
        f"rule: {name}\nversion: {version}\nfrom: {{channels: ['orders:*']}}\n"
        f"match: payload.total >= {least}\nemit: {{channel: 'alerts:orders'}}\n"
    )


def body(name: str, version: int = 1, **changes: Any) -> dict[str, Any]:
    return {"text": rule(name, version)} | changes


async def test_a_rule_is_kept_as_it_was_given_and_shown_with_what_it_says(admin: Admin) -> None:
    made = await admin.ok("PUT", f"{RULES}/large", body("large", 3))
    assert made == {
        "hub": "shop",
        "id": "large",
        "text": rule("large", 3),
        "enabled": True,
        "owner": "",
        "ruleVersion": 3,
        "version": made["version"],
        "warnings": ["sees no message of orders:*: no channel it covers stores any (store: never)"],
    }
    assert await admin.ok("GET", f"{RULES}/large") == made
    off = await admin.ok("PUT", f"{RULES}/large", body("large", 3, enabled=False))
    assert off["enabled"] is False
    assert off["version"] != made["version"]
    await admin.ok("DELETE", f"{RULES}/large")
    assert (await admin.refused("GET", f"{RULES}/large"))[0] == 404
    assert (await admin.refused("DELETE", f"{RULES}/large"))[0] == 404


async def test_who_sets_a_rule_is_warned_of_messages_that_nobody_stores(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop/rules/quiet", {"store": "never"})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/orders", {"rules": "quiet"})
    made = await admin.ok("PUT", f"{RULES}/large", body("large"))
    assert made["warnings"] == [
        "sees no message of orders:*: no channel it covers stores any (store: never)"
    ]
    stored = "/v1/hubs/shop/stored"
    assert await admin.ok("GET", f"{stored}?match=orders:*") == {
        "match": "orders:*",
        "store": ["never"],
    }
    await admin.ok("PUT", "/v1/hubs/shop/rules/quiet", {"store": "all"})
    assert (await admin.ok("GET", f"{stored}?match=orders:*"))["store"] == ["all"]
    assert (await admin.ok("PUT", f"{RULES}/large", body("large")))["warnings"] == []
    assert (await admin.refused("GET", f"{stored}?match=a%20b"))[0] == 400


async def test_a_rule_in_json_is_as_good(admin: Admin) -> None:
    text = msgspec.json.encode(
        {"rule": "j", "match": "payload.a = 1", "emit": {"channel": "a"}}
    ).decode()
    assert (await admin.ok("PUT", f"{RULES}/j", {"text": text}))["ruleVersion"] == 1


@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        ({"text": "rule: large\nmatch: payload.total >=\n"}, Code.BAD_RULE, "line 2"),
        ({"text": "rule: large\nmatsch: true\n"}, Code.BAD_RULE, "match"),
        ({"text": ""}, Code.BAD_RULE, "found 0"),
        ({"text": rule("large") + "---\n" + rule("small")}, Code.BAD_RULE, "found 2"),
        ({"text": rule("small")}, Code.BAD_FIELD, "name is the id"),
        ({"text": rule("large") + "# " + "x" * 16_384}, Code.BAD_FIELD, "16384 bytes"),
        ({"text": 5}, Code.BAD_FIELD, "str"),
        ({}, Code.BAD_FIELD, "required"),
        ({"text": rule("large"), "owner": "eve"}, Code.BAD_FIELD, "unknown"),
    ],
)
async def test_what_is_no_rule_of_that_name_is_refused_with_the_reason(
    admin: Admin, given: dict[str, Any], code: Code, word: str
) -> None:
    status, problem = await admin.refused("PUT", f"{RULES}/large", given)
    assert (status, problem["code"]) == (400, code)
    assert word in problem["message"]
    assert (await admin.ok("GET", RULES))["items"] == []


async def test_a_changed_text_needs_a_higher_version(admin: Admin) -> None:
    await admin.ok("PUT", f"{RULES}/large", body("large", 2))
    for version in (1, 2):
        changed = {"text": rule("large", version, least=7)}
        status, problem = await admin.refused("PUT", f"{RULES}/large", changed)
        assert (status, problem["code"], problem["field"]) == (409, Code.CONFLICT, "text")
    assert (await admin.ok("GET", f"{RULES}/large"))["text"] == rule("large", 2)
    changed = {"text": rule("large", 3, least=7)}
    assert (await admin.ok("PUT", f"{RULES}/large", changed))["ruleVersion"] == 3


async def test_two_administrators_do_not_undo_each_others_work(admin: Admin) -> None:
    made = await admin.ok("PUT", f"{RULES}/large", body("large"), ifVersion="")
    assert (await admin.refused("PUT", f"{RULES}/large", body("large", 2), ifVersion=""))[0] == 409
    await admin.ok("PUT", f"{RULES}/large", body("large", 2), ifVersion=made["version"])
    status, problem = await admin.refused("DELETE", f"{RULES}/large", ifVersion=made["version"])
    assert (status, problem["field"]) == (409, "ifVersion")


async def test_rules_of_all_hubs_come_in_pages_and_hubs_do_not_mix(admin: Admin) -> None:
    places = [("a", "x"), ("a", "y"), ("a-b", "x"), ("b", "x"), ("b", "z")]
    for hub, id in places:
        await admin.ok("PUT", f"/v1/hubs/{hub}/correlations/{id}", body(id))
    found: list[tuple[str, str]] = []
    after, pages = "", 0
    while pages == 0 or after:
        page = await admin.ok("GET", "/v1/correlations", after=after, limit=2)
        found += [(each["hub"], each["id"]) for each in page["items"]]
        after, pages = page["next"], pages + 1
    assert (found, pages) == (places, 3)
    of_a = await admin.ok("GET", "/v1/hubs/a/correlations", limit=1)
    assert ([each["id"] for each in of_a["items"]], of_a["next"]) == (["x"], "x")
    rest = await admin.ok("GET", "/v1/hubs/a/correlations", after="x")
    assert ([each["id"] for each in rest["items"]], rest["next"]) == (["y"], "")
    status, problem = await admin.refused("GET", "/v1/correlations", after="no cursor")
    assert (status, problem["field"]) == (400, "after")


async def test_a_hub_has_a_bounded_number_of_rules(admin: Admin) -> None:
    for n in range(200):
        await admin.ok("PUT", f"{RULES}/r{n}", body(f"r{n}"))
    status, problem = await admin.refused("PUT", f"{RULES}/more", body("more"))
    assert (status, problem["code"]) == (409, Code.CONFLICT)
    await admin.ok("PUT", f"{RULES}/r7", body("r7", 2))
    await admin.ok("PUT", "/v1/hubs/other/correlations/more", body("more"))


async def test_a_deleted_hub_takes_its_rules_along(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await admin.ok("PUT", f"{RULES}/large", body("large"))
    await admin.ok("DELETE", "/v1/hubs/shop")
    assert (await admin.ok("GET", "/v1/correlations"))["items"] == []


async def test_changes_are_on_record_done_or_refused_and_without_the_text(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", f"{RULES}/large", body("large", 2))
    await admin.refused("PUT", f"{RULES}/large", body("large", 1))
    await admin.ok("DELETE", f"{RULES}/large")
    journal = node.node.storage.journal
    await journal.flush()
    rows = [row for _, row in await journal.read(0, 100) if row.kind is Kind.AUDIT]
    told = [msgspec.json.decode(row.payload) for row in rows]
    assert [(each["operation"], each["target"], each["outcome"]) for each in told] == [
        ("correlation.set", "large", "ok"),
        ("correlation.set", "large", "CONFLICT"),
        ("correlation.delete", "large", "ok"),
    ]
    assert all(b"payload.total" not in row.payload for row in rows)
