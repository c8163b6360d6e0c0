"""The client port: one listening socket for WebSocket, SSE and HTTP."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from arauto.errors import Code
from arauto.gateways.guard import Admission, GuardedHttp, HttpLimits, UpgradeHandler

__all__ = ["Port"]

App = Callable[[Any, Any, Any], Awaitable[None]]

_BACKLOG = 4_096


class Port:
    """A listening HTTP port whose upgrade requests go to a handler and whose other requests go to an
    ASGI application.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: HttpLimits,
        admission: Admission,
        upgrade: UpgradeHandler,
        count: Callable[[Code], object],
        keep_alive_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`count` is told of what is refused before application or handler see it."""
        self._limits = limits
        self.admission = admission
        self._upgrade = upgrade
        self._count = count
        self._tls = tls
        self._config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            # A client must not be able to say where it comes from.
            proxy_headers=False,
            ws="none",
            interface="asgi3",
            timeout_keep_alive=max(1, round(keep_alive_s)),
        )
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, host: str, port: int) -> None:
        """Start accepting connections; port 0 takes a free one, then found in `port`."""
        # Until its TLS handshake is done a connection is counted by nobody, and holds more than later.
        patience_s = self._limits.request_timeout_s if self._tls is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol,
            host,
            port,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=patience_s,
            ssl_shutdown_timeout=patience_s,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _protocol(self) -> GuardedHttp:
        return GuardedHttp(
            self._config, self._state, self._limits, self.admission, self._upgrade, self._count
        )

    def stop_listening(self) -> None:
        """Accept no more connections; those there are go on."""
        if self._server is not None:
            self._server.close()

    async def close(self, grace_s: float) -> None:
        """Let running requests finish for a while, then cut what is left."""
        self.stop_listening()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=grace_s)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        for connection in list(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens."""
        sockets: tuple[socket.socket, ...] = (
            self._server.sockets if self._server is not None else ()
        )
        return [sock.getsockname()[:2] for sock in sockets]
