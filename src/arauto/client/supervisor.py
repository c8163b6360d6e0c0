"""Gives a session one connection after another, until it is closed or coming back is pointless.

Open, take the session up (restore it with the single-use key, else authenticate), let it work, wait for
the loss, wait a little, again. One task per client, and the only one that lives as long as the client.
"""

import asyncio
import logging
from functools import partial
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from arauto.client.backoff import attempt_after, delay_s
from arauto.client.failures import ConnectionLostError, RefusedError
from arauto.client.options import Target
from arauto.client.proof import check_success
from arauto.client.session import Session
from arauto.client.state import TABLE, Trigger
from arauto.client.wire import Wire, open_wire
from arauto.codec.base import Codec
from arauto.codec.events import (
    AuthRequest,
    Restored,
    RestoreRequest,
    SessionInfo,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.names import check_hub

__all__ = ["Supervisor", "websocket_url"]

_log = logging.getLogger("arauto.client")

_PATH = "/v1/ws"


class Supervisor:
    """The reconnect loop of one client."""

    __slots__ = (
        "_codec",
        "_key",
        "_session",
        "_target",
        "last_error",
        "started",
    )

    def __init__(self, session: Session, target: Target, codec: Codec) -> None:
        self._session = session
        self._target = target
        self._codec = codec
        self._key: tuple[str, float] | None = None
        """The restore key of the last session that worked, until the node has answered to it."""
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the first connection works, or the client failed."""
        self.last_error: ArautoError | None = None

    async def run(self) -> None:
        """Keep the session connected. Returns when the client has failed."""
        try:
            error = await self._run()
        except Exception as bug:
            _log.exception("the client failed unexpectedly")
            error = ArautoError(Code.SERVER_ERROR, f"the client failed unexpectedly: {bug!r}")
            error.__cause__ = bug
        session = self._session
        if (session.state, Trigger.REFUSED) in TABLE:
            session.step(Trigger.REFUSED)
        await session.end(error)
        if not self.started.done():
            self.started.set_exception(error)
            self.started.exception()

    async def _run(self) -> ArautoError:
        session = self._session
        backoff = session.tuning.backoff
        attempt = -1  # the first loss makes this 0: come back at once
        session.step(Trigger.START)
        while True:
            error, lived_s = await self._live()
            self.last_error = error
            if not session.proof.cures(error):
                return error
            session.step(Trigger.LOST)
            attempt = attempt_after(backoff, attempt, lived_s, error.code)
            wait_s = delay_s(backoff, attempt, session.entropy.uniform)
            _log.info("%s; next attempt in %.2f s", error, wait_s)
            await self._sleep(wait_s)
            session.step(Trigger.RETRY)

    async def _live(self) -> tuple[ArautoError, float]:
        """One connection from its opening to its end: why it ended and how long it worked."""
        session = self._session
        if session.restore_key is not None:
            self._key, session.restore_key = session.restore_key, None
        tuning = session.tuning
        wire = Wire(
            self._codec,
            session.handle_event,
            session.handle_lost,
            session.wake,
            tuning.receive_bytes_max,
        )
        session.use(wire)
        assert session.lost is not None
        try:
            await self._set_up(wire)
        except ArautoError as error:
            wire.abort(error)
            session.handle_lost(wire, error)
            await wire.wait_lost()
            if self._key is not None:
                # The key of a session that never stood is worth less than the one before.
                session.restore_key = None
            told = session.lost.result()
            return (told if isinstance(error, ConnectionLostError) else error), 0.0
        since_s = session.clock.monotonic_s()
        session.step(Trigger.JOINED)
        if not self.started.done():
            self.started.set_result(None)
        reason = await session.lost
        await wire.wait_lost()
        return reason, session.clock.monotonic_s() - since_s

    async def _set_up(self, wire: Wire) -> None:
        """Connect a wire and make it carry the session."""
        session = self._session
        headers = await session.proof.headers()
        late = ConnectionLostError("the node did not set up the session in time")
        timeout_s = session.tuning.handshake_timeout_s
        deadline = session.clock.call_later(timeout_s, partial(wire.abort, late))
        try:
            await self._open(wire, headers)
            session.step(Trigger.OPENED)
            await self._join(wire)
        finally:
            deadline.cancel()

    async def _open(self, wire: Wire, headers: dict[str, str]) -> None:
        target = self._target
        tuning = self._session.tuning
        await open_wire(
            websocket_url(target.url, target.hub),
            wire,
            subprotocol=self._codec.name,
            headers=headers,
            timeout_s=tuning.handshake_timeout_s,
            frame_bytes_max=tuning.receive_bytes_max,
            ssl_context=target.ssl_context,
        )

    async def _join(self, wire: Wire) -> None:
        """Become who we were, or who we are told to be."""
        session = self._session
        assert session.hello is not None
        info: SessionInfo = await session.hello
        restored = await self._restore(wire)
        if restored is None and session.proof.has_credentials and not info.authenticated:
            request = AuthRequest(credentials=await session.proof.credentials())
            check_success(await session.requests.ask_now(wire, request))
        session.make_ready(info.ping_interval_ms / 1000 or session.tuning.heartbeat_s)
        if restored is not None:
            given_up = session.attachments.given_up(restored.results)
            if given_up:
                wire.send(UnsubscribeRequest(channels=given_up))

    async def _restore(self, wire: Wire) -> Restored | None:
        session = self._session
        if self._key is None:
            return None
        key, expires_s = self._key
        if session.clock.monotonic_s() >= expires_s:
            self._key = None
            return None
        try:
            places = session.attachments.restore_positions()
            request = RestoreRequest(key=key, positions=places)
            reply = await session.requests.ask_now(wire, request)
        except RefusedError as error:
            _log.info("the session cannot be restored: %s", error)
            self._key = None
            return None
        self._key = None
        assert isinstance(reply, Restored)
        session.standing = msgspec.structs.replace(
            session.standing,
            session=reply.session,
            user=reply.user,
            authenticated=bool(reply.user),
            grants=reply.grants,
            extra=reply.extra,
            error=None,
        )
        return reply

    async def _sleep(self, wait_s: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._session.clock.call_later(wait_s, partial(_wake, over))
        try:
            await over
        finally:
            timer.cancel()


def websocket_url(url: str, hub: str) -> str:
    """The address of a hub's WebSocket on a node. A path given in the URL is kept.

    Raises:
        ArautoError: BAD_FIELD, BAD_HUB_NAME.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.port is None or parts.port > 0
    except ValueError:  # half an IPv6 address, a port that is none
        is_address = False
    if not is_address or parts.scheme not in ("ws", "wss") or not parts.hostname or parts.fragment:
        raise ArautoError(
            Code.BAD_FIELD, "must look like ws://host:port or wss://host", field="url"
        )
    path = parts.path if parts.path not in ("", "/") else _PATH
    query = "&".join(filter(None, (parts.query, urlencode({"hub": check_hub(hub)}))))
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
