"""What all sessions of a node share: the injected world, the node's limits and its helpers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from arauto.errors import Code
from arauto.hub.directory import Directory
from arauto.hub.environment import Environment
from arauto.hub.refusals import Refusals
from arauto.model import Identity
from arauto.session.callers import Callers
from arauto.session.large_work import LargeWork
from arauto.session.line import Line
from arauto.session.pages import Pages
from arauto.session.restore import Restorer
from arauto.session.wheel import TimerWheel
from arauto.settings import HubSettings

__all__ = ["Authenticating", "SessionEnvironment", "SessionLimits"]


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Node-wide limits and timings of sessions."""

    auth_deadline_s: float = 5.0
    ping_interval_s: float = 25.0
    pong_timeout_s: float = 10.0
    errors_max: int = 100
    message_bytes_max: int = 1_048_576
    history_requests_max: int = 8
    restore_save_delay_s: float = 0.5


class Authenticating(Protocol):
    """Turns credentials into an identity, and an identity into a short-lived token."""

    async def authenticate(
        self, hub: str, settings: HubSettings, session: str, credentials: bytes, address: str
    ) -> Identity:
        """Raises ArautoError AUTH_FAILED, AUTH_UNAVAILABLE, TOKEN_INVALID or TOKEN_EXPIRED."""

    def issue_token(self, hub: str, session: str, identity: Identity) -> tuple[str, int]:
        """(token, expires_ms), or ("", 0) if this node issues none."""

    def is_revoked(self, hub: str, identity: Identity) -> bool:
        """Whether the identity was withdrawn since it was established."""


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """Built once by the composition root."""

    hub: Environment
    directory: Directory
    authenticator: Authenticating
    restorer: Restorer
    wheel: TimerWheel
    limits: SessionLimits
    refusals: Refusals
    """Of requests that name no hub that is open; see `refusals_of`."""
    line: Line = field(default_factory=Line)
    large_work: LargeWork = field(init=False)
    pages: Pages = field(default_factory=Pages)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large request is read, step by step: one at a time."""
    callers: Callers = field(default_factory=Callers)
    """Who comes without a session, and how often."""
    trace_publish: "Callable[[str, str, dict[str, str] | None], dict[str, str] | None] | None" = (
        None
    )
    """(hub, channel, headers) → headers to send on; None while tracing is off."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "large_work", LargeWork(self.hub.turn.soon))

    def new_id(self) -> str:
        """An id for a session that is about to begin."""
        return self.hub.entropy.token(12)

    def stop(self) -> None:
        """Look at sessions no more; those that were lost end now."""
        self.wheel.stop()
        for session in self.large_work.sessions():
            session.closed(Code.CONNECTION_LOST)
        self.line.finish()

    def refusals_of(self, hub: str) -> Refusals:
        """Where to note what is refused to who is not in the hub yet: with the hub if it is open. Any other
        name may be made up, and is not to stand in the journal as a tenant's."""
        found = self.directory.hubs.get(hub)
        return found.refusals if found is not None else self.refusals
