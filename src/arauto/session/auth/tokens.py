"""Tokens that Arauto issues to authenticated sessions, and the comparison of admin tokens.

A session token lets its holder use the HTTP API and connect as the same user, in the hub it was issued in,
for a short time. Its `typ` and its key are its own, so that no other kind of token can pass for one. It never
outlives the authentication it came from, and using one does not buy a longer one.
"""

import hashlib
import hmac

import msgspec

from arauto.clock import Clock
from arauto.entropy import Entropy
from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.names import check_hub
from arauto.session.auth.claims import LIFETIME_MAX_S, Expected, Verified, check_claims
from arauto.session.auth.identity import WireGrants, wire_of
from arauto.session.auth.jws import (
    TOKEN_BYTES_MAX,
    Header,
    Key,
    TokenError,
    open_token,
    read_header,
)
from arauto.session.auth.jws import sign as sign_token
from arauto.session.auth.revocations import Revocations

__all__ = ["SECRET_BYTES_MIN", "SESSION_TYP", "SessionTokens", "admin_token_matches", "bearer_of"]

SESSION_TYP = "arauto-session+jwt"
SECRET_BYTES_MIN = 32
_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
_SESSION_LEN_MAX = 128


class _SessionClaims(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    iss: str
    aud: str
    sub: str
    sid: str
    iat: float
    exp: float
    auth_time: float
    """When the user proved who they are, perhaps long before `iat`; what a revocation is compared with."""
    jti: str
    grants: WireGrants = WireGrants()
    extra: dict[str, str] = {}


class SessionTokens:
    """Issues and verifies session tokens. All nodes of a cluster share the secret and the issuer."""

    __slots__ = (
        "_clock",
        "_entropy",
        "_issuer",
        "_key",
        "_revocations",
        "_secret",
        "_skew_ms",
        "_ttl_ms",
    )

    def __init__(
        self,
        *,
        secret: str,
        clock: Clock,
        entropy: Entropy,
        revocations: Revocations,
        algorithm: str = "HS256",
        issuer: str = "arauto",
        ttl_s: float = 300,
        skew_s: float = 30,
    ) -> None:
        """Take the node's signing secret.

        Raises:
            ArautoError: BAD_CONFIG if the algorithm is unknown or the secret too short for it.
        """
        if algorithm not in _SECRET_BYTES:
            raise _bad_config("algorithm is HS256, HS384 or HS512", "auth.algorithm")
        self._secret = secret.encode()
        if len(self._secret) < _SECRET_BYTES[algorithm]:
            raise _bad_config(
                f"{algorithm} needs a secret of at least {_SECRET_BYTES[algorithm]} bytes",
                "auth.session.secret",
            )
        if not issuer:
            raise _bad_config("issuer is not empty", "auth.issuer")
        if not 0 < ttl_s <= LIFETIME_MAX_S:
            raise _bad_config(f"a token lives for at most {LIFETIME_MAX_S} s", "auth.tokenTtlS")
        self._key = Key(algorithm, self._secret)
        self._issuer = issuer
        self._ttl_ms = round(ttl_s * 1_000)
        self._skew_ms = round(skew_s * 1_000)
        self._clock = clock
        self._entropy = entropy
        self._revocations = revocations

    def issue_session_token(self, hub: str, session: str, identity: Identity) -> tuple[str, int]:
        """Return a token for this session and when it ends: with the identity, if that ends sooner.

        Raises:
            ArautoError: BAD_FIELD if the grants and extras do not fit into a token, TOKEN_EXPIRED if the
                identity has expired.
        """
        now_ms = self._clock.wall_ms()
        exp_ms = now_ms + self._ttl_ms
        if identity.expires_ms:
            exp_ms = min(exp_ms, identity.expires_ms)
        if exp_ms <= now_ms:
            raise TokenError("identity-expired", expired=True)
        claims = _SessionClaims(
            iss=self._issuer,
            aud=check_hub(hub),
            sub=identity.user,
            sid=session,
            # Milliseconds matter: a revocation must tell what was just before it from what is just after.
            iat=now_ms / 1_000,
            exp=exp_ms / 1_000,
            auth_time=identity.issued_ms / 1_000,
            jti=self._entropy.token(16),
            grants=wire_of(identity.grants),
            extra=identity.extra,
        )
        body = msgspec.json.encode(claims)
        token = sign_token(body, self._secret, self._key.algorithm, SESSION_TYP)
        if len(token) > TOKEN_BYTES_MAX:
            raise ArautoError(
                Code.BAD_FIELD,
                f"grants and extra do not fit into a token of {TOKEN_BYTES_MAX} bytes",
                field="grants",
            )
        return token, exp_ms

    def verify_session_token(self, token: str | bytes, hub: str) -> Identity:
        """Return the identity a session token of this hub stands for; it expires with the token.

        Raises:
            TokenError: TOKEN_INVALID or TOKEN_EXPIRED.
        """
        return self.read_session_token(token, hub).identity

    def read_session_token(self, token: str | bytes, hub: str) -> Verified:
        """As `verify_session_token`, and also say which session the token was issued to.

        Raises:
            TokenError: TOKEN_INVALID or TOKEN_EXPIRED.
        """
        data = _as_bytes(token)
        header = read_header(data)
        if header is None:
            raise TokenError("form")
        return self.open_session_token(data, header, hub)

    def open_session_token(self, token: bytes, header: Header, hub: str) -> Verified:
        """As `read_session_token`, for a caller that has read the header.

        Raises:
            TokenError: TOKEN_INVALID or TOKEN_EXPIRED.
        """
        if header.typ != SESSION_TYP:
            raise TokenError("typ")
        claims = open_token(token, header, self._key)
        try:
            own = msgspec.convert(claims, _SessionClaims)
        except msgspec.ValidationError:
            raise TokenError("claims") from None
        if not 0 < len(own.sid) <= _SESSION_LEN_MAX or not own.jti:
            raise TokenError("sid-or-jti")
        if not 0 <= own.auth_time <= own.iat:
            raise TokenError("auth-time")
        expected = Expected(hub, hub, self._issuer, self._clock.wall_ms(), self._skew_ms)
        identity = msgspec.structs.replace(
            check_claims(claims, expected).identity, issued_ms=round(own.auth_time * 1_000)
        )
        if self._revocations.is_revoked(hub, identity, own.sid):
            raise TokenError("revoked")
        return Verified(identity, own.sid)


def bearer_of(authorization: str) -> str:
    """Return the token of an `Authorization: Bearer …` header; "" if it holds none.

    Of any length, which the port bounds: whoever brings a token that is too long is refused where tokens
    are checked, as for every other way to bring one, and is not taken for somebody who brings none.
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def admin_token_matches(presented: str, expected: str) -> bool:
    """Whether the admin token is right. Takes as long for a wrong one, of whatever length."""
    if not expected:
        return False
    digests = (
        hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        for text in (presented, expected)
    )
    return hmac.compare_digest(*digests)


def _as_bytes(token: str | bytes) -> bytes:
    if isinstance(token, bytes):
        return token
    try:
        return token.encode("ascii")
    except UnicodeEncodeError:
        raise TokenError("form") from None


def _bad_config(rule: str, field: str) -> ArautoError:
    return ArautoError(Code.BAD_CONFIG, rule, field=field)
