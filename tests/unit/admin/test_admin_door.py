"""The door decides on host, origin and token before anything else sees the request."""

import json
from typing import Any

import pytest

from arauto.admin.door import Door
from arauto.hosts import Hosts
from arauto.telemetry.counters import Counters

TOKEN = "an-admin-token"


class _Call:
    """One request to a door, and what came of it."""

    def __init__(self, path: bytes, headers: dict[str, str], **options: Any) -> None:
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": "/decoded",
            "raw_path": path,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
        self.seen: dict[str, Any] | None = None
        self.messages: list[dict[str, Any]] = []
        self.counters = Counters()
        settings: dict[str, Any] = {"bound": "127.0.0.1", "allowed": (), **options}
        hosts = Hosts(**settings, setting="admin.allowedHosts")
        self._door = Door(self._app, token=TOKEN, hosts=hosts, counters=self.counters)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen = scope
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b""})

    async def status(self) -> int:
        async def send(message: dict[str, Any]) -> None:
            self.messages.append(message)

        await self._door(self.scope, None, send)
        status: int = self.messages[0]["status"]
        return status


def good(**more: str) -> dict[str, str]:
    return {"Host": "127.0.0.1:4040", "Authorization": f"Bearer {TOKEN}", **more}


async def test_what_is_let_through_keeps_its_path_encoded() -> None:
    call = _Call(b"/v1/hubs/a%2Fb", good())
    assert await call.status() == 200
    assert call.seen is not None
    assert call.seen["path"] == "/v1/hubs/a%2Fb"
    assert call.scope["path"] == "/decoded"


async def test_answers_get_their_headers_beside_their_own() -> None:
    call = _Call(b"/v1/node", good())
    await call.status()
    headers = dict(call.messages[0]["headers"])
    assert headers[b"a"] == b"b"
    assert headers[b"cache-control"] == b"no-store"


async def test_nothing_behind_the_door_sees_what_is_refused() -> None:
    for headers, status in (
        ({"Host": "127.0.0.1"}, 401),
        (good(Host="evil.example"), 403),
        (good(Origin="https://evil.example"), 403),
    ):
        call = _Call(b"/v1/node", headers)
        assert await call.status() == status
        assert call.seen is None
        assert sum(call.counters.refused.values()) == 1


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        ("", "send the admin token as Authorization: Bearer"),
        (f"Basic {TOKEN}", "send the admin token as Authorization: Bearer"),
        ("Bearer ", "send the admin token as Authorization: Bearer"),
        ("Bearer another", "this is not the admin token"),
    ],
)
async def test_a_wrong_token_is_told_from_none(authorization: str, message: str) -> None:
    call = _Call(b"/v1/node", {"Host": "127.0.0.1", "Authorization": authorization})
    assert await call.status() == 401
    assert json.loads(call.messages[1]["body"])["message"] == message


async def test_a_port_on_the_network_answers_to_any_name_but_not_to_other_pages() -> None:
    headers = good(Host="node.example:4040")
    assert await _Call(b"/v1/node", headers, bound="10.0.0.7").status() == 200
    same = {**headers, "Origin": "https://node.example:4040"}
    assert await _Call(b"/v1/node", same, bound="10.0.0.7").status() == 200
    other = {**headers, "Origin": "https://other.example"}
    assert await _Call(b"/v1/node", other, bound="10.0.0.7").status() == 403


async def test_without_a_token_set_nobody_gets_in() -> None:
    call = _Call(b"/v1/node", {"Host": "127.0.0.1", "Authorization": "Bearer "})
    call._door = Door(
        call._app,
        token="",
        hosts=Hosts("127.0.0.1", (), setting="admin.allowedHosts"),
        counters=call.counters,
    )
    assert await call.status() == 401
