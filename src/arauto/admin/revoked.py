"""Revocations that outlive the process: else a restart would let in whoever was shut out before it."""

from arauto.clock import Clock
from arauto.session.auth.claims import LIFETIME_MAX_S
from arauto.session.auth.revocations import Revocations
from arauto.storage.base import KeyValueStore

__all__ = ["RevokedUsers"]

#: Where they are kept. No hub can have this name.
_PLACE = "_revoked"
_USERS_MAX = 1_000_000


class RevokedUsers:
    """Writes revocations of users down, and takes them up again at the start."""

    def __init__(self, revocations: Revocations, kv: KeyValueStore, clock: Clock) -> None:
        self._revocations = revocations
        self._kv = kv
        self._clock = clock

    async def load(self) -> None:
        """Take up what earlier runs wrote down, oldest first."""
        found = []
        async for page in self._kv.scan(_PLACE, "", _USERS_MAX):
            for key, value in page:
                hub, _, user = key.partition(":")
                # What cannot be read was revoked all the same: until now.
                is_whole = value is not None and value.isdigit()
                at_ms = int(value or 0) if is_whole else self._clock.wall_ms()
                found.append((at_ms, hub, user))
        for at_ms, hub, user in sorted(found):
            self._revocations.remember_user(hub, user, at_ms)

    def revoke(self, hub: str, user: str) -> int:
        """Refuse the user's tokens and restore keys from now on; return when that was, for `keep`."""
        at_ms = self._clock.wall_ms()
        self._revocations.remember_user(hub, user, at_ms)
        return at_ms

    async def keep(self, hub: str, user: str, at_ms: int) -> None:
        """Write a revocation down for as long as a token can live.

        Raises:
            StorageError: it is in force, but ends with this process.
        """
        await self._kv.put(_PLACE, f"{hub}:{user}", str(at_ms).encode(), LIFETIME_MAX_S)
