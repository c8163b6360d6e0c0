"""What docs/topics/authentication.md shows is what happens."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt as pyjwt
import msgspec
import pytest

from arauto.codec.events import AuthReply, AuthRequest
from arauto.codec.json import JsonCodec
from arauto.grants import GrantSet
from arauto.model import Grant, Grants
from arauto.session.auth.authenticator import check_auth_settings
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.outbound import OutboundResponse
from arauto.session.auth.provider import HttpAuthProvider
from arauto.session.auth.revocations import Revocations
from arauto.settings import AuthProvider, HubSettings, JwtSettings
from arauto.testing.clock import FakeClock

_PAGE = (Path(__file__).parents[3] / "docs/topics/authentication.md").read_text()
_BLOCKS = re.findall(r"```json\n(.*?)```", _PAGE, re.DOTALL)


def _block(start: str) -> bytes:
    found = [block for block in _BLOCKS if block.startswith(start)]
    assert len(found) == 1, f"{len(found)} examples start with {start}"
    return str(found[0]).encode()


def _rows(first_heading: str) -> Iterator[list[str]]:
    table = _PAGE.split(f"| {first_heading} |", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_example_is_checked_here() -> None:
    assert len(_BLOCKS) == 6


def test_the_events_are_those_of_the_json_flavour() -> None:
    codec = JsonCodec()
    request = codec.decode_request(_block('{"event": "auth", "id": 1, "text"'))
    assert isinstance(request, AuthRequest)
    assert request.credentials == b"alice:wonderland"
    reply = codec.decode_event(_block('{"event": "auth", "id": 1, "success"'))
    assert isinstance(reply, AuthReply)
    assert GrantSet(reply.grants).may_publish("orders:alice:7")


def test_the_provider_settings_can_be_set() -> None:
    hub = msgspec.json.decode(_block('{"authProvider"'), type=HubSettings)
    assert check_auth_settings(hub).auth_provider is not None


class _Service:
    """Gives the page's answer and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: Any = None

    async def request(
        self, hub: str, method: str, url: str, *, body: bytes, **_: object
    ) -> OutboundResponse:
        self.asked = json.loads(body)
        return OutboundResponse(200, "application/json", self.answer)


async def test_question_and_answer_of_a_provider_are_as_shown() -> None:
    service = _Service(_block('{"success"'))
    clock = FakeClock()
    provider = HttpAuthProvider(AuthProvider(url="http://x/"), service, clock)  # type: ignore[arg-type]
    shown = json.loads(_block('{"hub"'))
    identity = await provider.authenticate(
        "shop", shown["session"], b"alice:wonderland", "203.0.113.9"
    )
    assert service.asked == shown
    assert (identity.user, identity.extra) == ("alice", {"hub": "shop"})
    assert identity.expires_ms == clock.wall_ms() + 3_600_000


async def test_the_claims_shown_are_taken() -> None:
    claims = json.loads(_block('{"iss"'))
    clock = FakeClock(claims["iat"] * 1_000)

    async def fetch(hub: str, url: str) -> bytes:
        raise AssertionError("a shared secret needs no key set")

    secret = "s" * 32
    verifier = JwtVerifier(clock=clock, revocations=Revocations(clock), fetch=fetch)
    settings = JwtSettings(algorithm="HS256", secret=secret, issuer="https://id.shop.example")
    token = pyjwt.encode(claims, secret, "HS256").encode()
    identity = (await verifier.verify("shop", settings, token)).identity
    assert (identity.user, identity.extra) == ("alice", {"role": "buyer"})


_GRANTS = [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in _rows("grant")]


def test_the_page_has_a_table_of_grants() -> None:
    assert len(_GRANTS) == 6


@pytest.mark.parametrize(("grant", "covered", "not_covered"), _GRANTS, ids=lambda c: str(c))
def test_the_table_of_grants_is_true(
    grant: list[str], covered: list[str], not_covered: list[str]
) -> None:
    grants = GrantSet(Grants(channels=(Grant(grant[0], publish=False, subscribe=True),)))
    assert [name for name in covered if not grants.may_subscribe(name)] == []
    assert [name for name in not_covered if grants.may_subscribe(name)] == []


def test_every_reason_in_the_log_has_its_line() -> None:
    """Each word that the code gives as a reason, with what its placeholders may hold."""
    holds = {
        "{what}": ("header", "claims"),
        "{name}": ("exp", "iat", "nbf"),
        "{error.field.partition('[')[0]}": ("user", "channels", "rpcs", "extra"),
    }
    given: set[str] = set()
    for file in (Path(__file__).parents[3] / "src/arauto/session/auth").glob("*.py"):
        for reason in re.findall(r'TokenError\(f?"([^"]+)"', file.read_text()):
            [(mark, words)] = [(m, w) for m, w in holds.items() if m in reason] or [("", ("",))]
            given |= {reason.replace(mark, word) if mark else reason for word in words}
    shown = [name for row in _rows("reason") for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(shown) == sorted(given)


def test_the_jwt_settings_shown_have_the_names_of_the_settings() -> None:
    shown = [json.loads(row[0].strip("`")) for row in _rows("settings")]
    assert len(shown) == 5
    for settings in shown:
        msgspec.convert(settings, JwtSettings)
