"""Store: (marked) messages are durable before they are delivered, and can be read back later."""

from typing import TYPE_CHECKING

import msgspec

from arauto.hub.hooks import Committer, FeatureSpec, Resumed
from arauto.model import Direction, Message, Serial, When
from arauto.storage.base import Done, HistoryQuery, JournalEntry

if TYPE_CHECKING:
    from arauto.hub.channel import Channel

__all__ = ["SPEC", "Store"]

_RESUME_LEN_MAX = 1_000
#: Messages searched for keys when a channel opens: as many as the window can hold.
_KEYS_LEN_MAX = 10_000
_PAGE_LEN = 250
#: As the time of a query: nothing has expired yet.
_EXPIRED_TOO = 0


class Store(Committer):
    """Appends to the node's journal, which is also the store of messages."""

    __slots__ = ("_when",)

    name = "store"

    def __init__(self, channel: "Channel") -> None:
        super().__init__(channel)
        self._when = channel.rules.store

    def on_rules(self, rules: object) -> None:
        self._when = self.channel.rules.store

    def wants(self, marked: bool) -> bool:
        return marked or self._when is When.ALL

    @property
    def commits_all(self) -> bool:
        return self._when is When.ALL

    def commit(self, message: Message, done: Done) -> None:
        store_s = self.channel.rules.store_s
        if store_s:
            expires_ms = message.ts_ms + int(store_s * 1000)
            if not message.expires_ms or expires_ms < message.expires_ms:
                message = msgspec.structs.replace(message, expires_ms=expires_ms)
        self.channel.env.storage.journal.append(JournalEntry.of_message(message), done)

    async def resume(self) -> Resumed | None:
        channel = self.channel
        last = await channel.env.storage.journal.last(channel.hub.name, channel.name)
        if last is None:
            return None
        limit = min(max(channel.rules.live_history_len, 1), _RESUME_LEN_MAX)
        latest = await self._page(None, limit, channel.env.clock.wall_ms())
        return Resumed(last.serial, last.ts_ms, latest[::-1], await self._keys())

    async def _keys(self) -> list[tuple[str, str, Serial, int]]:
        """The keys that a retry may still name, oldest first.

        Without them a publisher whose acknowledgements were lost in a crash would be heard twice. That
        a message has expired changes nothing: it was delivered, and must not be again.
        """
        window_ms = int(self.channel.rules.idempotency_s * 1000)
        oldest_ms = self.channel.env.clock.wall_ms() - window_ms
        keys: list[tuple[str, str, Serial, int]] = []
        left = _KEYS_LEN_MAX
        page = await self._page(None, _PAGE_LEN, _EXPIRED_TOO)
        while page and left > 0:
            left -= len(page)
            keys += [(m.user, m.id, m.serial, m.ts_ms) for m in page if m.id]
            if page[-1].ts_ms <= oldest_ms or len(page) < _PAGE_LEN:
                break
            page = await self._page(page[-1].serial, min(_PAGE_LEN, max(left, 1)), _EXPIRED_TOO)
        keys.reverse()
        return keys

    async def _page(self, until: Serial | None, limit: int, now_ms: int) -> list[Message]:
        """Stored messages before a place, latest first, without those expired at `now_ms`."""
        channel = self.channel
        query = HistoryQuery(
            hub=channel.hub.name,
            channel=channel.name,
            now_ms=now_ms,
            until=until,
            limit=limit,
            direction=Direction.BACKWARD,
        )
        return await channel.env.storage.journal.history(query)


SPEC = FeatureSpec(Store.name, lambda rules: rules.store is not When.NEVER, Store)
