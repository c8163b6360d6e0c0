"""Presence: subscribers see who else is there."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from arauto.codec.events import Join, Leave, Presence
from arauto.hub.hooks import Feature, FeatureSpec
from arauto.model import Member

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.subscriber import Subscriber

__all__ = ["SPEC", "PresenceFeature"]


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
        if known is None:
            self.channel.broadcast(Join(channel=self.channel.name, member=member))

    def on_attach(self, subscribers: "Sequence[Subscriber]") -> None:
        # One picture for all, instead of everybody's arrival to everybody.
        now_ms = self.channel.env.clock.wall_ms()
        self._members = {each.id: each.as_member(now_ms) for each in subscribers}
        self.channel.broadcast(self.snapshot())

    def on_welcome(self, subscriber: "Subscriber", *, recovered: bool) -> None:
        subscriber.outbox.send(self.snapshot())

    def on_leave(self, subscriber: "Subscriber") -> None:
        member = self._members.pop(subscriber.id, None)
        if member is not None:
            self.channel.broadcast(Leave(channel=self.channel.name, member=member))

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


SPEC = FeatureSpec(PresenceFeature.name, lambda rules: rules.presence, PresenceFeature)
