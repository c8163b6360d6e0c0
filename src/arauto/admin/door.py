"""Who may come in to the admin API. An ASGI application around another.

Looks at three things before anything else of a request: the host it names (a web page whose own name was made
to lead here must not get in), the page it comes from, and the bearer token. Only the health check and the
API's description are for everyone. There are no cookies and no CORS: pages of other addresses get nothing.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from arauto.admin.problems import response_of, status_of
from arauto.errors import ArautoError, Code
from arauto.hosts import Hosts
from arauto.session.auth.tokens import admin_token_matches, bearer_of
from arauto.telemetry.counters import Counters

__all__ = ["Door"]

App = Callable[[Any, Any, Any], Awaitable[None]]

_OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})
_NONE_SENT = "send the admin token as Authorization: Bearer"
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class Door:
    """Lets requests through to `app`, their path still percent-encoded, so that a name may hold a slash."""

    def __init__(self, app: App, *, token: str, hosts: Hosts, counters: Counters) -> None:
        """Guard an application.

        Args:
            app: what is behind the door.
            token: the admin token.
            hosts: the names that requests may use for this port.
            counters: where refusals are counted.
        """
        self._app = app
        self._token = token
        self._hosts = hosts
        self._counters = counters

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = _headers(scope["headers"])
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        try:
            self._check(path, headers)
        except ArautoError as error:
            self._counters.refuse(int(error.code))
            await _refuse(send, error)
            return
        # The server leaves the body out of an answer to HEAD; the rest of it is that to GET.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._app({**scope, "path": path, "method": method}, receive, _sealed(send))

    def _check(self, path: str, headers: dict[bytes, str]) -> None:
        self._hosts.check(headers.get(b"host", ""))
        self._check_origin(headers)
        if path in _OPEN_PATHS:
            return
        token = bearer_of(headers.get(b"authorization", ""))
        if not admin_token_matches(token, self._token):
            rule = "this is not the admin token" if token else _NONE_SENT
            raise ArautoError(Code.ADMIN_DENIED, rule, field="authorization")
        if path != "/" and "" in path[1:].split("/"):
            # Else /v1/hubs//rules would be about a hub called "rules".
            raise ArautoError(Code.NOT_FOUND, "a path has no empty segment", field="path")

    def _check_origin(self, headers: dict[bytes, str]) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, place = origin.partition("://")
        # The scheme is not compared: behind a TLS proxy the page knows https and this port http.
        if scheme in ("http", "https") and place and place == headers.get(b"host"):
            return
        raise ArautoError(
            Code.ORIGIN_DENIED, "pages of other addresses may not use this API", field="origin"
        )


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """The headers by name. Of one that must not come twice the values are joined, so that neither counts."""
    found: dict[bytes, str] = {}
    for name, value in raw:
        text = value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _sealed(send: Any) -> Any:
    """Add the headers that keep answers out of caches and from being taken for something else."""

    async def sealed(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_HEADERS[1:]]}
        await send(message)

    return sealed


async def _refuse(send: Any, error: ArautoError) -> None:
    status = status_of(error)
    headers = [*_HEADERS, (b"www-authenticate", b"Bearer")] if status == 401 else _HEADERS
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": response_of(error)})
