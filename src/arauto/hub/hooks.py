"""How features attach to channels. A hook nobody overrides costs nothing on the path.

A feature is one small object per channel that has it. It sees what happens through the `on_…` hooks and
acts through the channel. Features do not know each other and combine freely; their order is that of the
registry. Every feature can export its state as bytes and import it again, for handover and replication.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from mypy_extensions import mypyc_attr

from arauto.model import Message, Serial
from arauto.settings import Rules
from arauto.storage.base import Done, HistoryQuery

if TYPE_CHECKING:
    from arauto.hub.channel import Channel
    from arauto.hub.outbox import Outbox
    from arauto.hub.subscriber import Subscriber

__all__ = ["Committer", "Feature", "FeatureSpec", "Recent", "Resumed", "overrides"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Feature:
    """The base of all features: every hook does nothing.

    Hooks run on the event loop and must not block; whatever needs storage goes through its ports.
    """

    __slots__ = ("channel",)

    name: ClassVar[str]

    def __init__(self, channel: "Channel") -> None:
        self.channel = channel

    async def on_open(self) -> None:
        """Before the channel serves anything. Only features that override this make opening wait."""

    def wants_every_message(self) -> bool:
        """Whether `on_message` matters for every message, or only for those marked `retain`."""
        return True

    def on_message(self, message: Message) -> None:
        """A message has its serial, is durable if it must be, and is about to be delivered."""

    def on_join(self, subscriber: "Subscriber") -> None:
        """About to join; not yet among those who receive what is broadcast now."""

    def on_welcome(self, subscriber: "Subscriber", *, recovered: bool) -> None:
        """Joined, and its subscribe reply is queued: send what a newcomer should know."""

    def greeting_len(self) -> int:
        """Of how many items a newcomer is told, where that may be many: it pays for them."""
        return 0

    def on_arrivals(self, subscribers: "Sequence[Subscriber]") -> None:
        """These are here and receive what is broadcast now, but have not been introduced: several joined at
        once, or the rules want this feature from now on."""
        for subscriber in subscribers:
            self.on_join(subscriber)
        for subscriber in subscribers:
            self.on_welcome(subscriber, recovered=True)

    def on_leave(self, subscriber: "Subscriber") -> None:
        """Has left; no longer among those who receive what is broadcast now."""

    def on_rules(self, rules: Rules) -> None:
        """The channel's rules changed and still want this feature."""

    def on_close(self) -> None:
        """The channel closes or its rules no longer want this feature."""

    def is_due_to(self, outbox: "Outbox") -> bool:
        """Whether this connection is still here to be told, and by this feature: for what goes out later."""
        channel = self.channel
        return channel.feature(self.name) is self and channel.catch_up(outbox)

    def export_state(self) -> bytes:
        """The feature's state, for another node. Empty if it has none worth moving."""
        return b""

    def import_state(self, state: bytes) -> None:
        """Take over a state that `export_state` of the same feature wrote."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Recent(Feature):
    """A feature that remembers recent messages and can replay them: live history."""

    __slots__ = ()

    @property
    def floor(self) -> int:
        """Every message of the epoch with a larger offset is remembered."""
        raise NotImplementedError

    def after(self, offset: int) -> Sequence[Message]:
        """The remembered messages with a larger offset, in order."""
        raise NotImplementedError

    def within(self, query: HistoryQuery) -> Iterator[Message]:
        """The remembered messages in a range of places and times, in its direction, expired ones too. What
        lies outside is not looked at. Nothing may be added or removed meanwhile."""
        raise NotImplementedError

    def offset_at(self, ms: int) -> int | None:
        """The offset of the last message up to that time; None if it is no longer remembered which it was."""
        raise NotImplementedError

    @property
    def oldest_ms(self) -> int:
        """The time of the oldest message that is remembered; only asked if there is one."""
        raise NotImplementedError

    def drop_oldest(self) -> None:
        """Forget the oldest message, for the hub needs the room; only asked if there is one."""
        raise NotImplementedError

    def restart(self, offset: int) -> None:
        """A new epoch begins, or resumes at `offset`: forget what came before."""
        raise NotImplementedError

    def resume(self, last: Serial, latest: Sequence[Message]) -> None:
        """An epoch goes on from `last`; these are the latest stored messages, those of others too."""
        same = [message for message in latest if message.epoch == last.epoch]
        self.restart(same[0].offset - 1 if same else last.offset)
        for message in same:
            self.on_message(message)


class Resumed(NamedTuple):
    """What the store knows of a channel that opens."""

    last: Serial
    ts_ms: int
    """The time of the last message."""
    latest: Sequence[Message]
    """The latest messages, oldest first."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Committer(Feature):
    """A feature that makes messages durable before they are delivered: store."""

    __slots__ = ()

    def wants(self, marked: bool) -> bool:
        """Whether a message, marked or not, is to be committed."""
        raise NotImplementedError

    def commit(self, message: Message, done: Done) -> None:
        """Write it; `done` is called in call order."""
        raise NotImplementedError

    @property
    def commits_all(self) -> bool:
        """Whether every message is committed, so that the store alone can prove completeness."""
        raise NotImplementedError

    async def resume(self) -> Resumed | None:
        """Where the stored messages end; None if there are none."""
        raise NotImplementedError


class FeatureSpec:
    """A registry line: which rules want the feature, and how it is made."""

    __slots__ = ("build", "name", "wanted")

    def __init__(
        self,
        name: str,
        wanted: Callable[[Rules], bool],
        build: "Callable[[Channel], Feature]",
    ) -> None:
        self.name = name
        self.wanted = wanted
        self.build = build


def overrides(feature: Feature, hook: str) -> bool:
    """Whether the feature does anything in that hook."""
    return getattr(type(feature), hook) is not getattr(Feature, hook)
