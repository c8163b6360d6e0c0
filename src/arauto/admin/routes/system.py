"""Routes for machines: the health check, the metrics, the API's description."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from litestar import MediaType, Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec

from arauto.admin.problems import STATUSES
from arauto.admin.records import Health, Problem
from arauto.admin.routes.common import errors
from arauto.errors import ArautoError, Code

__all__ = ["ROUTES", "Scrape", "System"]


class Scrape(Protocol):
    """What answers a scraper."""

    @property
    def content_type(self) -> str: ...

    async def rendered(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class System:
    """What these routes show."""

    status: Callable[[], str]
    """`ok` while the node serves."""
    scrape: Scrape | None
    """None while metrics are turned off."""
    describe: Callable[[], bytes]
    """The OpenAPI document."""


@get(
    "/healthz",
    operation_id="getHealth",
    summary="Is the node well?",
    description="Needs no token.",
    tags=["node"],
    security=[{}],
    responses={
        403: ResponseSpec(Problem, description=STATUSES[403], generate_examples=False),
        503: ResponseSpec(
            Health, description="The node is starting or shutting down.", generate_examples=False
        ),
    },
)
async def get_health(system: NamedDependency[System]) -> Response[Health]:
    status = system.status()
    return Response(Health(status=status), status_code=200 if status == "ok" else 503)


@get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    description="In the text format. Not found while `telemetry.metrics` is off.",
    tags=["node"],
    media_type=MediaType.TEXT,
    responses=errors(404),
)
async def get_metrics(system: NamedDependency[System]) -> Response[bytes]:
    if system.scrape is None:
        raise ArautoError(Code.NOT_FOUND, "metrics are turned off (telemetry.metrics)")
    # The framework names the character set of text by itself.
    media_type = system.scrape.content_type.removesuffix("; charset=utf-8")
    return Response(await system.scrape.rendered(), media_type=media_type)


@get("/openapi.json", include_in_schema=False)
async def get_description(system: NamedDependency[System]) -> Response[bytes]:
    return Response(system.describe(), media_type=MediaType.JSON)


ROUTES = (get_health, get_metrics, get_description)
