"""The HTTP front of the admin API: a Litestar application behind the door. It translates and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import structlog
from litestar import Request, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import Scope

from arauto.admin.door import Door
from arauto.admin.framework import LeanLitestar, StrictRequest, check_parameters, translated
from arauto.admin.openapi import describe_api
from arauto.admin.operations import Operations
from arauto.admin.problems import problem_of, status_of
from arauto.admin.records import Problem
from arauto.admin.routes import analytics, correlations, hubs, live, node, parts, sessions, system
from arauto.admin.routes.system import Scrape, System
from arauto.errors import ArautoError, Code
from arauto.hosts import Hosts
from arauto.telemetry.counters import Counters

__all__ = ["ROUTES", "make_app"]

_log = structlog.get_logger("arauto.admin")
_KEY = "arauto"

ROUTES: tuple[HTTPRouteHandler, ...] = (
    *system.ROUTES,
    *node.ROUTES,
    *hubs.ROUTES,
    *parts.ROUTES,
    *live.ROUTES,
    *sessions.ROUTES,
    *correlations.ROUTES,
    *analytics.ROUTES,
)


@dataclass(frozen=True, slots=True)
class _Node:
    """What the routes get of the node that a request came to. Travels with the request."""

    ops: Operations
    system: System
    counters: Counters


def make_app(
    ops: Operations,
    *,
    token: str,
    hosts: Hosts,
    counters: Counters,
    status: Callable[[], str],
    scrape: Scrape | None,
) -> Door:
    """Build the application.

    Args:
        ops: what it translates to.
        token: the admin token.
        hosts: the names under which the port may be reached.
        counters: where refusals are counted.
        status: `ok` while the node serves.
        scrape: what `/metrics` shows; None turns it off.
    """
    node = _Node(ops, System(status=status, scrape=scrape, describe=describe), counters)
    framework = _framework()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await framework(cast("Scope", {**scope, _KEY: node}), receive, send)

    return Door(app, token=token, hosts=hosts, counters=counters)


@cache
def _framework() -> LeanLitestar:
    """The routes, ready to be called. Made once: it takes a while, and tests start many nodes."""
    return LeanLitestar(
        route_handlers=ROUTES,
        dependencies={
            "ops": Provide(_ops, sync_to_thread=False),
            "system": Provide(_system, sync_to_thread=False),
            "by": Provide(_by, sync_to_thread=False),
        },
        request_class=StrictRequest,
        before_request=check_parameters,
        exception_handlers={Exception: _refuse, HTTPException: _refuse},
        openapi_config=None,
        # The port has its own limit, which is the configured one.
        request_max_body_size=None,
        logging_config=None,
    )


def _node(request: Request[Any, Any, Any]) -> _Node:
    found: _Node = request.scope[_KEY]  # type: ignore[literal-required]
    return found


def _ops(request: Request[Any, Any, Any]) -> Operations:
    return _node(request).ops


def _system(request: Request[Any, Any, Any]) -> System:
    return _node(request).system


def _refuse(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    problem, status = _judge(request, error)
    _node(request).counters.refuse(int(problem.code))
    headers = error.headers if isinstance(error, HTTPException) else None
    return Response(problem_of(problem), status_code=status, headers=headers)


@cache
def describe() -> bytes:
    """The API's description. Made when it is first asked for: most nodes never are."""
    return describe_api(ROUTES)


def _by(request: Request[Any, Any, Any]) -> str:
    address = request.client.host if request.client is not None else ""
    return f"http {address}".rstrip()


def _judge(request: Request[Any, Any, Any], error: Exception) -> tuple[ArautoError, int]:
    if isinstance(error, ArautoError):
        return error, status_of(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return translated(error, request.scope.get("route_handler")), error.status_code
    _log.exception("an admin request failed", exc_info=error)
    return ArautoError(Code.SERVER_ERROR, "the node failed to carry out the request"), 500
