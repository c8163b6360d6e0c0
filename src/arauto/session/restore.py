"""Session restore: what a session was, kept for a while under a key that works once.

The key goes to the client and is stored only as a hash, so that whoever reads the store cannot take up
sessions. `take` removes the state atomically: of two connections with the same key one wins.
"""

import hashlib

import msgspec

from arauto.clock import Clock
from arauto.errors import ArautoError, Code
from arauto.model import Identity, Serial
from arauto.storage.base import KeyValueStore

__all__ = ["Restorer", "SessionState"]

_KEY_LEN_MAX = 128


class SessionState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """All that is needed to take a session up again. Read in full or not at all: what a newer version added
    may be what restricts the session, and a client whose key does not hold authenticates anew."""

    session: str
    identity: Identity
    subscriptions: dict[str, Serial | None]
    """By name, and where those that cover many channels began."""


class Restorer:
    """Keeps session states in the key-value store, per hub."""

    __slots__ = ("_clock", "_kv", "ttl_s")

    def __init__(self, kv: KeyValueStore, clock: Clock, ttl_s: float) -> None:
        self._kv = kv
        self._clock = clock
        self.ttl_s = ttl_s

    async def save(self, hub: str, key: str, state: SessionState) -> None:
        await self._kv.put(hub, _name(key), msgspec.msgpack.encode(state), self.ttl_s)

    async def take(self, hub: str, key: str) -> SessionState:
        """Return the state and forget it.

        Raises:
            ArautoError: BAD_RESTORE_KEY; TOKEN_EXPIRED if the identity is no longer valid.
        """
        if not 0 < len(key) <= _KEY_LEN_MAX:
            raise _bad_key()
        data = await self._kv.take(hub, _name(key))
        if data is None:
            raise _bad_key()
        try:
            state = msgspec.msgpack.decode(data, type=SessionState)
        except msgspec.MsgspecError:
            raise _bad_key() from None
        expires_ms = state.identity.expires_ms
        if expires_ms and expires_ms <= self._clock.wall_ms():
            raise ArautoError(Code.TOKEN_EXPIRED, "the session's authentication has expired")
        return state

    async def forget(self, hub: str, key: str) -> None:
        await self._kv.delete(hub, _name(key))


def _name(key: str) -> str:
    return "restore:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _bad_key() -> ArautoError:
    return ArautoError(
        Code.BAD_RESTORE_KEY, "the restore key is unknown, already used or too old", field="key"
    )
