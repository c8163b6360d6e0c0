"""The idempotency keys that the store still knows, for channels that open.

A publisher whose acknowledgements were lost in a crash sends everything again, and must not be heard twice.
Whether a channel stores what is published now says nothing of what was stored under the rules before, so
every channel has to know. But one that stores nothing is not to ask the store each time it opens: so a hub
that opens asks once which channels were stored to lately. While it is open they keep their keys themselves;
where some may be asked for older ones than they kept, since keys hold for longer by new rules, it asks again.
"""

from typing import TYPE_CHECKING

from arauto.hub.sender import scope_of
from arauto.model import Direction, Message, Serial
from arauto.storage.base import HistoryQuery

if TYPE_CHECKING:
    from arauto.hub.environment import Environment
    from arauto.hub.rules import HubState

__all__ = ["StoredKeys"]

#: Messages searched for keys when a channel opens: as many as its window can hold.
_KEYS_LEN_MAX = 10_000
_PAGE_LEN = 250
#: Channels looked at when a hub opens. If the store has more, each that opens asks for itself.
_CHANNELS_MAX = 10_000
_NAMES = ("", "\U0010ffff")
#: As the time of a query: nothing has expired yet.
_EXPIRED_TOO = 0


class StoredKeys:
    """Which channels of one hub have such keys, and the keys."""

    __slots__ = ("_channels", "_env", "_hub", "_over_ms")

    def __init__(self, hub: str, env: "Environment") -> None:
        self._hub = hub
        self._env = env
        self._channels: dict[str, None] | None = {}
        """Those that were stored to lately when it was asked; None if they were not all looked at."""
        self._over_ms = 0
        """When all those keys are over."""

    async def load(self, window_s: float) -> None:
        """Find out which channels have any, with rules that remember keys for so long at most.

        Raises:
            StorageError: the store could not be read.
        """
        if window_s <= 0:
            return
        now_ms, window_ms = self._env.clock.wall_ms(), int(window_s * 1000)
        found = await self._env.storage.journal.places(
            self._hub, _NAMES, now_ms - window_ms, scan_len=_CHANNELS_MAX
        )
        self._channels = None if found is None else dict.fromkeys(found)
        self._over_ms = now_ms + window_ms

    async def prepare(self, now: "HubState", soon: "HubState") -> None:
        """These settings are about to be in force.

        Raises:
            StorageError: the store could not be read; they must not be used yet.
        """
        if soon.idempotency_s_max > min(_windows(now)):
            await self.load(soon.idempotency_s_max)

    def may_know(self, channel: str) -> bool:
        """Whether the store may have keys of a channel that opens and stores nothing."""
        if self._channels is not None and channel not in self._channels:
            return False
        if self._env.clock.wall_ms() < self._over_ms:
            return True
        self._channels = {}
        return False

    async def read(self, channel: str, window_s: float) -> list[tuple[str, str, Serial, int]]:
        """(scope, key, serial, time) of those that a retry may still name, oldest first. That a message has
        expired changes nothing: it was delivered, and must not be again.

        Raises:
            StorageError: the store could not be read.
        """
        oldest_ms = self._env.clock.wall_ms() - int(window_s * 1000)
        keys: list[tuple[str, str, Serial, int]] = []
        left = _KEYS_LEN_MAX
        page = await self._page(channel, None, _PAGE_LEN)
        while page and left > 0:
            left -= len(page)
            keys += [(scope_of(m.user, m.origin), m.id, m.serial, m.ts_ms) for m in page if m.id]
            if page[-1].ts_ms <= oldest_ms or len(page) < _PAGE_LEN:
                break
            page = await self._page(channel, page[-1].serial, min(_PAGE_LEN, max(left, 1)))
        keys.reverse()
        return keys

    async def _page(self, channel: str, until: Serial | None, limit: int) -> list[Message]:
        """Stored messages before a place, latest first."""
        query = HistoryQuery(
            hub=self._hub,
            channel=channel,
            now_ms=_EXPIRED_TOO,
            until=until,
            limit=limit,
            direction=Direction.BACKWARD,
        )
        return await self._env.storage.journal.history(query)


def _windows(state: "HubState") -> list[float]:
    """For how long any channel may remember keys."""
    return [rules.idempotency_s for rules in (state.builtin, *state.rules.values())]
