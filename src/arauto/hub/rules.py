"""Which rules apply to a channel. Pure: a snapshot of a hub's settings in, a decision out."""

from collections.abc import Iterator

from arauto.hub.keeping import Kept
from arauto.model import When
from arauto.names import is_pattern, is_topic, is_wide, literal_prefix, matches, namespace_of
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules

__all__ = ["HubState"]

_NAMESPACES_MAX = 1_000


class HubState:
    """Everything an administrator has set on one hub, at one moment. Immutable but for its memo.

    Precedence: the channel's own rules, then its namespace's, then the hub's default rules, then the
    built-in rules. The winner applies whole. A setting that names rules that do not exist is passed over,
    so that deleting rules falls back to the next level instead of opening or breaking channels.
    """

    __slots__ = ("_memo", "builtin", "channels", "is_set_up", "namespaces", "rules", "settings")

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
        self.builtin = builtin
        self._memo: dict[tuple[str, bool], Rules] = {}
        """What goes for the channels of a namespace, and for the topics, that have no rules of their own."""

    def same_as(self, other: "HubState") -> bool:
        """Whether both hold the same settings, made by the same hand."""
        return (
            self.is_set_up == other.is_set_up
            and self.settings == other.settings
            and self.rules == other.rules
            and self.namespaces == other.namespaces
            and self.channels == other.channels
            and self.builtin == other.builtin
        )

    def resolve_rules(self, channel: str) -> Rules:
        """The rules of a channel (or of a pattern, by its namespace): one object for all they apply to."""
        own = self.channels.get(channel)
        if own is not None and own.rules in self.rules:
            return self.rules[own.rules]
        key = namespace_of(channel), is_topic(channel)
        found = self._memo.get(key)
        if found is None:
            if len(self._memo) >= _NAMESPACES_MAX:
                self._memo.clear()
            found = self._memo[key] = self._of_namespace(*key)
        return found

    def stores_all(self, pattern: str) -> bool:
        """Whether every channel that a pattern or topic can cover stores all its messages."""
        return all(self.resolve_rules(name).store is When.ALL for name in self.kinds_of(pattern))

    def stored(self, pattern: str) -> frozenset[When]:
        """Which messages are stored by the channels that a name, pattern or topic can cover."""
        names = self.kinds_of(pattern) if is_wide(pattern) else (pattern,)
        return frozenset(self.resolve_rules(name).store for name in names)

    def kinds_of(self, pattern: str) -> Iterator[str]:
        """A name for each of the rules that channels go by which a pattern or topic can cover. No channel can
        be called as what stands for many."""
        yield from (name for name in self.channels if matches(pattern, name))
        # What any other channel it covers goes by: its namespace's rules, or those of a namespace not
        # named here.
        prefix = literal_prefix(pattern)
        namespace, colon, _ = prefix.partition(":")
        if is_topic(pattern):
            yield "/*"
        elif colon:
            yield f"{namespace}:*"
        else:
            yield ""
            yield from (
                name for name in map("{}:*".format, self.namespaces) if name.startswith(prefix)
            )

    @property
    def may_store_all(self) -> bool:
        """Whether any channel can be one that stores all its messages."""
        return self.builtin.store is When.ALL or any(
            rules.store is When.ALL for rules in self.rules.values()
        )

    @property
    def idempotency_s_max(self) -> float:
        """The longest that any channel remembers keys."""
        return max(r.idempotency_s for r in (self.builtin, *self.rules.values()))

    def keeping(self) -> dict[str, Kept]:
        """How channels are stored: all (""), but for those of a namespace ("n:*"), but for single ones."""
        found = {"": _kept(self.rules.get(self.settings.default_rules, self.builtin))}
        for name in self.namespaces:
            found[f"{name}:*"] = _kept(self._of_namespace(name, topic=False))
        for name in self.channels:
            found[name] = _kept(self.resolve_rules(name))
        return found

    def _of_namespace(self, namespace: str, topic: bool) -> Rules:
        bound = None if is_pattern(namespace) else self.namespaces.get(namespace)
        if bound is not None and bound.rules in self.rules:
            return self.rules[bound.rules]
        base = self.rules.get(self.settings.default_rules, self.builtin)
        rules = self._with_default_public(namespace, base)
        # A topic gives its last message to each new subscriber, unless an administrator chose otherwise.
        if topic and rules.retain is When.MARKED:
            return _changed(rules, retain=When.ALL)
        return rules

    def _with_default_public(self, namespace: str, rules: Rules) -> Rules:
        # A hub-wide default never opens the channels of single users.
        settings = self.settings
        private = settings.user_channel and namespace == settings.user_channel_namespace
        if private and rules.public:
            return _changed(rules, public=False)
        if settings.default_public and not rules.public and not private:
            return _changed(rules, public=True)
        return rules


def _kept(rules: Rules) -> Kept:
    return rules.store, rules.store_s


def _changed(rules: Rules, *, public: bool | None = None, retain: When | None = None) -> Rules:
    fields = {name: getattr(rules, name) for name in Rules.__struct_fields__}
    if public is not None:
        fields["public"] = public
    if retain is not None:
        fields["retain"] = retain
    return Rules(**fields)
