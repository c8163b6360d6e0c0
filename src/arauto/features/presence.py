"""Presence: subscribers see who else is there."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from arauto.codec.events import Join, Leave, Presence
from arauto.hub.hooks import Feature, FeatureSpec
from arauto.hub.outbox import Outbox
from arauto.model import Member

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.subscriber import Subscriber

__all__ = ["SPEC", "PresenceFeature"]


#: A picture of so many is kept for the next who is shown it.
_SHARED_LEN = 16


class PresenceFeature(Feature):
    """The members of a channel, by session, in order of arrival.

    A newcomer gets a snapshot, the others a join; who leaves is announced to those who stay. After an owner
    has failed, sessions subscribe again at the new owner and so rebuild the list.
    """

    __slots__ = ("_members",)

    name = "presence"

    def __init__(self, channel: "Channel") -> None:
        super().__init__(channel)
        self._members: dict[str, Member] = {}

    def on_join(self, subscriber: "Subscriber") -> None:
        known = self._members.get(subscriber.id)
        member = subscriber.as_member(self.channel.env.clock.wall_ms())
        self._members[subscriber.id] = member
        self.channel.env.encodings.drop(self)
        if known is None:
            self.channel.broadcast(Join(channel=self.channel.name, member=member))

    def on_arrivals(self, subscribers: "Sequence[Subscriber]") -> None:
        # One picture for all, instead of everybody's arrival to everybody.
        now_ms = self.channel.env.clock.wall_ms()
        for each in subscribers:
            self._members[each.id] = each.as_member(now_ms)
        self.channel.env.encodings.drop(self)
        self.channel.broadcast(self.snapshot())

    def on_welcome(self, subscriber: "Subscriber", *, recovered: bool) -> None:
        subscriber.outbox.owe(self)

    def greeting_len(self) -> int:
        return min(len(self._members), self.channel.env.limits.presence_page_len)

    def owed_to(self, outbox: Outbox) -> bytes:
        """See `Debtor`."""
        if not self.is_due_to(outbox):
            return b""
        # Where very many come together, each is shown the same.
        encodings, format = self.channel.env.encodings, outbox.format
        data = encodings.find(self, format.name)
        if data is None:
            data = format.encode(self.snapshot())
            if len(self._members) >= _SHARED_LEN:
                encodings.keep(self, format.name, data)
        return data

    def on_leave(self, subscriber: "Subscriber") -> None:
        now = self.channel.hub.sessions.get(subscriber.id)
        if now is not None and now is not subscriber and self.channel.has(now):
            return  # who was lost is back, under the same id
        member = self._members.pop(subscriber.id, None)
        if member is not None:
            self.channel.env.encodings.drop(self)
            self.channel.broadcast(Leave(channel=self.channel.name, member=member))

    def on_close(self) -> None:
        self.channel.env.encodings.drop(self)

    def snapshot(self, id: int = 0) -> Presence:
        """Who is here, up to a page; the total is always right."""
        page_len = self.channel.env.limits.presence_page_len
        # Who joins a channel with very many pays for what is shown, not for all.
        page = tuple(islice(self._members.values(), page_len))
        return Presence(id=id, channel=self.channel.name, members=page, total=len(self._members))

    def export_state(self) -> bytes:
        return msgspec.msgpack.encode(list(self._members.values()))

    def import_state(self, state: bytes) -> None:
        members = msgspec.msgpack.decode(state, type=list[Member])
        self._members = {member.session: member for member in members}
        self.channel.env.encodings.drop(self)


SPEC = FeatureSpec(PresenceFeature.name, lambda rules: rules.presence, PresenceFeature)
