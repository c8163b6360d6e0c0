"""The API does what its description says, whatever is sent: checked by Schemathesis over a real port."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig

from arauto.admin.app import describe
from tests.integration.admin.conftest import TOKEN, NodeThread

pytestmark = pytest.mark.slow

load_all_checks()

# What the description cannot say (a name in normal form, a reference that must exist) may be refused.
# The others are about stateful runs and about security schemes, which have tests of their own here.
_LEFT_OUT = {
    "positive_data_acceptance",
    "ignored_auth",
    "use_after_free",
    "ensure_resource_availability",
}
_CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            "negative_data_rejection": {
                "expected-statuses": ["400", "401", "403", "404", "409", "413"]
            }
        }
    }
)


def _without_security() -> dict[str, Any]:
    """The description, its security left out: else requests are made whose only fault is a lost token."""
    document: dict[str, Any] = msgspec.json.decode(describe())
    del document["security"], document["components"]["securitySchemes"]
    return document


_SCHEMA = schemathesis.openapi.from_dict(_without_security(), config=_CONFIG)
_OPERATIONS = {found.ok().label: found.ok() for found in _SCHEMA.get_all_operations()}  # type: ignore[union-attr]
_EXAMPLES = 20


def fuzz(label: str, mode: GenerationMode, check: Callable[[Case[Any]], None]) -> None:
    """Make up requests to one operation and check each."""
    strategy = _OPERATIONS[label].as_strategy(mode)

    @settings(
        max_examples=_EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case: Case[Any]) -> None:
        check(case)

    run()


def validate(case: Case[Any], response: Any) -> None:
    excluded: Any = [check for check in CHECKS.get_all() if check.__name__ in _LEFT_OUT]
    case.validate_response(response, excluded_checks=excluded)


@pytest.mark.parametrize("label", _OPERATIONS)
def test_requests_within_the_description_are_answered_as_described(
    node_thread: NodeThread, label: str
) -> None:
    with requests.Session() as session:

        def check(case: Case[Any]) -> None:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            response = case.call(base_url=node_thread.url, session=session, headers=headers)
            assert response.status_code < 500
            validate(case, response)

        fuzz(label, GenerationMode.POSITIVE, check)


@pytest.mark.parametrize("label", [each for each in _OPERATIONS if "{" in each or "?" in each])
def test_requests_beyond_the_description_are_refused_as_described(
    node_thread: NodeThread, label: str
) -> None:
    with requests.Session() as session:

        def check(case: Case[Any]) -> None:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            response = case.call(base_url=node_thread.url, session=session, headers=headers)
            assert response.status_code < 500
            validate(case, response)

        fuzz(label, GenerationMode.NEGATIVE, check)


@pytest.mark.parametrize("label", [each for each in _OPERATIONS if each != "GET /healthz"])
def test_without_a_token_nothing_is_answered_but_401(node_thread: NodeThread, label: str) -> None:
    with requests.Session() as session:

        def check(case: Case[Any]) -> None:
            response = case.call(base_url=node_thread.url, session=session)
            assert response.status_code == 401
            assert response.json()["code"] == 2008
            validate(case, response)

        fuzz(label, GenerationMode.POSITIVE, check)


def test_the_description_is_openapi_3_1_and_complete() -> None:
    document = msgspec.json.decode(describe())
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["description"], where
            assert all(p["description"] for p in operation.get("parameters", ())), where
            if path != "/healthz":
                assert {"400", "401", "403", "503"} <= set(operation["responses"]), where
    for name, schema in document["components"]["schemas"].items():
        if "properties" in schema and name in ("HubSettings", "Rules", "Quotas", "JwtSettings"):
            assert schema["additionalProperties"] is False
