"""Asks a hub's own service who someone is.

`AuthProvider` is the port; `HttpAuthProvider` speaks to a service over HTTP. The exchange is documented in
`docs/topics/authentication.md`. What the service answers is checked against a strict schema: an answer that
cannot be understood in full is no answer, and nobody is let in on the part that could be.
"""

from base64 import b64encode
from typing import Annotated, Protocol

import msgspec
import structlog

from arauto import settings
from arauto.clock import Clock
from arauto.codec.json_body import read_once
from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.session.auth.addresses import parse_url
from arauto.session.auth.identity import (
    WireChannels,
    WireExtra,
    WireGrants,
    WireRpcs,
    build_identity,
    grants_of,
)
from arauto.session.auth.outbound import (
    OutboundClient,
    OutboundError,
    OutboundResponse,
    may_set_header,
)

__all__ = ["AuthProvider", "HttpAuthProvider", "check_provider_settings"]

_HEADERS_LEN_MAX = 32
_HEADER_BYTES_MAX = 4_096
_TOKEN_CHARS = frozenset(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_EXPIRES_MAX_S = 366 * 86_400

_log = structlog.get_logger("arauto.auth")


class AuthProvider(Protocol):
    """Decides who a session is. Calls may overlap; may suspend for as long as its own timeout says."""

    async def authenticate(
        self, hub: str, session: str, credentials: bytes, address: str
    ) -> Identity:
        """Return the identity that the credentials prove.

        Args:
            hub: the session's hub.
            session: the session's id.
            credentials: what the client sent, opaque to Arauto.
            address: the client's IP address; "" if it is not known.

        Raises:
            ArautoError: AUTH_FAILED (refused), AUTH_UNAVAILABLE (no sensible answer), TOO_MANY_PENDING.
        """


class _Request(msgspec.Struct, frozen=True):
    hub: str
    session: str
    credentials: str
    """Base64, as credentials may be any bytes."""
    address: str


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    success: bool
    user: str = ""
    extra: WireExtra = {}
    channels: WireChannels = []
    rpcs: WireRpcs = []
    expires_in_s: Annotated[float, msgspec.Meta(gt=0, le=_EXPIRES_MAX_S)] | None = None


_answers = msgspec.json.Decoder(_Answer)


class HttpAuthProvider:
    """A service that answers `POST` with JSON."""

    __slots__ = ("_client", "_clock", "_settings", "_timeout_s")

    def __init__(
        self,
        provider: settings.AuthProvider,
        client: OutboundClient,
        clock: Clock,
        *,
        timeout_max_s: float = 5.0,
    ) -> None:
        self._settings = provider
        self._client = client
        self._clock = clock
        self._timeout_s = min(provider.timeout_s, timeout_max_s)

    async def authenticate(
        self, hub: str, session: str, credentials: bytes, address: str
    ) -> Identity:
        # Counts from the question: whoever is revoked before the answer comes is not let in by it.
        asked_ms = self._clock.wall_ms()
        asked = _Request(hub, session, b64encode(credentials).decode("ascii"), address)
        response = await self._client.request(
            hub,
            "POST",
            self._settings.url,
            headers={
                "accept": "application/json",
                "user-agent": "arauto",
                **{name.lower(): value for name, value in self._settings.headers.items()},
                "content-type": "application/json",
            },
            body=msgspec.json.encode(asked),
            timeout_s=self._timeout_s,
        )
        try:
            return self._read(response, asked_ms)
        except OutboundError as error:
            # The reason is a word of ours; the answer itself may hold anything, so it is not logged.
            _log.warning(
                "auth provider gave no usable answer",
                hub=hub,
                session=session,
                status=response.status,
                reason=error.reason,
            )
            raise

    def _read(self, response: OutboundResponse, asked_ms: int) -> Identity:
        if response.status in (401, 403):
            raise _refused()
        if response.status != 200:
            raise OutboundError("status")
        if response.content_type != "application/json":
            raise OutboundError("content-type")
        try:
            answer = _answers.decode(response.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise OutboundError("schema") from None
        try:
            read_once(response.body)
        except ValueError:
            raise OutboundError("repeated-member") from None
        if not answer.success:
            raise _refused()
        expires_ms = 0
        if answer.expires_in_s is not None:
            expires_ms = asked_ms + max(1, round(answer.expires_in_s * 1_000))
        grants = grants_of(WireGrants(answer.channels, answer.rpcs))
        try:
            return build_identity(answer.user, grants, answer.extra, expires_ms, asked_ms)
        except ArautoError as error:
            raise OutboundError(f"field {error.field}") from None


def _refused() -> ArautoError:
    return ArautoError(Code.AUTH_FAILED, "the credentials were refused", field="credentials")


def check_provider_settings(provider: settings.AuthProvider) -> settings.AuthProvider:
    """Return the settings if a provider can be built from them. For use when they are set.

    Whether the address may be called is decided at each call, when it is known.

    Raises:
        ArautoError: BAD_FIELD, naming the field. Never repeats a value.
    """
    parse_url(provider.url, "authProvider.url")
    field = "authProvider.headers"
    if len(provider.headers) > _HEADERS_LEN_MAX:
        raise ArautoError(Code.BAD_FIELD, f"at most {_HEADERS_LEN_MAX} headers", field=field)
    for name, value in provider.headers.items():
        if not name or not _TOKEN_CHARS.issuperset(name) or not may_set_header(name):
            raise ArautoError(
                Code.BAD_FIELD, "a header's name is not allowed or not well formed", field=field
            )
        plain = value.isascii() and value.isprintable() and value == value.strip()
        if not plain or len(name) + len(value) > _HEADER_BYTES_MAX:
            raise ArautoError(
                Code.BAD_FIELD,
                f"a header's value is printable ASCII of at most {_HEADER_BYTES_MAX} bytes",
                field=field,
            )
    return provider
