"""Store: (marked) messages are durable before they are delivered, and can be read back later."""

from typing import TYPE_CHECKING

import msgspec

from arauto.hub.hooks import Committer, FeatureSpec, Resumed
from arauto.model import Direction, Message, When
from arauto.storage.base import Done, HistoryQuery, JournalEntry

if TYPE_CHECKING:
    from arauto.hub.channel import Channel

__all__ = ["SPEC", "Store"]

_RESUME_LEN_MAX = 1_000


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
        query = HistoryQuery(
            hub=channel.hub.name,
            channel=channel.name,
            now_ms=channel.env.clock.wall_ms(),
            limit=min(max(channel.rules.live_history_len, 1), _RESUME_LEN_MAX),
            direction=Direction.BACKWARD,
        )
        latest = await channel.env.storage.journal.history(query)
        return Resumed(last.serial, last.ts_ms, latest[::-1])


SPEC = FeatureSpec(Store.name, lambda rules: rules.store is not When.NEVER, Store)
