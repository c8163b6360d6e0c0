"""Decides how credentials are checked in a hub, and has them checked. The session's door to this package.

The choice depends on the form of the credentials and the hub's settings alone:

1. A token of the kind that Arauto issues is verified as one, and as nothing else.
2. Anything else that has the form of a signed token goes to the hub's JWT settings, if it has any.
3. The rest goes to the hub's auth provider, if it has one.
4. Where nobody is left to ask, the credentials are refused.

What one step refuses is never offered to the next: that would let an attacker choose the weakest.
"""

from collections.abc import Callable

import msgspec
import structlog

from arauto.clock import Clock
from arauto.errors import ArautoError, Code
from arauto.limits import CREDENTIALS_BYTES_MAX
from arauto.model import Identity
from arauto.session.auth.breaker import Breaker
from arauto.session.auth.jws import Header, TokenError, read_header
from arauto.session.auth.jwt import JwtVerifier
from arauto.session.auth.keys import check_jwt_settings
from arauto.session.auth.outbound import OutboundError
from arauto.session.auth.provider import AuthProvider, check_provider_settings
from arauto.session.auth.revocations import Revocations
from arauto.session.auth.tokens import SESSION_TYP, SessionTokens
from arauto.settings import AuthProvider as ProviderSettings
from arauto.settings import HubSettings

__all__ = ["Authenticator", "check_auth_settings"]

_HUBS_LEN_MAX = 10_000

_log = structlog.get_logger("arauto.auth")


def check_auth_settings(hub: HubSettings) -> HubSettings:
    """Return a hub's settings if everything they say about authentication can be used.

    Raises:
        ArautoError: BAD_FIELD, naming the field. Never repeats a value.
    """
    if hub.jwt is not None:
        check_jwt_settings(hub.jwt)
    if hub.auth_provider is not None:
        check_provider_settings(hub.auth_provider)
    return hub


class _Provider(msgspec.Struct, frozen=True):
    settings: ProviderSettings
    provider: AuthProvider
    breaker: Breaker


class Authenticator:
    """Turns credentials into identities. One per node."""

    __slots__ = ("_clock", "_hubs", "_jwt", "_make_provider", "_revocations", "_tokens")

    def __init__(
        self,
        *,
        clock: Clock,
        tokens: SessionTokens,
        jwt: JwtVerifier,
        revocations: Revocations,
        make_provider: Callable[[ProviderSettings], AuthProvider],
    ) -> None:
        """Prepare an authenticator.

        Args:
            clock: for the breakers of providers that do not answer.
            tokens: issues and verifies Arauto's own tokens.
            jwt: verifies hubs' tokens.
            revocations: the same that `tokens` and `jwt` heed.
            make_provider: builds the adapter for a hub's auth provider.
        """
        self._clock = clock
        self._revocations = revocations
        self._tokens = tokens
        self._jwt = jwt
        self._make_provider = make_provider
        self._hubs: dict[str, _Provider] = {}

    async def authenticate(
        self, hub: str, settings: HubSettings, session: str, credentials: bytes, address: str = ""
    ) -> Identity:
        """Return the identity that the credentials prove in this hub.

        Args:
            hub: the session's hub.
            settings: the hub's settings as they are now. What is cached for other ones is dropped.
            session: the session's id.
            credentials: what the client sent.
            address: the client's IP address; "" if it is not known.

        Raises:
            ArautoError: BAD_FIELD (empty or too large), TOKEN_INVALID, TOKEN_EXPIRED, AUTH_FAILED,
                AUTH_UNAVAILABLE or TOO_MANY_PENDING.
        """
        if not 1 <= len(credentials) <= CREDENTIALS_BYTES_MAX:
            raise ArautoError(
                Code.BAD_FIELD,
                f"credentials are 1-{CREDENTIALS_BYTES_MAX} bytes",
                field="credentials",
            )
        try:
            return await self._check(hub, settings, session, credentials, address)
        except TokenError as error:
            _log.info("token refused", hub=hub, session=session, reason=error.reason)
            raise

    def issue_token(self, hub: str, session: str, identity: Identity) -> tuple[str, int]:
        """Return a session token and when it ends; ("", 0) if the identity does not fit into one."""
        try:
            return self._tokens.issue_session_token(hub, session, identity)
        except ArautoError as error:
            _log.warning("no session token", hub=hub, session=session, reason=error.message)
            return "", 0

    def is_revoked(self, hub: str, identity: Identity) -> bool:
        """Whether the identity was withdrawn since it was established."""
        return self._revocations.is_revoked(hub, identity)

    def forget(self, hub: str) -> None:
        """Drop what is cached for a hub, as when it closes."""
        self._hubs.pop(hub, None)
        self._jwt.forget(hub)

    def close(self) -> None:
        """Drop everything."""
        self._hubs.clear()
        self._jwt.close()

    async def _check(
        self, hub: str, now: HubSettings, session: str, credentials: bytes, address: str
    ) -> Identity:
        header = _token_header(credentials, strict=now.jwt is not None)
        if header is not None and header.typ == SESSION_TYP:
            return self._tokens.open_session_token(credentials, header, hub).identity
        if header is not None and now.jwt is not None:
            return (await self._jwt.open(hub, now.jwt, credentials, header)).identity
        if now.auth_provider is not None:
            return await self._ask(hub, now.auth_provider, session, credentials, address)
        if now.jwt is not None:
            raise TokenError("form")
        raise ArautoError(
            Code.AUTH_FAILED, "this hub has no way to check these credentials", field="credentials"
        )

    async def _ask(
        self,
        hub: str,
        wanted: ProviderSettings,
        session: str,
        credentials: bytes,
        address: str,
    ) -> Identity:
        asked = self._provider_of(hub, wanted)
        if not asked.breaker.admits(self._clock.monotonic_s()):
            raise ArautoError(
                Code.AUTH_UNAVAILABLE, "the hub's authentication service did not answer"
            )
        try:
            identity = await asked.provider.authenticate(hub, session, credentials, address)
        except ArautoError as error:
            self._judge(asked.breaker, error)
            raise
        except BaseException:
            asked.breaker.abandoned()
            raise
        asked.breaker.succeeded()
        if self._revocations.is_revoked(hub, identity):
            raise ArautoError(Code.AUTH_FAILED, "the credentials were refused", field="credentials")
        return identity

    def _judge(self, breaker: Breaker, error: ArautoError) -> None:
        # An unusable answer is an answer: else a stranger whose credentials upset the service could have the
        # breaker shut everybody out.
        answered = isinstance(error, OutboundError) and not error.silent
        if error.code is Code.AUTH_FAILED or answered:
            breaker.succeeded()
        elif error.code is Code.AUTH_UNAVAILABLE:
            breaker.failed(self._clock.monotonic_s())
        else:
            breaker.abandoned()

    def _provider_of(self, hub: str, wanted: ProviderSettings) -> _Provider:
        cached = self._hubs.get(hub)
        if cached is None or cached.settings != wanted:
            self._hubs.pop(hub, None)
            if len(self._hubs) >= _HUBS_LEN_MAX:
                del self._hubs[next(iter(self._hubs))]
            cached = _Provider(wanted, self._make_provider(wanted), Breaker())
            self._hubs[hub] = cached
        return cached


def _token_header(credentials: bytes, *, strict: bool) -> Header | None:
    """The header, if the credentials look like a token.

    Without JWT settings, what merely resembles a token is the auth provider's to judge.
    """
    try:
        return read_header(credentials)
    except TokenError:
        if strict:
            raise
        return None
