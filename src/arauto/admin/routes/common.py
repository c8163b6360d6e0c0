"""What the routes share: parameters with their descriptions, and the errors they document."""

from typing import Annotated

from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter

from arauto.admin.operations import Operations
from arauto.admin.operations.states import ANY_VERSION
from arauto.admin.paging import PAGE_LEN, PAGE_LEN_MAX
from arauto.admin.problems import STATUSES
from arauto.admin.records import Problem

__all__ = [
    "ANY_VERSION",
    "PAGE_LEN",
    "After",
    "By",
    "ChannelName",
    "Force",
    "HubName",
    "IfVersion",
    "Limit",
    "Ops",
    "PartId",
    "errors",
]

Ops = NamedDependency[Operations]
By = NamedDependency[str]
"""Where the request comes from, for the record."""

# Patterns are for the description alone: the operations check names, and say which rule one breaks.
_NAME = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
_CHANNEL = {
    "minLength": 1,
    "maxLength": 255,
    "pattern": "^[^\\u0000-\\u0020\\u007f-\\u00a0\\u2028\\u2029\\ufeff*#]+$",
}

HubName = Annotated[str, PathParameter(description="The hub's name.", schema_extra=_NAME)]
PartId = Annotated[str, PathParameter(description="The id.", schema_extra=_NAME)]
ChannelName = Annotated[
    str, QueryParameter(description="A channel's name, percent-encoded.", schema_extra=_CHANNEL)
]
After = Annotated[str, QueryParameter(description="Where the last page ended: its `next`.")]
Limit = Annotated[int, QueryParameter(description="Items in the page.", ge=1, le=PAGE_LEN_MAX)]
IfVersion = Annotated[
    str,
    QueryParameter(
        name="ifVersion",
        description="Only if the settings are still at this version; empty: only if there are none yet; "
        "`*`: whatever they are.",
        schema_extra={"pattern": "^([0-9a-f]{16}|\\*)?$"},
    ),
]
Force = Annotated[bool, QueryParameter(description="Also if something depends on it.")]


def errors(*statuses: int) -> dict[int, ResponseSpec]:
    """The error answers of a route, beside those that all have."""
    return {
        status: ResponseSpec(Problem, description=STATUSES[status], generate_examples=False)
        for status in sorted({400, 401, 403, 503, *statuses})
    }
