"""Finds the subscriptions a delivery belongs to. Pure.

The node sends a message once per session, however many of its subscriptions match, and does not say
which; so the client matches again, with the same rules, and remembers the answer per channel.
"""

from collections.abc import Iterator

from arauto.client.subscription import Subscription
from arauto.errors import ArautoError, Code
from arauto.names import is_pattern, is_topic, matches

__all__ = ["Router"]

#: Channels whose subscriptions are remembered; when full the memory starts afresh.
_CACHE_LEN_MAX = 10_000


class Router:
    """The subscriptions of one client, by name, in the order they were made."""

    __slots__ = ("_cache", "_covering", "_named")

    def __init__(self) -> None:
        self._named: dict[str, Subscription] = {}
        self._covering: dict[str, Subscription] = {}
        """Those that cover more than their own name."""
        self._cache: dict[str, tuple[Subscription, ...]] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._named.values()))

    def __len__(self) -> int:
        return len(self._named)

    def get(self, name: str) -> Subscription | None:
        return self._named.get(name)

    def add(self, subscription: Subscription) -> None:
        """Take a subscription in.

        Raises:
            ArautoError: ALREADY_SUBSCRIBED; a client holds each name once, as a session does.
        """
        name = subscription.channel
        if name in self._named:
            raise ArautoError(
                Code.ALREADY_SUBSCRIBED,
                f"this client already subscribes to {name}",
                field="channel",
            )
        self._named[name] = subscription
        if is_pattern(name) or is_topic(name):
            self._covering[name] = subscription
        self._cache.clear()

    def remove(self, subscription: Subscription) -> bool:
        """Whether it was there."""
        name = subscription.channel
        if self._named.get(name) is not subscription:
            return False
        del self._named[name]
        self._covering.pop(name, None)
        self._cache.clear()
        return True

    def route(self, channel: str) -> tuple[Subscription, ...]:
        """The subscriptions a channel's deliveries belong to."""
        found = self._cache.get(channel)
        if found is not None:
            return found
        named = self._named.get(channel)
        found = tuple(
            subscription
            for name, subscription in self._covering.items()
            if subscription is not named and matches(name, channel)
        )
        if named is not None:
            found = (named, *found)
        if len(self._cache) >= _CACHE_LEN_MAX:
            self._cache.clear()
        self._cache[channel] = found
        return found
