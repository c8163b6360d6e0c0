"""The one way the node calls someone else's HTTP service: auth providers and JWKS URLs.

The host is resolved once; every address found must be permitted; then exactly these addresses are connected
to, with the name kept for `Host` and TLS. So a DNS answer that changes between check and use changes nothing.
No redirects, no cookies, no proxies from the environment, no compression, no connection shared between two
requests (hubs that share an address must not share a TLS connection). Time, size and number are bounded.

`httpx`'s transport is used without its client: the client would log URLs and follow the environment.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import cast

import httpx
import msgspec
import structlog

from arauto.errors import ArautoError, Code
from arauto.session.auth.addresses import AddressPolicy, IpAddress, Target, parse_url
from arauto.session.auth.resolver import Resolver, SystemResolver

__all__ = [
    "OutboundClient",
    "OutboundError",
    "OutboundResponse",
    "may_set_header",
]

RESPONSE_BYTES_MAX = 65_536
TIMEOUT_S = 5.0
PER_HUB_MAX = 32
TOTAL_MAX = 512
_ADDRESSES_MAX = 16
_ATTEMPTS_MAX = 4

#: Headers that say where a message goes or where it ends. They are ours alone.
_OWN_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_SILENT = frozenset({"timeout", "connect", "resolve", "address-refused"})

_log = structlog.get_logger("arauto.auth")


def may_set_header(name: str) -> bool:
    """Whether a caller may choose this header's value."""
    return name.lower() not in _OWN_HEADERS


class OutboundError(ArautoError):
    """A call that did not work out. The public text is always the same.

    Attributes:
        reason: a word for logs and tests; never taken from the answer.
        silent: whether nothing at all came back, as opposed to something unusable.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(Code.AUTH_UNAVAILABLE, "the hub's authentication service did not answer")
        self.reason = reason
        self.silent = reason in _SILENT


class OutboundResponse(msgspec.Struct, frozen=True):
    """A whole answer, within the limits."""

    status: int
    content_type: str
    """Lower case, without parameters."""
    body: bytes


class OutboundClient:
    """Makes bounded calls to permitted addresses. One per node; safe to share between hubs."""

    __slots__ = ("_pending", "_policy", "_resolver", "_response_bytes_max", "_total", "_transport")

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()
        self._response_bytes_max = response_bytes_max
        self._pending: dict[str, int] = {}
        self._total = 0
        self._transport = httpx.AsyncHTTPTransport(
            verify=tls or ssl.create_default_context(),
            trust_env=False,
            http2=False,
            # The name is not part of the pool's key, only the address: nothing may be kept for reuse.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            retries=0,
        )

    @property
    def pending(self) -> int:
        """Calls under way, of all hubs."""
        return self._total

    async def aclose(self) -> None:
        """Close what is open."""
        await self._transport.aclose()
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    async def get(self, hub: str, url: str) -> bytes:
        """Return the body of a 200 answer, as JWKS need it.

        Raises:
            OutboundError: AUTH_UNAVAILABLE.
            ArautoError: TOO_MANY_PENDING.
        """
        response = await self.request(hub, "GET", url)
        if response.status != httpx.codes.OK:
            raise OutboundError("status")
        return response.body

    async def request(
        self,
        hub: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
    ) -> OutboundResponse:
        """Make one call.

        Args:
            hub: on whose behalf; bounds how many of its calls run at once.
            method: GET or POST.
            url: see `parse_url`.
            headers: sent as they are, beside `Host` and `Content-Length`.
            body: the content to send.
            timeout_s: for everything together: resolving, connecting, sending, reading.

        Raises:
            OutboundError: AUTH_UNAVAILABLE, whatever went wrong.
            ArautoError: TOO_MANY_PENDING, at once, if the hub or the node has too many calls under way.
        """
        if self._pending.get(hub, 0) >= PER_HUB_MAX or self._total >= TOTAL_MAX:
            raise ArautoError(
                Code.TOO_MANY_PENDING, "too many authentications are waiting; retry later"
            )
        self._pending[hub] = self._pending.get(hub, 0) + 1
        self._total += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await self._call(hub, method, url, headers or {}, body)
        except TimeoutError:
            raise self._failed(hub, "timeout") from None
        except OutboundError as error:
            raise self._failed(hub, error.reason) from None
        finally:
            self._total -= 1
            self._pending[hub] -= 1
            if not self._pending[hub]:
                del self._pending[hub]

    def _failed(self, hub: str, reason: str) -> OutboundError:
        # Neither URL nor headers: either may hold a secret.
        _log.warning("outbound call failed", hub=hub, reason=reason)
        return OutboundError(reason)

    async def _call(
        self, hub: str, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> OutboundResponse:
        try:
            target = parse_url(url)
        except ArautoError:
            raise OutboundError("url") from None
        for address in await self._addresses(hub, target):
            try:
                return await self._send(target, address, method, headers, body)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
            except httpx.HTTPError:
                raise OutboundError("protocol") from None
            except (httpx.InvalidURL, UnicodeError, ValueError):
                raise OutboundError("request") from None
        raise OutboundError("connect")

    async def _addresses(self, hub: str, target: Target) -> list[IpAddress]:
        found = [target.ip] if target.ip is not None else []
        if not found:
            try:
                found = await self._resolver.resolve(hub, target.host, target.port)
            except (OSError, ValueError):
                raise OutboundError("resolve") from None
        if not found or len(found) > _ADDRESSES_MAX:
            raise OutboundError("resolve")
        # One forbidden address is enough: a name that leads outside and inside is not to be trusted.
        if not all(self._policy.permits(target, address) for address in found):
            raise OutboundError("address-refused")
        return found[:_ATTEMPTS_MAX]

    async def _send(
        self,
        target: Target,
        address: IpAddress,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> OutboundResponse:
        host = f"[{address}]" if address.version == 6 else str(address)
        request = httpx.Request(
            method,
            f"{target.scheme}://{host}:{target.port}{target.path}",
            headers={
                **{name: value for name, value in headers.items() if may_set_header(name)},
                "host": target.authority,
                "accept-encoding": "identity",
                "connection": "close",
            },
            content=body,
            extensions={"sni_hostname": target.host},
        )
        response = await self._transport.handle_async_request(request)
        try:
            return await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> OutboundResponse:
        if 300 <= response.status_code < 400:
            raise OutboundError("redirect")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise OutboundError("encoding")
        declared = response.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > self._response_bytes_max:
            raise OutboundError("too-large")
        parts: list[bytes] = []
        size_bytes = 0
        # It is a generator, though its type does not say so; left open, it would be closed at random.
        chunks = cast(AsyncGenerator[bytes, None], response.aiter_raw())
        async with aclosing(chunks):
            async for chunk in chunks:
                size_bytes += len(chunk)
                if size_bytes > self._response_bytes_max:
                    raise OutboundError("too-large")
                parts.append(chunk)
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return OutboundResponse(response.status_code, content_type, b"".join(parts))
