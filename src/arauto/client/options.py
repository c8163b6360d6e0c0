"""Everything about a client that can be set, with defaults that suit most programs."""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from arauto.client.backoff import Backoff

__all__ = ["CredentialsSource", "Target", "TokenSource", "Tuning"]

TokenSource = str | Callable[[], str | Awaitable[str]]
"""A token, or how to get a fresh one; a function is asked before each connection and each renewal. One that
is not async must not block: the client's loop waits for it."""

CredentialsSource = Any
"""Bytes, text or anything JSON can hold, or a function that returns such, async or not."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and times."""

    connect_timeout_s: float = 10.0
    """How long `connect` (or entering the client) tries before it gives up."""
    handshake_timeout_s: float = 10.0
    """How long one connection may take until its session is ready; and how long a function for tokens or
    credentials may take."""
    request_timeout_s: float = 30.0
    """How long a request waits for its answer, reconnects included. Keep it below the channels'
    idempotency window, or a publish that is re-sent very late may be delivered twice."""
    close_timeout_s: float = 5.0
    """How long `close` waits for the node to say goodbye."""
    heartbeat_s: float = 25.0
    """The interval of heartbeats where the node names none."""
    backoff: Backoff = Backoff()
    pending_len_max: int = 10_000
    """Requests waiting to be sent or answered; beyond it they are refused with TOO_MANY_PENDING."""
    pending_bytes_max: int = 16 * 1024 * 1024
    """The same, in bytes."""
    receive_bytes_max: int = 16 * 1024 * 1024
    """The largest message taken from a node."""
    queue_len_max: int = 1_000
    """Messages a subscription holds for its consumer."""
    queue_bytes_max: int = 16 * 1024 * 1024
    """The same, in bytes."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where to connect, and as whom."""

    url: str
    hub: str
    token: TokenSource | None = None
    ssl_context: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"Target({self.url!r}, hub={self.hub!r})"
