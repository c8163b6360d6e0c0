"""Fuzzes what strangers and half-trusted services send to authenticate, and what tenants may set.

The first byte chooses what the rest is: a token, claims under a good signature, a key set, a URL, an auth
provider's answer, or a grant and a pattern. Only documented errors may come out; what is accepted must keep
its promises: no token is accepted that was not issued, no identity breaks its limits, no grant grows.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import atheris  # type: ignore[import-untyped]
import structlog

with atheris.instrument_imports(include=["arauto", "jwt"]):
    from arauto.entropy import SeededEntropy
    from arauto.errors import ArautoError, Code
    from arauto.grants import GrantSet, covers
    from arauto.model import Grants, Identity
    from arauto.names import check_channel, check_pattern, matches
    from arauto.session.auth.addresses import parse_url
    from arauto.session.auth.identity import check_user
    from arauto.session.auth.jws import TokenError, sign
    from arauto.session.auth.jwt import JwtVerifier
    from arauto.session.auth.keys import keys_from_jwks
    from arauto.session.auth.outbound import OutboundResponse
    from arauto.session.auth.provider import HttpAuthProvider
    from arauto.session.auth.revocations import Revocations
    from arauto.session.auth.tokens import SESSION_TYP, SessionTokens
    from arauto.settings import AuthProvider, JwtSettings
    from arauto.testing.clock import FakeClock

T = TypeVar("T")

SECRET = "a secret that only the fuzz target knows"
CLOCK = FakeClock()
REVOCATIONS = Revocations(CLOCK)
TOKENS = SessionTokens(
    secret=SECRET, clock=CLOCK, entropy=SeededEntropy(1), revocations=REVOCATIONS
)
JWT = JwtSettings(algorithm="HS256", secret=SECRET)
ISSUED = {
    TOKENS.issue_session_token("shop", "s-1", Identity("alice"))[0].encode(),
    sign(
        b'{"aud":"shop","sub":"alice","exp":1700000300}', SECRET.encode(), "HS256", "JWT"
    ).encode(),
}


async def _no_fetch(hub: str, url: str) -> bytes:
    raise AssertionError("static keys need no network")


VERIFIER = JwtVerifier(clock=CLOCK, revocations=REVOCATIONS, fetch=_no_fetch)


class _Service:
    """Stands for the network: gives the provider the answer under test."""

    answer = b""

    async def request(self, *args: object, **named: object) -> OutboundResponse:
        return OutboundResponse(200, "application/json", self.answer)


SERVICE = _Service()
PROVIDER = HttpAuthProvider(AuthProvider(url="http://x/"), SERVICE, CLOCK)  # type: ignore[arg-type]


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waited")


def _check_identity(identity: Identity) -> None:
    check_user(identity.user)
    GrantSet(identity.grants)
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in identity.extra.items())
    assert not identity.expires_ms or identity.expires_ms > CLOCK.wall_ms()


def _expect(error: ArautoError, *codes: Code) -> None:
    if error.code not in codes:
        raise AssertionError(f"undocumented error {error.code!r}") from error


def fuzz_token(data: bytes) -> None:
    verifiers: list[Callable[[], object]] = [
        lambda: TOKENS.read_session_token(data, "shop"),
        lambda: _run(VERIFIER.verify("shop", JWT, data)),
    ]
    for verify in verifiers:
        try:
            verify()
        except TokenError as error:
            _expect(error, Code.TOKEN_INVALID, Code.TOKEN_EXPIRED)
        else:
            assert data in ISSUED, "a token was accepted that nobody issued"


def fuzz_claims(data: bytes) -> None:
    session = sign(data, SECRET.encode(), "HS256", SESSION_TYP)
    with contextlib.suppress(TokenError):
        _check_identity(TOKENS.verify_session_token(session, "shop"))
    hub = sign(data, SECRET.encode(), "HS256", "JWT")
    with contextlib.suppress(TokenError):
        _check_identity(_run(VERIFIER.verify("shop", JWT, hub.encode())).identity)


def fuzz_jwks(data: bytes) -> None:
    for secrets_allowed in (False, True):
        try:
            keys = keys_from_jwks(data, secrets_allowed=secrets_allowed)
        except ArautoError as error:
            _expect(error, Code.BAD_FIELD)
        else:
            assert keys
            assert secrets_allowed or all(key.algorithm != "HS256" for key in keys.values())


def fuzz_url(data: bytes) -> None:
    try:
        target = parse_url(data.decode(errors="surrogateescape"))
    except ArautoError as error:
        _expect(error, Code.BAD_FIELD)
    else:
        assert target.host.isascii()
        assert not set(target.host) & set("@\\#?%/ []\r\n\0")
        assert 1 <= target.port <= 65_535


def fuzz_answer(data: bytes) -> None:
    SERVICE.answer = data
    try:
        _check_identity(_run(PROVIDER.authenticate("shop", "s-1", b"x", "")))
    except ArautoError as error:
        _expect(error, Code.AUTH_FAILED, Code.AUTH_UNAVAILABLE)


def fuzz_grants(data: bytes) -> None:
    grant, pattern, channel = (*data.decode(errors="replace").split("\n"), "", "")[:3]
    try:
        check_pattern(grant)
        check_pattern(pattern)
        check_channel(channel)
    except ArautoError:
        return
    if covers(grant, pattern) and matches(pattern, channel):
        assert matches(grant, channel), "a grant let someone see more than it names"
    assert not GrantSet(Grants()).may_subscribe(pattern)


KINDS: tuple[Callable[[bytes], None], ...] = (
    fuzz_token,
    fuzz_claims,
    fuzz_jwks,
    fuzz_url,
    fuzz_answer,
    fuzz_grants,
)


def fuzz_one_input(data: bytes) -> None:
    if data:
        KINDS[data[0] % len(KINDS)](data[1:])


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    atheris.Setup(sys.argv, fuzz_one_input)
    atheris.Fuzz()
