"""From verified claims to an `Identity`: times, audience, issuer, user, grants. Pure.

Only call this with claims whose signature was checked. Expiry is judged last, so that "expired" is only
ever said about a token that was right in every other way.
"""

from typing import Any

import msgspec

from arauto.errors import ArautoError
from arauto.model import Grants, Identity
from arauto.session.auth.identity import WireExtra, WireGrants, build_identity, grants_of
from arauto.session.auth.jws import TokenError

__all__ = ["LIFETIME_MAX_S", "Expected", "Verified", "check_claims"]

#: No token may live longer than this. Revocations are remembered as long (see `revocations.py`).
LIFETIME_MAX_S = 31 * 86_400
_AUDIENCES_LEN_MAX = 16
#: The last second of the year 9999: above it, "time" is milliseconds or nonsense.
_SECONDS_MAX = 253_402_300_799


class Expected(msgspec.Struct, frozen=True):
    """What a token must say to be valid here and now."""

    hub: str
    audience: str
    issuer: str
    """"" = any."""
    now_ms: int
    skew_ms: int
    """How far the issuer's clock may run ahead of ours. Never lengthens a token's life."""


class Verified(msgspec.Struct, frozen=True):
    """A valid token's meaning."""

    identity: Identity
    session: str = ""
    """The session an Arauto token was issued to; "" for other tokens."""


def check_claims(claims: dict[str, Any], expected: Expected) -> Verified:
    """Return who the token speaks for.

    Raises:
        TokenError: TOKEN_EXPIRED if only its time is over, TOKEN_INVALID otherwise.
    """
    exp_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat", required=False)
    not_before_ms = _time_ms(claims, "nbf", required=False)
    _check_addressed(claims, expected)
    latest_ms = expected.now_ms + expected.skew_ms
    if issued_ms > latest_ms:
        raise TokenError("iat-future")
    if not_before_ms > latest_ms:
        raise TokenError("nbf-future")
    if exp_ms <= max(issued_ms, not_before_ms):
        raise TokenError("exp-before-start")
    if exp_ms > expected.now_ms + LIFETIME_MAX_S * 1_000:
        raise TokenError("exp-too-far")
    identity = _identity(claims, exp_ms, issued_ms)
    if exp_ms <= expected.now_ms:
        raise TokenError("expired", expired=True)
    return Verified(identity)


def _check_addressed(claims: dict[str, Any], expected: Expected) -> None:
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not 1 <= len(audiences) <= _AUDIENCES_LEN_MAX:
        raise TokenError("aud-missing")
    if not all(isinstance(item, str) for item in audiences) or expected.audience not in audiences:
        raise TokenError("aud-other")
    if expected.issuer and claims.get("iss") != expected.issuer:
        raise TokenError("iss-other")
    # Where several hubs share an issuer and an audience, this claim still ties a token to one of them.
    if "hub" in claims and claims["hub"] != expected.hub:
        raise TokenError("hub-other")


def _time_ms(claims: dict[str, Any], name: str, *, required: bool = True) -> int:
    value = claims.get(name)
    if value is None and name not in claims and not required:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"{name}-type")
    if not 0 < value <= _SECONDS_MAX:  # also refuses 1e999, which JSON reads as infinity
        raise TokenError(f"{name}-range")
    return round(value * 1_000)


def _identity(claims: dict[str, Any], exp_ms: int, issued_ms: int) -> Identity:
    user = claims.get("sub")
    if not isinstance(user, str):
        raise TokenError("sub")
    try:
        grants = Grants()
        if "grants" in claims:
            grants = grants_of(msgspec.convert(claims["grants"], WireGrants))
        extra = msgspec.convert(claims.get("extra", {}), WireExtra)
        return build_identity(user, grants, extra, exp_ms, issued_ms)
    except msgspec.ValidationError:
        raise TokenError("grants-or-extra") from None
    except ArautoError as error:
        raise TokenError(f"claim-{error.field.partition('[')[0]}") from None
