"""What a session receives from its patterns' channels, once it has become someone else.

A pattern may cover very many channels, and each has to be asked. That is done in steps, so that others get
their turn; who changes again meanwhile is asked for as who it is then.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from arauto.hub.environment import MATCHING_PER_TOKEN
from arauto.hub.name_index import SLICE_LEN
from arauto.hub.subscriber import Subscriber
from arauto.names import is_wide

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["reconsider"]


def reconsider(
    hub: "Hub", subscriber: Subscriber, held: Sequence[str], *, renamed: bool
) -> Generator[None, None, int]:
    """A session became someone else and still holds these subscriptions: its patterns deliver what the new
    identity may read, and the others see who it is now, if that is `renamed`. What it comes to is how many
    channels of patterns were looked at.
    """
    looked_len = 0
    own = dict.fromkeys(name for name in held if name in hub.channels)
    for name in own:
        if hub.env.trying.is_spent:
            yield
        _look_at(hub, name, subscriber, "", renamed=renamed)
    for pattern in filter(is_wide, held):
        after = ""
        while not subscriber.outbox.closed:
            names, after = hub.names.page(pattern, after, SLICE_LEN)
            for name in names:
                if name in own:
                    continue
                if hub.env.trying.is_spent:
                    yield
                _look_at(hub, name, subscriber, pattern, renamed=renamed)
            looked_len += len(names)
            if not after:
                break
            yield
    return looked_len


def _look_at(hub: "Hub", name: str, subscriber: Subscriber, by: str, *, renamed: bool) -> None:
    channel = hub.channels.get(name)
    if channel is None or subscriber.outbox.closed:
        return  # gone meanwhile
    before = hub.patterns.effort
    leading = hub.patterns.match(name)
    hub.env.trying.spend((hub.patterns.effort - before) / MATCHING_PER_TOKEN)
    patterns = tuple(pattern for pattern, holders in leading if subscriber in holders)
    if by and patterns and patterns[0] != by:
        return  # another one leads there too, and has its turn: once is enough
    was_here = channel.has(subscriber)
    channel.set_patterns(subscriber, patterns)
    if renamed and was_here and channel.has(subscriber):
        channel.reintroduce(subscriber)
