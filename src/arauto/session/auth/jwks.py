"""Where a hub's keys come from, and when they are read again.

One `KeySource` belongs to one hub and one state of its settings. Nothing is shared between hubs: two tenants
whose issuers use the same `kid`, or even the same URL, have two sources.

A key set is read when first needed, again when it is older than `refresh_s`, and when a token names a
`kid` it does not hold; but never twice within `RETRY_S`, and never twice at once. If reading fails, the
keys at hand stay in use for up to `STALE_MAX_S` seconds.
"""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from arauto.clock import Clock
from arauto.errors import ArautoError, Code
from arauto.session.auth.jws import Key, TokenError
from arauto.session.auth.keys import JWKS_BYTES_MAX, keys_from_jwks

__all__ = ["RETRY_S", "STALE_MAX_S", "JwksSource", "KeySource", "StaticSource", "read_key_file"]

RETRY_S = 15.0
STALE_MAX_S = 86_400.0

_log = structlog.get_logger("arauto.auth")


class KeySource(Protocol):
    """Finds the key a token must have been signed with. One per hub; calls may overlap."""

    async def key_for(self, kid: str) -> Key:
        """Return the key; `kid` is "" if the token names none.

        Raises:
            TokenError: there is no such key.
            ArautoError: AUTH_UNAVAILABLE, no keys could be read.
        """

    def close(self) -> None:
        """Stop reading; whoever waits gets AUTH_UNAVAILABLE."""


class StaticSource:
    """The one key that stands in the settings. A `kid` changes nothing: there is no choice to make."""

    __slots__ = ("_key",)

    def __init__(self, key: Key) -> None:
        self._key = key

    async def key_for(self, kid: str) -> Key:
        return self._key

    def close(self) -> None:
        pass


class JwksSource:
    """A key set that is read now and then."""

    __slots__ = (
        "_clock",
        "_closed",
        "_hub",
        "_keys",
        "_load",
        "_read_s",
        "_refresh_s",
        "_secrets",
        "_task",
        "_tried_s",
    )

    def __init__(
        self,
        hub: str,
        load: Callable[[], Awaitable[bytes]],
        clock: Clock,
        *,
        secrets_allowed: bool,
        refresh_s: float,
    ) -> None:
        """Prepare a source; nothing is read yet.

        Args:
            hub: for the log only.
            load: returns the set's JSON text or raises ArautoError or OSError.
            clock: tells how old the keys are.
            secrets_allowed: see `keys_from_jwks`.
            refresh_s: age after which the set is read again.
        """
        self._hub = hub
        self._load = load
        self._clock = clock
        self._secrets = secrets_allowed
        self._refresh_s = refresh_s
        self._keys: dict[str, Key] = {}
        self._read_s = -STALE_MAX_S
        self._tried_s: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def key_for(self, kid: str) -> Key:
        if not self._keys or self._age_s() >= self._refresh_s:
            await self._refresh()
        key = self._find(kid)
        if key is None and kid:
            await self._refresh()
            key = self._find(kid)
        if not self._keys or self._age_s() >= STALE_MAX_S or self._closed:
            raise ArautoError(Code.AUTH_UNAVAILABLE, "the hub's token keys could not be read")
        if key is None:
            raise TokenError("kid-unknown")
        return key

    def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._read_s

    def _find(self, kid: str) -> Key | None:
        if kid:
            return self._keys.get(kid)
        # A token that names no key is only clear where there is one key.
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _refresh(self) -> None:
        """Read the set, or wait for the reading under way, or do nothing if one ended just now."""
        if self._task is None:
            now_s = self._clock.monotonic_s()
            if self._closed or (self._tried_s is not None and now_s - self._tried_s < RETRY_S):
                return
            self._tried_s = now_s
            self._task = asyncio.get_running_loop().create_task(self._read(), name="arauto-jwks")
        # `wait` leaves the task alone when a caller is cancelled: others may be waiting for it too.
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        try:
            keys = keys_from_jwks(await self._load(), secrets_allowed=self._secrets)
        except ArautoError as error:
            # Its text is ours and names a rule, never a value.
            _log.warning("jwks read failed", hub=self._hub, reason=str(error), keys=len(self._keys))
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
            _log.warning("jwks read failed", hub=self._hub, reason=type(error).__name__)
        else:
            self._keys = keys
            self._read_s = self._clock.monotonic_s()
        finally:
            self._task = None


async def read_key_file(path: str) -> bytes:
    """Return a small regular file's content, read outside the event loop.

    Raises:
        OSError: it cannot be read, is not a regular file or is too large.
    """
    return await asyncio.to_thread(_read_regular, path)


def _read_regular(path: str) -> bytes:
    # Opened without blocking: a named pipe in the file's place would hold the thread for ever.
    descriptor = os.open(Path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        data = file.read(JWKS_BYTES_MAX + 1)
    if len(data) > JWKS_BYTES_MAX:
        raise OSError("file too large")
    return data
