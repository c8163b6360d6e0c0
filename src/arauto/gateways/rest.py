"""The client HTTP API: publish and register correlation rules with a token, and a health check. A plain ASGI
application.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from arauto.codec.unknown import Unknown
from arauto.errors import ArautoError, Code
from arauto.gateways.correlations import PATH as CORRELATIONS
from arauto.gateways.correlations import CorrelationDesk, RuleRegistry
from arauto.gateways.pages import Page, Pages
from arauto.gateways.problems import answer_to, told
from arauto.gateways.query import is_strict, last, read_query
from arauto.hub.refusals import Asker
from arauto.session.auth.tokens import bearer_of
from arauto.session.cost import bytes_cost, items_cost
from arauto.session.environment import SessionEnvironment
from arauto.session.identify import admit_caller
from arauto.session.oneshot import publish_all, published, read_messages, refuse_all
from arauto.session.tolerance import note_ignored

__all__ = ["Rest"]

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

_QUERY_LEN_MAX = 10


class Rest:
    """`POST /v1/publish?hub=NAME`, `/v1/correlations/{id}?hub=NAME` and `GET /healthz`."""

    def __init__(
        self,
        env: SessionEnvironment,
        *,
        pages: Pages,
        status: Callable[[], str],
        registry: RuleRegistry,
    ) -> None:
        self._env = env
        self._correlations = CorrelationDesk(env, registry)
        self._pages = pages
        self._status = status

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        cors: list[tuple[bytes, bytes]] = []
        hub = ""
        try:
            query = read_query(scope["query_string"], _QUERY_LEN_MAX)
            hub = last(query, "hub")
            cors = await self._check_origin(scope, headers, query)
            status, body = await self._route(scope, headers, query, receive)
            own = [(b"content-type", b"application/json")]
        except Exception as failure:
            error = told(failure)
            asker = Asker(transport="http", address=_address(scope))
            self._env.refusals_of(hub).note(error, asker, request="http")
            status, own, body = answer_to(error)
        await send({"type": "http.response.start", "status": status, "headers": [*own, *cors]})
        await send({"type": "http.response.body", "body": body})

    async def _route(
        self,
        scope: dict[str, Any],
        headers: dict[bytes, str],
        query: dict[str, list[str]],
        receive: Receive,
    ) -> tuple[int, bytes]:
        method, path = scope["method"], scope["path"]
        if path == "/healthz" and method in ("GET", "HEAD"):
            status = self._status()
            return 200 if status == "ok" else 503, b'{"status":"%s"}' % status.encode()
        if path == "/v1/publish":
            if method == "OPTIONS":
                return 204, b""
            if method == "POST":
                return 200, await self._publish(scope, headers, query, receive)
            raise ArautoError(Code.BAD_FIELD, "use POST here", field="method")
        if path.startswith(CORRELATIONS):
            if method == "OPTIONS":
                return 204, b""
            return await self._correlations.answer(
                method,
                last(query, "hub"),
                path.removeprefix(CORRELATIONS),
                bearer_of(headers.get(b"authorization", "")),
                await _body(receive) if method == "PUT" else b"",
                _address(scope),
            )
        raise ArautoError(Code.NOT_FOUND, "there is nothing at this address", field="path")

    async def _publish(
        self,
        scope: dict[str, Any],
        headers: dict[bytes, str],
        query: dict[str, list[str]],
        receive: Receive,
    ) -> bytes:
        # All of it before the hub is asked for: what is bad or not allowed must not make one.
        env, name, address = self._env, last(query, "hub"), _address(scope)
        token = bearer_of(headers.get(b"authorization", ""))
        caller, bucket = await admit_caller(env, name, token, address)
        body = await _body(receive)
        # Before the work it stands for; whoever owes more than there was is refused next time.
        bucket.owe(bytes_cost(len(body)))
        unknown = Unknown()
        items = read_messages(body, unknown, is_strict=is_strict(query))
        bucket.owe(items_cost(len(items)) - 1)
        asker = Asker(user=caller.user, transport="http", address=address)
        outcomes = None
        if name not in env.directory.hubs:
            state = await env.directory.look(name)
            outcomes = refuse_all(state, items, asker, caller, env.refusals)
        if outcomes is not None:
            env.hub.metrics.node.read(len(body))
        else:
            stranger = asker.address if caller.identity is None else None
            hub = await env.directory.get(name, stranger=stranger)
            if unknown.count:
                hub.counters.unknown_fields += 1
                note_ignored(unknown, hub=name, session="", request="publish")
            trace = env.trace_publish
            outcomes = await publish_all(hub, items, asker, caller, trace, size_bytes=len(body))
        bucket.owe(caller.deciding_tokens)
        return msgspec.json.encode(published(outcomes))

    async def _check_origin(
        self, scope: dict[str, Any], headers: dict[bytes, str], query: dict[str, list[str]]
    ) -> list[tuple[bytes, bytes]]:
        origin = headers.get(b"origin")
        secure = scope["scheme"] == "https"
        hub = last(query, "hub")
        page = Page(origin, headers.get(b"host"), secure=secure, hub=hub)
        await self._pages.check(page)
        if origin is None:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-allow-methods", b"GET, PUT, POST, DELETE"),
            (b"vary", b"Origin"),
        ]


def _address(scope: dict[str, Any]) -> str:
    return scope["client"][0] if scope["client"] else ""


async def _body(receive: Receive) -> bytes:
    """The whole body; its size was bounded before it came here."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ArautoError(
                Code.CONNECTION_LOST, "the client left before its request was complete"
            )
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
