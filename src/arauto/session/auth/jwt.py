"""Verifies the tokens of a hub's own issuer on the node, without asking anyone.

What a token must say, and what it may say, is in `docs/topics/authentication.md`. A hub's keys, audience and
issuer come from its settings alone; when these change, what was cached for the hub is dropped with them.
"""

from collections.abc import Awaitable, Callable

import msgspec

from arauto.clock import Clock
from arauto.errors import ArautoError, Code
from arauto.session.auth.claims import Expected, Verified, check_claims
from arauto.session.auth.jwks import JwksSource, KeySource, StaticSource, read_key_file
from arauto.session.auth.jws import Header, TokenError, open_token, read_header
from arauto.session.auth.keys import check_jwt_settings, static_key
from arauto.session.auth.revocations import Revocations
from arauto.settings import JwtSettings

__all__ = ["JwtVerifier"]

_HUBS_LEN_MAX = 10_000

#: Kinds of token that authenticate a user. Others of the same issuer (logout, DPoP …) do not.
_TYPES = frozenset({"", "jwt", "at+jwt"})


class _HubKeys(msgspec.Struct, frozen=True):
    settings: JwtSettings
    source: KeySource


class JwtVerifier:
    """Verifies hubs' JWTs. One per node."""

    __slots__ = ("_clock", "_fetch", "_hubs", "_refresh_s", "_revocations", "_skew_ms")

    def __init__(
        self,
        *,
        clock: Clock,
        revocations: Revocations,
        fetch: Callable[[str, str], Awaitable[bytes]],
        refresh_s: float = 300,
        skew_s: float = 30,
    ) -> None:
        """Prepare a verifier.

        Args:
            clock: judges times in tokens.
            revocations: tokens they name are refused.
            fetch: `(hub, url)` → the body of a JWKS URL; raises ArautoError.
            refresh_s: how long a key set is used before it is read again.
            skew_s: how far an issuer's clock may run ahead of ours.
        """
        self._clock = clock
        self._revocations = revocations
        self._fetch = fetch
        self._refresh_s = refresh_s
        self._skew_ms = round(skew_s * 1_000)
        # By hub first and last: an entry is only ever reached through the hub it was made for.
        self._hubs: dict[str, _HubKeys] = {}

    async def verify(self, hub: str, settings: JwtSettings, token: bytes) -> Verified:
        """Return who the token speaks for in this hub.

        Raises:
            TokenError: TOKEN_INVALID or TOKEN_EXPIRED.
            ArautoError: AUTH_UNAVAILABLE, the hub's keys could not be read.
        """
        header = read_header(token)
        if header is None:
            raise TokenError("form")
        return await self.open(hub, settings, token, header)

    async def open(self, hub: str, settings: JwtSettings, token: bytes, header: Header) -> Verified:
        """As `verify`, for a caller that has read the header."""
        if header.typ.lower().removeprefix("application/") not in _TYPES:
            raise TokenError("typ")
        if header.alg not in ("HS256", "RS256", "EdDSA"):
            raise TokenError("alg")  # before a kid of a hopeless token can cause a fetch
        key = await self._source(hub, settings).key_for(header.kid)
        claims = open_token(token, header, key)
        expected = Expected(
            hub=hub,
            audience=settings.audience or hub,
            issuer=settings.issuer,
            now_ms=self._clock.wall_ms(),
            skew_ms=self._skew_ms,
        )
        verified = check_claims(claims, expected)
        if self._revocations.is_revoked(hub, verified.identity):
            raise TokenError("revoked")
        return verified

    def forget(self, hub: str) -> None:
        """Drop the hub's keys, as when it closes."""
        cached = self._hubs.pop(hub, None)
        if cached is not None:
            cached.source.close()

    def close(self) -> None:
        """Drop everything and stop what is being read."""
        for hub in list(self._hubs):
            self.forget(hub)

    def _source(self, hub: str, settings: JwtSettings) -> KeySource:
        cached = self._hubs.get(hub)
        if cached is not None and cached.settings == settings:
            return cached.source
        self.forget(hub)
        source = self._make_source(hub, settings)
        if len(self._hubs) >= _HUBS_LEN_MAX:
            self.forget(next(iter(self._hubs)))
        self._hubs[hub] = _HubKeys(settings, source)
        return source

    def _make_source(self, hub: str, settings: JwtSettings) -> KeySource:
        try:
            check_jwt_settings(settings)
            key = static_key(settings)
        except ArautoError:
            # Settings are checked when they are set; stored ones may still be older than a rule.
            raise ArautoError(
                Code.AUTH_UNAVAILABLE, "the hub's token settings are not usable"
            ) from None
        if key is not None:
            return StaticSource(key)
        from_file = bool(settings.jwks_file)

        async def load() -> bytes:
            if from_file:
                return await read_key_file(settings.jwks_file)
            return await self._fetch(hub, settings.jwks_url)

        return JwksSource(
            hub, load, self._clock, secrets_allowed=from_file, refresh_s=self._refresh_s
        )
