"""Session restore: what a session was, kept for a while under a key that works once.

The key goes to the client and is stored only as a hash, so that whoever reads the store cannot take up
sessions. `take` removes the state atomically: of two connections with the same key one wins. What a session
saves or forgets while its key is being taken concerns the state that is taken: it never comes after, to bring
a used key back to life.

What a hub's clients may have written like this is bounded: connections that drop and come back over and over,
with thousands of subscriptions each, would else keep the disk busy for everybody. A state that is not written
leaves none behind: its client is told that the key is worth nothing, and subscribes by name.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine
from typing import Any

import msgspec
import structlog

from arauto.clock import Clock
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.quota import TokenBucket
from arauto.model import Identity, Serial
from arauto.storage.base import KeyValueStore

__all__ = ["Restorer", "SessionState"]

_PREFIX = "restore:"
_KEY_LEN_MAX = 128
#: States looked at when one is to be found by its session.
_STATES_MAX = 10_000_000

#: So much of each state is free, which is all of most; the rest is what the bounds below are about.
_FREE_BYTES = 4_096
#: What a hub may have written at once, and what of it is forgiven per second.
_BURST_BYTES = 32 * 1_024 * 1_024
_BYTES_PER_S = 2 * 1_024 * 1_024
#: Keys remembered that are worth nothing though the store would not forget their states.
_DEAD_MAX = 100_000
#: Hubs remembered for that.
_HUBS_MAX = 10_000
_LINES_PER_S = 1

_log = structlog.get_logger("arauto.session")


class SessionState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """All that is needed to take a session up again. Read in full or not at all: what a newer version added
    may be what restricts the session, and a client whose key does not hold authenticates anew."""

    session: str
    identity: Identity
    subscriptions: dict[str, Serial | None]
    """By name, and where those that cover many channels began."""


class Restorer:
    """Keeps session states in the key-value store, per hub. One per node."""

    __slots__ = (
        "_clock",
        "_dead",
        "_due",
        "_kv",
        "_lines",
        "_taking",
        "_told",
        "_writing",
        "_written",
        "left_out",
        "ttl_s",
    )

    def __init__(self, kv: KeyValueStore, clock: Clock, ttl_s: float) -> None:
        self._kv = kv
        self._clock = clock
        self._due: dict[tuple[str, str], SessionState | None] = {}
        """What is about to be written: the newest state by hub and name; None = it is to be forgotten."""
        self._dead: dict[tuple[str, str], float] = {}
        """Keys that are worth nothing though the store may still have a state under them; until when."""
        self._taking: dict[tuple[str, str], list[str]] = {}
        """Of keys being taken: the sessions that were ended meanwhile; "" = all of the hub."""
        self._writing: dict[tuple[str, str], SessionState] = {}
        """What the store is putting down."""
        self._written: dict[str, tuple[float, float]] = {}
        """How many bytes a hub has had written that are not forgiven, and when that was."""
        self._lines = TokenBucket(_LINES_PER_S, clock.monotonic_s())
        self._told = 0
        self.ttl_s = ttl_s
        self.left_out = 0
        """States that were not written."""

    def save(self, hub: str, key: str, state: SessionState) -> Coroutine[Any, Any, None]:
        """Keep the state under the key. That counts from this call on; what it returns writes it."""
        return self._change((hub, _name(key)), state)

    def forget(self, hub: str, key: str) -> Coroutine[Any, Any, None]:
        """Let the key be worth nothing, from this call on; what it returns writes it."""
        return self._change((hub, _name(key)), None)

    async def take(self, hub: str, key: str) -> SessionState:
        """Return the newest state and forget it. While the store is asked the key is nobody else's; if
        it fails to answer, the state stays.

        Raises:
            ArautoError: BAD_RESTORE_KEY; TOKEN_EXPIRED if the identity is no longer valid; StorageError.
        """
        if not 0 < len(key) <= _KEY_LEN_MAX:
            raise _bad_key()
        place = (hub, _name(key))
        if place in self._taking or place in self._dead:
            raise _bad_key()
        ended = self._taking[place] = []
        try:
            data = await self._kv.take(*place)
        except BaseException:
            del self._taking[place]
            await self._write(place)
            raise
        del self._taking[place]
        state = self._due.pop(place) if place in self._due else _read(data)
        if state is None or state.session in ended or "" in ended:
            raise _bad_key()
        expires_ms = state.identity.expires_ms
        if expires_ms and expires_ms <= self._clock.wall_ms():
            raise ArautoError(Code.TOKEN_EXPIRED, "the session's authentication has expired")
        return state

    async def end(self, hub: str, session: str = "") -> bool:
        """Forget what waits for the client of a lost session, "" = of every one of the hub; whether
        anything did. Looks at all that waits in the hub: for administrators.

        Raises:
            StorageError: some of it may still wait.
        """
        for place, ended in self._taking.items():
            if place[0] == hub:
                ended.append(session)
        waiting = self._waiting(hub, session)
        for place in waiting:
            self._due.pop(place, None)
        # The store may not show yet what is on its way.
        await asyncio.gather(*(self._kv.delete(*place) for place in waiting))
        has_ended = bool(waiting)
        async for page in self._kv.scan(hub, _PREFIX, _STATES_MAX):
            names = [name for name, data in page if not session or _is_of(session, data)]
            await asyncio.gather(*(self._kv.delete(hub, name) for name in names))
            has_ended = has_ended or bool(names)
        return has_ended

    def _waiting(self, hub: str, session: str) -> list[tuple[str, str]]:
        """Where there will be a state that is saved and not yet in the store."""
        states = [*self._due.items(), *self._writing.items()]
        return [
            place
            for place, state in states
            if place[0] == hub and state is not None and session in ("", state.session)
        ]

    def _change(
        self, place: tuple[str, str], state: SessionState | None
    ) -> Coroutine[Any, Any, None]:
        self._due[place] = state
        return self._write(place)

    async def _write(self, place: tuple[str, str]) -> None:
        if place not in self._due or place in self._taking:
            return  # it was written with a later change, or is taken
        state = self._due.pop(place)
        if state is None:
            await self._delete(place)
        else:
            self._dead.pop(place, None)
            self._writing[place] = state
            try:
                await self._put(place, msgspec.msgpack.encode(state))
            finally:
                if self._writing.get(place) is state:
                    del self._writing[place]
        if self._dead:
            await self._delete_one_more()

    async def _delete(self, place: tuple[str, str]) -> None:
        # It counts from here on, whether the store will or not.
        self._dead[place] = self._clock.monotonic_s() + self.ttl_s
        if len(self._dead) > _DEAD_MAX:
            del self._dead[next(iter(self._dead))]
        await self._kv.delete(*place)
        self._dead.pop(place, None)

    async def _delete_one_more(self) -> None:
        """The store may have changed its mind."""
        place, until_s = next(iter(self._dead.items()))
        if until_s < self._clock.monotonic_s():
            del self._dead[place]  # the store has forgotten it by itself
            return
        with contextlib.suppress(StorageError):
            await self._kv.delete(*place)
            self._dead.pop(place, None)

    async def _put(self, place: tuple[str, str], data: bytes) -> None:
        hub = place[0]
        try:
            if self._may_write(hub, len(data) - _FREE_BYTES):
                await self._kv.put(*place, data, self.ttl_s)
                return
            self._tell(hub, "the hub has too much of it written")
        except StorageError as error:
            self._tell(hub, error.message)
        # What an earlier change left there may give its client more than it had in the end.
        with contextlib.suppress(StorageError):  # its failure is told already
            await self._delete(place)

    def _may_write(self, hub: str, size_bytes: int) -> bool:
        if size_bytes <= 0:
            return True
        now_s = self._clock.monotonic_s()
        written_bytes, at_s = self._written.pop(hub, (0.0, now_s))
        written_bytes = max(0.0, written_bytes - (now_s - at_s) * _BYTES_PER_S)
        may = written_bytes + size_bytes <= _BURST_BYTES
        self._written[hub] = (written_bytes + size_bytes * may, now_s)
        if len(self._written) > _HUBS_MAX:
            del self._written[next(iter(self._written))]
        return may

    def _tell(self, hub: str, reason: str) -> None:
        self.left_out += 1
        if self._lines.take(self._clock.monotonic_s()):
            count, self._told = self.left_out - self._told, self.left_out
            _log.warning("states of sessions were not kept", hub=hub, reason=reason, count=count)


def _read(data: bytes | None) -> SessionState | None:
    try:
        return msgspec.msgpack.decode(data or b"", type=SessionState)
    except msgspec.MsgspecError:
        return None


def _is_of(session: str, data: bytes | None) -> bool:
    state = _read(data)
    return state is not None and state.session == session


def _name(key: str) -> str:
    return _PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _bad_key() -> ArautoError:
    return ArautoError(
        Code.BAD_RESTORE_KEY, "the restore key is unknown, already used or too old", field="key"
    )
