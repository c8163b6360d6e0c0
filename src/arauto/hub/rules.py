"""Which rules apply to a channel. Pure: a snapshot of a hub's settings in, a decision out."""

import hashlib

import msgspec

from arauto.model import When
from arauto.names import is_pattern, is_topic, literal_prefix, matches, namespace_of
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules

__all__ = ["HubState"]

_MEMO_MAX = 10_000
_encode = msgspec.json.Encoder(order="deterministic").encode


class HubState:
    """Everything an administrator has set on one hub, at one moment. Immutable but for its memo.

    Precedence: the channel's own rules, then its namespace's, then the hub's default rules, then the
    built-in rules. The winner applies whole. A setting that names rules that do not exist is passed over,
    so that deleting rules falls back to the next level instead of opening or breaking channels.
    """

    __slots__ = ("_builtin", "_memo", "channels", "is_set_up", "namespaces", "rules", "settings")

    def __init__(
        self,
        settings: HubSettings,
        rules: dict[str, Rules],
        namespaces: dict[str, NamespaceSettings],
        channels: dict[str, ChannelSettings],
        builtin: Rules,
        *,
        is_set_up: bool = True,
    ) -> None:
        self.is_set_up = is_set_up
        """Whether an administrator has set anything; else the hub is whatever name somebody made up."""
        self.settings = settings
        self.rules = rules
        self.namespaces = namespaces
        self.channels = channels
        self._builtin = builtin
        self._memo: dict[str, Rules] = {}

    def same_as(self, other: "HubState") -> bool:
        """Whether both hold the same settings, made by the same hand."""
        return (
            self.is_set_up == other.is_set_up
            and self.settings == other.settings
            and self.rules == other.rules
            and self.namespaces == other.namespaces
            and self.channels == other.channels
        )

    def resolve_rules(self, channel: str) -> Rules:
        """The rules of a channel (or of a pattern, by its namespace)."""
        found = self._memo.get(channel)
        if found is None:
            found = self._resolve(channel)
            if len(self._memo) >= _MEMO_MAX:
                self._memo.clear()
            self._memo[channel] = found
        return found

    def stores_all(self, pattern: str) -> bool:
        """Whether every channel that a pattern or topic can cover stores all its messages."""
        own = [name for name in self.channels if matches(pattern, name)]
        # What any other channel it covers goes by: its namespace's rules, or those of a namespace not
        # named here.
        namespace, colon, _ = literal_prefix(pattern).partition(":")
        if is_topic(pattern):
            others = [pattern]
        elif colon:
            others = [f"{namespace}:"]
        else:
            others = ["", *(f"{name}:" for name in self.namespaces)]
        return all(self._resolve(name).store is When.ALL for name in (*own, *others))

    @property
    def may_store_all(self) -> bool:
        """Whether any channel can be one that stores all its messages."""
        return self._builtin.store is When.ALL or any(
            rules.store is When.ALL for rules in self.rules.values()
        )

    def fingerprint(self) -> bytes:
        """Equal for equal settings, and hardly otherwise."""
        parts = (self.settings, self.rules, self.namespaces, self.channels, self._builtin)
        return hashlib.sha256(_encode(parts)).hexdigest().encode()

    def _resolve(self, channel: str) -> Rules:
        own = self.channels.get(channel)
        if own is not None and own.rules in self.rules:
            return self.rules[own.rules]
        namespace = namespace_of(channel)
        bound = None if is_pattern(namespace) else self.namespaces.get(namespace)
        if bound is not None and bound.rules in self.rules:
            return self.rules[bound.rules]
        base = self.rules.get(self.settings.default_rules, self._builtin)
        return _for_topic(channel, self._with_default_public(namespace, base))

    def _with_default_public(self, namespace: str, rules: Rules) -> Rules:
        # A hub-wide default never opens the channels of single users.
        settings = self.settings
        private = settings.user_channel and namespace == settings.user_channel_namespace
        if private and rules.public:
            return _changed(rules, public=False)
        if settings.default_public and not rules.public and not private:
            return _changed(rules, public=True)
        return rules


def _for_topic(channel: str, rules: Rules) -> Rules:
    # A topic gives its last message to each new subscriber, unless an administrator chose otherwise.
    if is_topic(channel) and rules.retain is When.MARKED:
        return _changed(rules, retain=When.ALL)
    return rules


def _changed(rules: Rules, *, public: bool | None = None, retain: When | None = None) -> Rules:
    fields = {name: getattr(rules, name) for name in Rules.__struct_fields__}
    if public is not None:
        fields["public"] = public
    if retain is not None:
        fields["retain"] = retain
    return Rules(**fields)
