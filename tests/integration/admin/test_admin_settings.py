"""Hubs, rules, namespaces and channel settings through the admin API of a real node."""

import asyncio
from typing import Any

import msgspec
import pytest

from arauto.admin.operations.changes import AuditRow
from arauto.errors import Code, StorageError
from arauto.settings import HubSettings
from arauto.storage.base import Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode, StartNode

SECRET = "planted-secret-of-more-than-32-bytes"
HEADER = "planted-header-value"
JWT: dict[str, Any] = {"algorithm": "HS256", "secret": SECRET}
PROVIDER: dict[str, Any] = {"url": "https://id.example/auth", "headers": {"X-Key": HEADER}}


async def audit_rows(node: RunningNode) -> list[tuple[str, AuditRow]]:
    journal = node.node.storage.journal
    await journal.flush()
    rows = await journal.read(0, 10_000)
    return [
        (entry.hub, msgspec.json.decode(entry.payload, type=AuditRow))
        for _, entry in rows
        if entry.kind is Kind.AUDIT
    ]


# --- hubs ------------------------------------------------------------------------------------------


async def test_a_hub_is_set_shown_listed_and_deleted(admin: Admin) -> None:
    made = await admin.ok("PUT", "/v1/hubs/shop", {"quotas": {"sessionsMax": 7}})
    assert (made["name"], made["stored"], made["open"]) == ("shop", True, False)
    assert made["settings"]["quotas"]["sessionsMax"] == 7
    assert await admin.ok("GET", "/v1/hubs/shop") == made
    listed = await admin.ok("GET", "/v1/hubs")
    assert [item["name"] for item in listed["items"]] == ["shop"]
    await admin.ok("DELETE", "/v1/hubs/shop")
    status, problem = await admin.refused("GET", "/v1/hubs/shop")
    assert (status, problem["code"]) == (404, Code.UNKNOWN_HUB)


async def test_setting_a_hub_replaces_it_whole(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {"defaultPublic": True, "userChannel": False})
    after = await admin.ok("PUT", "/v1/hubs/shop", {"userChannel": False})
    assert (after["settings"]["defaultPublic"], after["settings"]["userChannel"]) == (False, False)


async def test_settings_that_say_a_thing_twice_are_refused(admin: Admin) -> None:
    twice = b'{"defaultPublic":false,"default\\u0050ublic":true}'
    for path in ("/v1/hubs/shop", "/v1/hubs/shop/rules/open"):
        body = twice if path == "/v1/hubs/shop" else b'{"public":false,"public":true}'
        response = await admin.request("PUT", path, content=body)
        assert (response.status_code, response.json()["field"]) == (400, "body")
    assert (await admin.ok("GET", "/v1/hubs"))["items"] == []


async def test_what_is_shown_can_be_sent_back(admin: Admin) -> None:
    body = {"jwt": JWT, "authProvider": PROVIDER, "allowedOrigins": ["https://shop.example"]}
    shown = await admin.ok("PUT", "/v1/hubs/shop", body)
    again = await admin.ok("PUT", "/v1/hubs/shop", shown["settings"], ifVersion=shown["version"])
    assert again == shown


async def test_hubs_of_every_kind_are_listed_in_pages(node: RunningNode, admin: Admin) -> None:
    stored = [f"s{number:02}" for number in range(7)]
    for name in stored:
        await admin.ok("PUT", f"/v1/hubs/{name}", {})
    with_rules_only = [f"r{number:02}" for number in range(7)]
    for name in with_rules_only:
        await admin.ok("PUT", f"/v1/hubs/{name}/rules/a", {})
        await admin.ok("PUT", f"/v1/hubs/{name}/rules/b", {})
    made_on_use = [f"u{number:02}" for number in range(7)]
    for name in made_on_use:
        await node.node.directory.get(name)
    names: list[str] = []
    after = ""
    while True:
        page = await admin.ok("GET", "/v1/hubs", limit=4, after=after)
        assert len(page["items"]) <= 4
        names += [item["name"] for item in page["items"]]
        after = page["next"]
        if not after:
            break
    assert names == sorted([*stored, *with_rules_only, *made_on_use])


async def test_deleting_a_hub_takes_everything_set_on_it(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/room", {"rules": "chat"})
    await admin.ok("PUT", "/v1/hubs/shop/channel-settings", {"rules": "chat"}, channel="a")
    await admin.ok("PUT", "/v1/hubs/shop2/rules/chat", {})
    await admin.ok("DELETE", "/v1/hubs/shop")
    for kind in ("rules", "namespaces", "channel-settings"):
        assert (await admin.ok("GET", f"/v1/hubs/shop/{kind}"))["items"] == []
    assert len((await admin.ok("GET", "/v1/hubs/shop2/rules"))["items"]) == 1


# --- secrets ---------------------------------------------------------------------------------------


async def test_secrets_are_never_shown_and_a_mask_keeps_them(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {"jwt": JWT, "authProvider": PROVIDER})
    response = await admin.get("/v1/hubs/shop")
    assert SECRET not in response.text
    assert HEADER not in response.text
    shown = response.json()["settings"]
    assert shown["jwt"]["secret"] == "***"
    assert shown["authProvider"]["headers"] == {"X-Key": "***"}
    shown["quotas"]["sessionsMax"] = 3
    shown["authProvider"]["headers"]["X-Other"] = "new"
    await admin.ok("PUT", "/v1/hubs/shop", shown)
    stored = await node.node.storage.settings.get("hub", "shop", "")
    assert stored is not None
    settings = msgspec.json.decode(stored, type=HubSettings)
    assert settings.quotas.sessions_max == 3
    assert settings.jwt is not None
    assert settings.jwt.secret == SECRET
    assert settings.auth_provider is not None
    assert settings.auth_provider.headers == {"X-Key": HEADER, "X-Other": "new"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jwt": {**JWT, "secret": "***"}}, "jwt.secret"),
        ({"authProvider": {**PROVIDER, "headers": {"X-Key": "***"}}}, "authProvider.headers"),
    ],
)
async def test_a_mask_without_a_stored_secret_is_refused(
    admin: Admin, body: dict[str, Any], field: str
) -> None:
    status, problem = await admin.refused("PUT", "/v1/hubs/shop", body)
    assert (status, problem["code"], problem["field"]) == (400, Code.BAD_FIELD, field)


async def test_kept_headers_are_not_sent_to_another_address(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {"authProvider": PROVIDER})
    elsewhere = {"url": "https://evil.example/auth", "headers": {"X-Key": "***"}}
    status, problem = await admin.refused("PUT", "/v1/hubs/shop", {"authProvider": elsewhere})
    assert (status, problem["field"]) == (400, "authProvider.headers")


async def test_errors_and_audit_rows_hold_no_secret(node: RunningNode, admin: Admin) -> None:
    short = {"algorithm": "HS256", "secret": "planted"}
    response = await admin.put("/v1/hubs/shop", json={"jwt": short})
    assert response.status_code == 400
    assert "planted" not in response.text
    await admin.ok("PUT", "/v1/hubs/shop", {"jwt": JWT, "authProvider": PROVIDER})
    await node.node.storage.journal.flush()
    rows = await node.node.storage.journal.read(0, 1_000)
    assert all(b"planted" not in entry.payload for _, entry in rows)


# --- rules, namespaces, channel settings -----------------------------------------------------------


async def test_rules_must_exist_before_something_names_them(admin: Admin) -> None:
    for path, body in (
        ("/v1/hubs/shop", {"defaultRules": "chat"}),
        ("/v1/hubs/shop/namespaces/room", {"rules": "chat"}),
        ("/v1/hubs/shop/channel-settings?channel=a", {"rules": "chat"}),
    ):
        status, problem = await admin.refused("PUT", path, body)
        assert (status, problem["code"]) == (409, Code.UNKNOWN_RULES), path
    await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
    await admin.ok("PUT", "/v1/hubs/shop/namespaces/room", {"rules": "chat"})


async def test_rules_in_use_are_not_deleted_unless_forced(admin: Admin) -> None:
    await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
    await admin.ok("PUT", "/v1/hubs/shop", {"defaultRules": "chat"})
    for number in range(5):
        await admin.ok("PUT", f"/v1/hubs/shop/namespaces/n{number}", {"rules": "chat"})
    status, problem = await admin.refused("DELETE", "/v1/hubs/shop/rules/chat")
    assert (status, problem["code"], problem["field"]) == (409, Code.CONFLICT, "force")
    assert "the hub's defaultRules, namespace n0" in problem["message"]
    assert "and 1 more" in problem["message"]
    await admin.ok("DELETE", "/v1/hubs/shop/rules/chat", force="true")
    assert (await admin.refused("GET", "/v1/hubs/shop/rules/chat"))[0] == 404
    # What still names them does not bring them back, and they are not there to be deleted again.
    assert (await admin.refused("DELETE", "/v1/hubs/shop/rules/chat"))[0] == 404


async def test_any_channel_can_have_settings_and_metadata(admin: Admin) -> None:
    names = ["a", "stock:42", "/topics/of/the/tree", "übersicht:ä", "a?b&c=d%2F+e"]
    for name in names:
        body = {"metadata": {"title": name}}
        made = await admin.ok("PUT", "/v1/hubs/shop/channel-settings", body, channel=name)
        assert (made["id"], made["settings"]["metadata"]) == (name, {"title": name})
    page = await admin.ok("GET", "/v1/hubs/shop/channel-settings")
    assert [item["id"] for item in page["items"]] == sorted(names)
    one = await admin.ok("GET", "/v1/hubs/shop/channel-settings", channel="/topics/of/the/tree")
    assert [item["id"] for item in one["items"]] == ["/topics/of/the/tree"]
    await admin.ok("DELETE", "/v1/hubs/shop/channel-settings", channel="a")
    gone = await admin.refused("GET", "/v1/hubs/shop/channel-settings", channel="a")
    assert (gone[0], gone[1]["code"]) == (404, Code.NOT_FOUND)


async def test_parts_are_listed_in_pages(admin: Admin) -> None:
    ids = [f"r{number:02}" for number in range(9)]
    for id in reversed(ids):
        await admin.ok("PUT", f"/v1/hubs/shop/rules/{id}", {})
    first = await admin.ok("GET", "/v1/hubs/shop/rules", limit=5)
    rest = await admin.ok("GET", "/v1/hubs/shop/rules", limit=5, after=first["next"])
    assert [item["id"] for item in first["items"] + rest["items"]] == ids
    assert rest["next"] == ""


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/hubs/shop", {"defaultPublic": "true"}, "defaultPublic"),
        ("/v1/hubs/shop", {"quotas": {"sessionsMax": 1.5}}, "quotas.sessionsMax"),
        ("/v1/hubs/shop", {"quotas": {"sessionsMax": -1}}, "quotas.sessionsMax"),
        ("/v1/hubs/shop", {"quotas": {"sessionsMax": 10**30}}, "quotas.sessionsMax"),
        ("/v1/hubs/shop", {"nmae": 1}, "body"),
        ("/v1/hubs/shop", {"quotas": {"sessions": 1}}, "quotas"),
        ("/v1/hubs/shop", {"userChannelNamespace": "a b"}, "userChannelNamespace"),
        ("/v1/hubs/shop", {"userChannelNamespace": ""}, "userChannelNamespace"),
        ("/v1/hubs/shop", {"allowedOrigins": ["shop.example"]}, "allowedOrigins[0]"),
        ("/v1/hubs/shop", {"allowAnonymous": False}, "allowAnonymous"),
        ("/v1/hubs/shop", {"jwt": {}}, "jwt"),
        ("/v1/hubs/shop", {"authProvider": {"url": "ftp://x"}}, "authProvider.url"),
        ("/v1/hubs/shop", [], "body"),
        ("/v1/hubs/shop", None, "body"),
        ("/v1/hubs/a%20b", {}, "hub"),
        ("/v1/hubs/shop/rules/a%20b", {}, "id"),
        ("/v1/hubs/shop/rules/a", {"retainS": 1e300}, "retainS"),
        ("/v1/hubs/shop/rules/a", {"store": "sometimes"}, "store"),
        ("/v1/hubs/shop/namespaces/room", {}, "rules"),
        ("/v1/hubs/shop/namespaces/room", {"rules": ""}, "rules"),
        ("/v1/hubs/shop/channel-settings?channel=a*", {}, "channel"),
        ("/v1/hubs/shop/channel-settings", {}, "channel"),
        ("/v1/hubs/shop/channel-settings?channel=a", {"metadata": {"a": 1}}, "metadata[...]"),
        (
            "/v1/hubs/shop/channel-settings?channel=a",
            {"metadata": {str(n): "" for n in range(65)}},
            "metadata",
        ),
        (
            "/v1/hubs/shop/channel-settings?channel=a",
            {"metadata": {"a": "x" * 16_384}},
            "metadata",
        ),
    ],
)
async def test_bad_settings_are_refused_by_field(
    admin: Admin, path: str, body: Any, field: str
) -> None:
    status, problem = await admin.refused("PUT", path, body)
    assert (status, problem["field"]) == (400, field)


# --- versions and concurrency ----------------------------------------------------------------------


async def test_a_change_in_view_of_old_settings_is_refused(admin: Admin) -> None:
    path = "/v1/hubs/shop/rules/chat"
    first = await admin.ok("PUT", path, {"presence": True}, ifVersion="")
    second = await admin.ok("PUT", path, {"occupancy": True}, ifVersion=first["version"])
    for method, version in (("PUT", first["version"]), ("PUT", ""), ("DELETE", first["version"])):
        body: dict[str, Any] | None = {} if method == "PUT" else None
        status, problem = await admin.refused(method, path, body, ifVersion=version)
        assert (status, problem["field"]) == (409, "ifVersion")
    assert await admin.ok("GET", path) == second
    await admin.ok("DELETE", path, ifVersion=second["version"])
    status, _ = await admin.refused("PUT", path, {}, ifVersion=second["version"])
    assert status == 409


async def test_of_changes_at_the_same_version_one_wins(admin: Admin) -> None:
    path = "/v1/hubs/shop/rules/chat"
    version = (await admin.ok("PUT", path, {}))["version"]

    async def change(number: int) -> int:
        body = {"liveHistoryLen": number + 1}
        return (await admin.put(path, json=body, params={"ifVersion": version})).status_code

    statuses = await asyncio.gather(*(change(number) for number in range(20)))
    assert sorted(statuses) == [200, *[409] * 19]


async def test_concurrent_changes_are_all_kept_and_applied(node: RunningNode, admin: Admin) -> None:
    hub = await node.node.directory.get("shop")
    await admin.ok("PUT", "/v1/hubs/shop/rules/base", {})
    work = []
    for number in range(40):
        work.append(admin.ok("PUT", f"/v1/hubs/shop/rules/r{number}", {"presence": True}))
        work.append(admin.ok("PUT", f"/v1/hubs/shop/namespaces/n{number}", {"rules": "base"}))
        body = {"rules": "base"}
        work.append(admin.ok("PUT", "/v1/hubs/shop/channel-settings", body, channel=f"c{number}"))
    await asyncio.gather(*work)
    state = hub.state
    assert (len(state.rules), len(state.namespaces), len(state.channels)) == (41, 40, 40)
    stored = await node.node.directory.read_state("shop")
    assert stored is not None
    assert state.same_as(stored)


async def test_rules_are_never_deleted_under_what_is_being_bound_to_them(admin: Admin) -> None:
    for round in range(20):
        path = f"/v1/hubs/shop{round}"
        await admin.ok("PUT", f"{path}/rules/chat", {})
        bound, deleted = await asyncio.gather(
            admin.put(f"{path}/namespaces/room", json={"rules": "chat"}),
            admin.delete(f"{path}/rules/chat"),
        )
        assert (bound.is_success, deleted.is_success) in ((True, False), (False, True))


# --- the record ------------------------------------------------------------------------------------


async def test_every_change_goes_on_record_with_its_outcome(
    node: RunningNode, admin: Admin
) -> None:
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
    await admin.refused("PUT", "/v1/hubs/shop/namespaces/room", {"rules": "none"})
    await admin.ok("PUT", "/v1/hubs/shop/channel-settings", {}, channel="a/b")
    await admin.ok("DELETE", "/v1/hubs/shop/rules/chat")
    await admin.ok("POST", "/v1/hubs/shop/users/ann/revoke")
    await admin.ok("DELETE", "/v1/hubs/shop")
    rows = await audit_rows(node)
    assert {hub for hub, _ in rows} == {"shop"}
    assert {row.by for _, row in rows} == {"http 127.0.0.1"}
    assert [(row.operation, row.target, row.outcome) for _, row in rows] == [
        ("hub.set", "", "ok"),
        ("rules.set", "chat", "ok"),
        ("namespace.set", "room", "UNKNOWN_RULES"),
        ("channel.set", "a/b", "ok"),
        ("rules.delete", "chat", "ok"),
        ("user.revoke", "ann", "ok"),
        ("hub.delete", "", "ok"),
    ]


async def test_looking_leaves_no_record(node: RunningNode, admin: Admin) -> None:
    for path in ("/v1/hubs", "/v1/hubs/shop/rules", "/v1/hubs/shop/sessions", "/v1/stats"):
        await admin.ok("GET", path)
    assert await audit_rows(node) == []


# --- explicit hubs ---------------------------------------------------------------------------------


async def test_where_hubs_are_not_made_on_use_they_must_be_set_up_first(
    start_node: StartNode,
) -> None:
    node = await start_node(engine={"allowDynamicHubs": False})
    async with Admin(node.node) as admin:
        for method, path, body in (
            ("PUT", "/v1/hubs/shop/rules/chat", {}),
            ("GET", "/v1/hubs/shop/rules", None),
            ("GET", "/v1/hubs/shop/sessions", None),
            ("GET", "/v1/hubs/shop/history?channel=a", None),
            ("POST", "/v1/hubs/shop/publish", {"messages": [{"channel": "a", "text": "x"}]}),
            ("POST", "/v1/hubs/shop/users/ann/revoke", None),
        ):
            status, problem = await admin.refused(method, path, body)
            assert (status, problem["code"]) == (404, Code.UNKNOWN_HUB), path
        await admin.ok("PUT", "/v1/hubs/shop", {})
        await admin.ok("PUT", "/v1/hubs/shop/rules/chat", {})
        await admin.ok("PUT", "/v1/hubs/shop", {"defaultRules": "chat"})
        assert len((await admin.ok("GET", "/v1/hubs/shop/rules"))["items"]) == 1


async def test_the_hub_for_the_sums_of_all_hubs_need_not_be_set_up(start_node: StartNode) -> None:
    node = await start_node(
        engine={"allowDynamicHubs": False},
        pipeline={"systemHub": "sums"},
        hub={"defaults": {"defaultPublic": True}},
    )
    async with Admin(node.node) as admin:
        body = {"messages": [{"channel": "analytics:rollup", "text": "x"}]}
        answer = await admin.ok("POST", "/v1/hubs/sums/publish", body)
        assert answer["results"][0]["serial"]["offset"] == 1
        shown = await admin.ok("GET", "/v1/hubs/sums")
        assert (shown["stored"], shown["settings"]["defaultPublic"]) == (False, False)
        await admin.refused("POST", "/v1/hubs/system/publish", body)


# --- trouble with the store ------------------------------------------------------------------------


async def test_a_store_that_fails_is_said_so_and_changes_nothing(
    node: RunningNode, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await node.node.directory.get("shop")
    before = hub.state

    async def put(*_: object) -> None:
        raise StorageError(Code.STORAGE_FULL, "the disk is full")

    monkeypatch.setattr(node.node.storage.settings, "put", put)
    status, problem = await admin.refused("PUT", "/v1/hubs/shop/rules/chat", {})
    assert (status, problem["code"]) == (503, Code.STORAGE_FULL)
    assert hub.state is before
    [(_, row)] = await audit_rows(node)
    assert row.outcome == "STORAGE_FULL"


async def test_a_setting_nobody_can_read_can_be_replaced_and_deleted(
    node: RunningNode, admin: Admin
) -> None:
    store = node.node.storage.settings
    for kind, id in (("hub", ""), ("rules", "bad")):
        await store.put(kind, "shop", id, b"{broken")
    assert (await admin.ok("GET", "/v1/hubs/shop"))["stored"] is False
    assert (await admin.ok("GET", "/v1/hubs/shop/rules"))["items"] == []
    assert (await admin.refused("GET", "/v1/hubs/shop/rules/bad"))[0] == 404
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await admin.ok("DELETE", "/v1/hubs/shop/rules/bad")
    assert await store.get("rules", "shop", "bad") is None


async def test_settings_of_a_name_that_is_refused_by_now_can_be_seen_and_deleted_only(
    node: RunningNode, admin: Admin
) -> None:
    old, path = "admin\u200b", "/v1/hubs/shop/channel-settings"
    await admin.ok("PUT", "/v1/hubs/shop", {})
    await node.node.storage.settings.put("channel", "shop", old, b"{}")
    assert (await admin.request("GET", path, params={"channel": old})).status_code == 200
    for method, body, status in (("PUT", {}, 400), ("DELETE", None, 204), ("GET", None, 404)):
        answer = await admin.request(method, path, params={"channel": old}, json=body)
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "meant"),
    [
        ("PUT", "/v1/hubs/shop", {"quotas": {"sesionsMax": 3}}, "quotas", "sessionsMax"),
        ("PUT", "/v1/hubs/shop", {"default_public": True}, "body", "defaultPublic"),
        ("PUT", "/v1/hubs/shop/rules/a", {"store": "al"}, "store", "all"),
        ("GET", "/v1/hubs?limt=3", None, "query", "limit"),
        ("GET", "/v1/analytics/hours", None, "period", "hour"),
        ("GET", "/v1/hubs/shop/history?channel=a&direction=bakward", None, "direction", "backward"),
    ],
)
async def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(
    admin: Admin, method: str, path: str, body: dict[str, Any] | None, field: str, meant: str
) -> None:
    status, problem = await admin.refused(method, path, body)
    assert (status, problem["field"]) == (400, field)
    assert problem["message"].endswith(f"did you mean {meant}?")
