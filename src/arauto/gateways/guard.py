"""The HTTP protocol of the client port: uvicorn's, with limits before allocation.

Adds what a server on the open internet needs: caps on header count and bytes, on body bytes, on the time a
request may take to arrive, and on connections in all and per address. An upgrade to WebSocket is handed
to the gateway on the same transport, with what was read behind it.

Answers come one after another. What could only be answered out of turn, or cannot be waited for (an upgrade
behind a stream, nonsense behind a publication), is not answered at all: what is under way is finished,
nothing more is heard, and the connection ends.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from arauto.errors import Code

__all__ = ["Admission", "GuardedHttp", "HttpLimits", "Upgrade", "UpgradeHandler", "response"]

#: Headers of which one value is looked at.
_SINGLE = frozenset(
    {
        b"authorization",
        b"host",
        b"last-event-id",
        b"origin",
        b"sec-websocket-key",
        b"sec-websocket-version",
    }
)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of one request."""

    header_count_max: int = 100
    header_bytes_max: int = 16_384
    body_bytes_max: int = 1_048_576
    request_timeout_s: float = 10.0
    pipelined_max: int = 32
    """Requests that may wait for their answers at once. A piece of what arrives can hold thousands, and all
    of them are begun before anybody else has a turn."""


@dataclass(slots=True)
class Admission:
    """How many connections there are, and how many there may be; 0 = no limit."""

    connections_max: int = 0
    per_address_max: int = 0
    count: int = 0
    refused: int = 0
    by_address: dict[str, int] = field(default_factory=dict)

    def enter(self, address: str) -> bool:
        """Count a connection in; False if there are too many."""
        if self.connections_max and self.count >= self.connections_max:
            self.refused += 1
            return False
        if self.per_address_max:
            held = self.by_address.get(address, 0)
            if held >= self.per_address_max:
                self.refused += 1
                return False
            self.by_address[address] = held + 1
        self.count += 1
        return True

    def leave(self, address: str) -> None:
        """Count a connection out that was let in."""
        self.count -= 1
        if self.per_address_max:
            left = self.by_address.get(address, 0) - 1
            if left > 0:
                self.by_address[address] = left
            else:
                self.by_address.pop(address, None)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A request to speak WebSocket, its headers within limits."""

    transport: asyncio.Transport
    target: bytes
    headers: list[tuple[bytes, bytes]]
    address: str
    secure: bool
    leave: Callable[[], None]
    """To be called when the connection has ended; once is enough."""
    early: bytes = b""
    """What was read behind the request: the first frames of a client that did not wait for the answer."""


UpgradeHandler = Callable[[Upgrade], bytes | None]
"""Takes the transport over and returns None, or returns a whole HTTP response that refuses."""


class GuardedHttp(HttpToolsProtocol):
    """One HTTP connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        limits: HttpLimits,
        admission: Admission,
        upgrade: UpgradeHandler,
        count: Callable[[Code], object],
    ) -> None:
        """`count` is told of each refusal of its own."""
        super().__init__(config=config, server_state=server_state, app_state={})
        self._limits = limits
        self._admission = admission
        self._upgrade = upgrade
        self._count = count
        self._address = ""
        self._admitted = False
        self._other_bytes = 0
        """What arrived since the last piece of a body: headers, trailers, what is around chunks."""
        self._header_len = 0
        self._parsed_bytes = 0
        self._body_bytes = 0
        self._in_headers = True
        self._deadline: asyncio.TimerHandle | None = None
        self._owed: list[RequestResponseCycle] = []
        """Requests that were begun to be read and are not answered yet, in order, and some that are."""
        self._is_whole = True
        """Whether the last of them has been read to its end."""
        self._is_deaf = False
        """Whether nothing that comes is looked at any more."""
        self._early = b""

    # --- connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if not self._admission.enter(self._address):
            self._refuse(
                503,
                Code.OVERLOADED,
                "this node admits no more connections just now",
                retry_after_s=5,
            )
            return
        self._admitted = True
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._leave()
        super().connection_lost(exc)
        # The server tells the last request only; a stream before it would go on for nobody.
        for cycle in self._owed:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _leave(self) -> None:
        if self._admitted:
            self._admitted = False
            self._admission.leave(self._address)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        # Counted before the parser sees them; what begins within `data` is forgiven the rest.
        self._other_bytes += len(data)
        if (
            self._in_headers
            and self._other_bytes > self._limits.header_bytes_max + self._limits.body_bytes_max
        ):
            self._refuse(431, Code.REQUEST_TOO_LARGE, "the request's headers are too large")
            return
        if self._deadline is None and not self.transport.is_closing():
            self._arm()
        self._parse(data)
        if self._other_bytes > self._limits.header_bytes_max:
            self._refuse(431, Code.REQUEST_TOO_LARGE, "the request's headers are too large")

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._early = data[upgrade.args[0] :]
            self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            self._refuse(
                400, Code.PROTOCOL_VIOLATION, "the request is not valid HTTP/1.1 or is over a limit"
            )

    # --- parser callbacks --------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._other_bytes = 0
        self._header_len = 0
        self._parsed_bytes = 0
        self._body_bytes = 0
        super().on_message_begin()
        # For streams whose reader has stopped reading: closing would wait for it.
        self.scope["arauto.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def on_url(self, url: bytes) -> None:
        self._weigh(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._header_len >= self._limits.header_count_max:
            self._refuse(431, Code.REQUEST_TOO_LARGE, "the request has too many headers")
            raise httptools.HttpParserError("too many headers")
        self._header_len += 1
        self._weigh(len(name) + len(value))
        if self._in_headers:
            super().on_header(name, value)
        # Else it is a trailer: who a request is from and for was decided before its body, so it is dropped.

    def _weigh(self, size_bytes: int) -> None:
        """Count what the parser found; counting what arrives alone misses what arrives in one piece."""
        self._parsed_bytes += size_bytes
        if self._parsed_bytes > self._limits.header_bytes_max:
            self._refuse(431, Code.REQUEST_TOO_LARGE, "the request's headers are too large")
            raise httptools.HttpParserError("headers too large")

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._other_bytes = 0
        self._owed = [cycle for cycle in self._owed if not cycle.response_complete]
        if len(self._owed) >= self._limits.pipelined_max:
            # Those before it are answered; then the connection ends.
            self._hear_no_more(self._unanswered())
            raise httptools.HttpParserError("too many requests at once")
        self._check_said_once()
        for name, value in self.headers:
            if name == b"content-length" and not self._fits(value):
                self._refuse(413, Code.REQUEST_TOO_LARGE, "the request's body is too large")
                raise httptools.HttpParserError("body too large")
        if self.parser.should_upgrade():
            self._check_upgrade()
        super().on_headers_complete()
        if self.cycle is not None and (not self._owed or self._owed[-1] is not self.cycle):
            self._owed.append(self.cycle)
            self._is_whole = False

    def _check_said_once(self) -> None:
        """What counts of two things is not for us to guess: whoever stands before us may guess otherwise."""
        seen = set()
        for name, _ in self.headers:
            if name in seen:
                self._violated(f"a request has at most one {name.decode()}")
            if name in _SINGLE:
                seen.add(name)
        if self.url.startswith((b"/", b"*")) or b"://" not in self.url:
            return
        # The whole address, as proxies are asked; RFC 9112 has it come before Host, with which it agrees.
        authority = re.split(b"[/?#]", self.url.partition(b"://")[2], maxsplit=1)[0]
        host = next((value for name, value in self.headers if name == b"host"), None)
        if host is None:
            self.headers.append((b"host", authority))
        elif host.lower() != authority.lower():
            self._violated("the request's address and its Host name different hosts")

    def _violated(self, rule: str) -> NoReturn:
        self._refuse(400, Code.PROTOCOL_VIOLATION, rule)
        raise httptools.HttpParserError(rule)

    def on_body(self, body: bytes) -> None:
        self._other_bytes = 0
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes_max:
            self._refuse(413, Code.REQUEST_TOO_LARGE, "the request's body is too large")
            raise httptools.HttpParserError("body too large")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_whole = True
        self._other_bytes = 0
        self._disarm()
        super().on_message_complete()

    def _fits(self, content_length: bytes) -> bool:
        return content_length.isdigit() and int(content_length[:20]) <= self._limits.body_bytes_max

    # --- upgrade -----------------------------------------------------------------------------------

    def _should_upgrade_to_ws(self) -> bool:
        return True

    def _check_upgrade(self) -> None:
        """Before the application could see the request and act on what will be refused."""
        if not self._should_upgrade():
            self._violated("only an upgrade to websocket is possible here")
        if self.parser.get_method() != b"GET" or self.parser.get_http_version() != "1.1":
            self._violated("an upgrade to websocket is a GET over HTTP/1.1")
        for name, value in self.headers:
            if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
                self._violated("an upgrade has no body")

    def handle_websocket_upgrade(self) -> None:
        unanswered = self._unanswered()
        if unanswered is not None or self.transport.is_closing():
            self._hear_no_more(unanswered)
            return
        self._is_deaf = True
        self._disarm()
        self.connections.discard(self)
        admitted, self._admitted = self._admitted, False
        # Neither the parser nor the new connection keeps this one, which is done.
        self.parser = None  # type: ignore[assignment]
        address, admission = self._address, self._admission

        def leave() -> None:
            nonlocal admitted
            if admitted:
                admitted = False
                admission.leave(address)

        request = Upgrade(
            transport=self.transport,
            target=self.url,
            headers=self.headers,
            address=address,
            secure=self.scheme == "https",
            leave=leave,
            early=self._early,
        )
        try:
            refusal = self._upgrade(request)
        except BaseException:
            # Whatever it is, the place it took is free again.
            request.leave()
            self.transport.abort()
            raise
        if refusal is not None:
            request.leave()
            self.transport.write(refusal)
            self.transport.close()

    # --- refusing ----------------------------------------------------------------------------------

    def _refuse(self, status: int, code: Code, reason: str, *, retry_after_s: int = 0) -> None:
        if not self._may_answer(code):
            return
        self.transport.write(response(status, code, reason, retry_after_s=retry_after_s))
        self.transport.close()

    def _may_answer(self, code: Code) -> bool:
        """Count a refusal, and return whether it is the turn of the request that is being read. If not,
        nothing more is heard.
        """
        if self.transport.is_closing() or self._is_deaf:
            return False
        self._count(code)
        own = None if self._is_whole else self._owed[-1]
        if own is not None and own.response_started:
            self._hear_no_more(own)
            return False
        unanswered = self._unanswered()
        if unanswered is None:
            return True
        if self.pipeline and self.pipeline[0][0] is own:
            self.pipeline.popleft()
        self._hear_no_more(unanswered)
        return False

    def _unanswered(self) -> RequestResponseCycle | None:
        """The last request that was read to its end, if its answer is not complete."""
        whole = self._owed if self._is_whole else self._owed[:-1]
        return whole[-1] if whole and not whole[-1].response_complete else None

    def _hear_no_more(self, last: RequestResponseCycle | None) -> None:
        """End the connection after the last answer under way."""
        self._is_deaf = True
        self._disarm()
        if last is None or last.response_complete:
            self.transport.close()
        else:
            last.keep_alive = False

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self._limits.request_timeout_s, self._too_slow)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._may_answer(Code.REQUEST_TOO_SLOW):
            self.transport.write(
                response(408, Code.REQUEST_TOO_SLOW, "the request took too long to arrive")
            )
            # The peer may never read this: do not wait for it.
            self.loop.call_later(1.0, self.transport.abort)
            self.transport.close()


_PHRASES = {
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    408: b"Request Timeout",
    413: b"Content Too Large",
    426: b"Upgrade Required",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


def response(
    status: int,
    code: Code,
    reason: str,
    *,
    field: str = "",
    retry_after_s: int = 0,
    headers: bytes = b"",
) -> bytes:
    """A whole plain HTTP response that ends the connection; the body is JSON, as everywhere."""
    body = b'{"code":%d,"message":"%b","field":"%b"}' % (code, reason.encode(), field.encode())
    extra: Any = headers + (b"Retry-After: %d\r\n" % retry_after_s if retry_after_s else b"")
    return (
        b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%bConnection: close\r\n\r\n%b" % (status, _PHRASES[status], len(body), extra, body)
    )
