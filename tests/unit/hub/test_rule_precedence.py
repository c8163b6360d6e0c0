"""Which rules a channel gets: its own, then its namespace's, then the hub's, then the built-in ones."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.hub.keeping import Keeping
from arauto.hub.rules import HubState
from arauto.model import When
from arauto.names import is_wide, matches, namespace_of
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Quotas, Rules
from tests.unit.hub.world import World

BUILTIN = Rules(live_history_len=1)
NAMED = {name: Rules(live_history_len=10 + index) for index, name in enumerate("abc")}

rule_ids = st.sampled_from(["a", "b", "c", "gone", ""])
names = st.sampled_from(["x", "n:x", "n:y", "m:x", "u:ann", "n", "n:x:y", ":x", "/t", "/n:x"])


@st.composite
def states(draw: st.DrawFn) -> HubState:
    return HubState(
        HubSettings(
            default_rules=draw(rule_ids),
            default_public=draw(st.booleans()),
            user_channel=draw(st.booleans()),
        ),
        {name: NAMED[name] for name in draw(st.sets(st.sampled_from("abc")))},
        {
            name: NamespaceSettings(rules=rules)
            for name, rules in draw(
                st.dictionaries(st.sampled_from(["n", "m", "u", ""]), rule_ids)
            ).items()
        },
        {
            name: ChannelSettings(rules=rules)
            for name, rules in draw(st.dictionaries(names, rule_ids)).items()
        },
        BUILTIN,
    )


def chosen_literally(state: HubState, channel: str) -> Rules:
    """The specification, one question after the other."""
    candidates = []
    if channel in state.channels:
        candidates.append(state.channels[channel].rules)
    if namespace_of(channel) in state.namespaces:
        candidates.append(state.namespaces[namespace_of(channel)].rules)
    candidates.append(state.settings.default_rules)
    for id in candidates:
        if id in state.rules:
            return state.rules[id]
    return state.builtin


@given(states(), names)
def test_the_most_specific_rules_that_exist_win_whole(state: HubState, channel: str) -> None:
    found = state.resolve_rules(channel)
    assert found.live_history_len == chosen_literally(state, channel).live_history_len


@given(states(), st.lists(names, max_size=8))
def test_a_decision_does_not_depend_on_earlier_ones(state: HubState, asked: list[str]) -> None:
    fresh = HubState(state.settings, state.rules, state.namespaces, state.channels, state.builtin)
    for channel in asked:
        state.resolve_rules(channel)
    assert all(state.resolve_rules(name) == fresh.resolve_rules(name) for name in reversed(asked))
    assert state.same_as(fresh)


@given(states())
def test_a_hub_wide_default_never_opens_the_channels_of_single_users(state: HubState) -> None:
    explicit = "u:ann" in state.channels or "u" in state.namespaces
    if state.settings.user_channel and not explicit:
        assert not state.resolve_rules("u:ann").public


def test_default_public_opens_channels_without_rules_of_their_own_and_no_others() -> None:
    state = HubState(
        HubSettings(default_public=True),
        {"closed": Rules(public=False)},
        {"vip": NamespaceSettings(rules="closed")},
        {},
        Rules(),
    )
    assert state.resolve_rules("news").public
    assert not state.resolve_rules("vip:1").public


def test_deleting_rules_falls_back_to_the_next_level() -> None:
    namespaces = {"n": NamespaceSettings(rules="n-rules")}
    channels = {"n:x": ChannelSettings(rules="x-rules")}
    rules = {"n-rules": Rules(live_history_len=2), "x-rules": Rules(live_history_len=3)}
    lengths = []
    for known in (rules, {"n-rules": rules["n-rules"]}, {}):
        state = HubState(HubSettings(), known, namespaces, channels, BUILTIN)
        lengths.append(state.resolve_rules("n:x").live_history_len)
    assert lengths == [3, 2, 1]


@pytest.mark.parametrize("name", ["u:*", "u:#", "u:ann"])
def test_a_pattern_over_user_channels_is_as_private_as_they_are(name: str) -> None:
    state = HubState(HubSettings(default_public=True), {}, {}, {}, Rules())
    assert not state.resolve_rules(name).public


def test_a_topic_retains_its_last_message_unless_an_administrator_chose_otherwise() -> None:
    state = HubState(
        HubSettings(),
        {"plain": Rules(retain=When.MARKED), "never": Rules(retain=When.NEVER)},
        {},
        {"/own": ChannelSettings(rules="plain")},
        Rules(),
    )
    assert state.resolve_rules("/any").retain is When.ALL
    assert state.resolve_rules("/own").retain is When.MARKED
    never = HubState(HubSettings(default_rules="never"), state.rules, {}, {}, Rules())
    assert never.resolve_rules("/any").retain is When.NEVER


def test_channels_that_rules_apply_to_alike_share_them() -> None:
    state = HubState(HubSettings(default_public=True), {}, {}, {}, BUILTIN)
    for names in (("a", "b"), ("n:a", "n:b:c"), ("/a", "/b/c")):
        first, second = map(state.resolve_rules, names)
        assert first is second


def test_what_is_remembered_of_past_decisions_is_bounded() -> None:
    state = HubState(HubSettings(), {}, {}, {}, Rules())
    for number in range(5_000):
        state.resolve_rules(f"made{number}:up")
    assert len(state._memo) <= 1_000


_STORED, _PLAIN = Rules(store=When.ALL), Rules()


def _set(
    settings: HubSettings | None = None,
    rules: dict[str, Rules] | None = None,
    namespaces: dict[str, str] | None = None,
    channels: dict[str, str] | None = None,
) -> HubState:
    return HubState(
        settings or HubSettings(),
        {"stored": _STORED} | (rules or {}),
        {name: NamespaceSettings(rules=bound) for name, bound in (namespaces or {}).items()},
        {name: ChannelSettings(rules=bound) for name, bound in (channels or {}).items()},
        _PLAIN,
    )


@pytest.mark.parametrize(
    "other",
    [
        _set(rules={"unused": Rules(store=When.ALL)}),
        _set(HubSettings(default_public=True)),
        _set(HubSettings(quotas=Quotas(messages_per_s=7))),
        _set(rules={"stored": Rules(store=When.ALL, presence=True)}),
        _set(namespaces={"n": "gone"}, channels={"c": "gone"}),
        _set(rules={"alike": Rules(live_history_len=5)}, namespaces={"n": "alike"}),
        _set(rules={"alike": Rules(public=True)}, channels={"n:c": "alike"}),
    ],
)
def test_what_a_hub_keeps_is_the_same_whatever_else_is_set(other: HubState) -> None:
    for state, later in ((_set(), other), (other, _set())):
        kept = Keeping(state.keeping(), 1).after(later.keeping(), 2)
        assert kept.since_ms(later.kinds_of("*")) == 1
        assert kept.encode() == Keeping(_set().keeping(), 1).encode()


@pytest.mark.parametrize(
    "other",
    [
        _set(HubSettings(default_rules="stored")),
        _set(namespaces={"n": "stored"}),
        _set(namespaces={"m": "stored"}),
        _set(channels={"n:c": "stored"}),
        _set(namespaces={"n": "stored"}, rules={"never": Rules()}, channels={"n:c": "never"}),
        _set(namespaces={"n": "stored"}, rules={"stored": Rules(store=When.ALL, store_s=60)}),
    ],
)
def test_what_a_hub_keeps_differs_where_a_channel_can_be_stored_otherwise(other: HubState) -> None:
    for state, later in ((_set(), other), (other, _set())):
        kept = Keeping(state.keeping(), 1).after(later.keeping(), 2)
        assert kept.since_ms(later.kinds_of("*")) == 2
        assert kept.after(later.keeping(), 3).encode() == kept.encode()


async def test_a_change_that_stores_nothing_otherwise_is_none_for_who_comes_back() -> None:
    world = World()
    state = world.state(
        rules={"stored": _STORED}, namespaces={"n": NamespaceSettings(rules="stored")}
    )
    hub = world.hub()
    await hub.continuity.note_settings(state, 1)
    changed = world.state(
        HubSettings(quotas=Quotas(messages_per_s=7)),
        rules={"stored": _STORED, "unused": Rules()},
        namespaces={"n": NamespaceSettings(rules="stored")},
    )
    await hub.continuity.note_settings(changed, 2)
    assert hub.continuity.keeping.since_ms(changed.kinds_of("*")) == 1
    bare = world.state(rules={"stored": _STORED})
    await hub.continuity.note_settings(bare, 3)
    assert hub.continuity.keeping.since_ms(bare.kinds_of("*")) == 3


def _since(pattern: str, *states: HubState) -> int:
    """Since when all that a pattern covers is stored as it is, if these were in force at 0, 1, 2 …"""
    keeping = Keeping(states[0].keeping(), 0)
    for now_ms, state in enumerate(states[1:], start=1):
        read_back = Keeping.decode(keeping.encode())
        assert read_back is not None
        keeping = read_back.after(state.keeping(), now_ms)
    return keeping.since_ms(states[-1].kinds_of(pattern))


def test_a_change_of_what_a_pattern_does_not_cover_is_none_for_who_comes_back_to_it() -> None:
    never = {"never": Rules(), "brief": Rules(store=When.ALL, store_s=60)}
    before = _set(rules=never, namespaces={"s": "stored", "u": "never"})
    other = _set(rules=never, namespaces={"s": "stored", "u": "stored"})
    assert [_since(p, before, other) for p in ("s:*", "s:#:x", "u:*", "u:1*", "v:*", "/t")] == [
        0,
        0,
        1,
        1,
        0,
        0,
    ]
    assert [_since(p, before, other, before) for p in ("s:*", "u:*", "*", "s*")] == [0, 2, 2, 0]
    own = _set(rules=never, namespaces={"s": "stored"}, channels={"s:1": "brief"})
    assert [_since(p, before, own) for p in ("s:*", "s:1*", "s:2*")] == [1, 1, 0]


def test_a_namespace_that_is_no_longer_set_takes_its_past_to_what_holds_instead() -> None:
    bound, bare = _set(namespaces={"n": "stored"}), _set(HubSettings(default_rules="stored"))
    plain = _set()
    assert _since("n:*", plain, bound, bare) == 2, "the others have only just begun to store"
    both = _set(HubSettings(default_rules="stored"), namespaces={"n": "stored"})
    never = _set(
        HubSettings(default_rules="stored"), rules={"never": Rules()}, namespaces={"n": "never"}
    )
    assert _since("n:*", bare, never, both, bare) == 2, "messages were lost there until then"
    assert _since("n:*", bare, never, bare) == 2
    assert _since("n:*", bare, both, bare) == 0


def test_rules_of_a_channel_with_a_short_name_are_not_taken_for_those_of_many() -> None:
    state = _set(channels={"n:": "stored", "/t": "stored"})
    assert [state.stores_all(pattern) for pattern in ("n:*", "n:#", "/t")] == [False] * 3
    never = _set(rules={"never": Rules()}, namespaces={"n": "never"}, channels={"n:": "stored"})
    assert never.keeping()["n:*"] != never.keeping()["n:"]


@pytest.mark.parametrize("note", [b"", b"?", b"12 abc", b"{}", b'{"n:*":{}}', b"[]"])
def test_a_note_that_cannot_be_read_says_nothing(note: bytes) -> None:
    assert Keeping.decode(note) is None


_names_of_parts = st.sampled_from(["n", "m"])
_whens = st.sampled_from(["all", "never", "gone"])
_states = st.builds(
    lambda default, namespaces, channels: _set(
        HubSettings(default_rules=default),
        {"all": Rules(store=When.ALL), "never": Rules()},
        namespaces,
        channels,
    ),
    _whens,
    st.dictionaries(_names_of_parts, _whens),
    st.dictionaries(st.sampled_from(["n:a", "m:a", "x:a", "/t", "c"]), _whens),
)


@given(st.lists(_states, min_size=1, max_size=6), st.sampled_from(["*", "n:*", "m*", "/t", "x:*"]))
def test_no_change_to_any_channel_that_a_pattern_covers_is_forgotten(
    states: list[HubState], pattern: str
) -> None:
    channels = ["n:a", "n:b", "m:a", "m:b", "x:a", "x:b", "/t", "/t/u", "c", "d"]
    changed = 0
    for channel in filter(partial(matches, pattern), channels):
        kept = [state.resolve_rules(channel).store for state in states]
        changed = max([changed, *(i for i in range(1, len(kept)) if kept[i] != kept[i - 1])])
    assert _since(pattern, *states) >= changed


def storing(**by_namespace: When) -> HubState:
    return HubState(
        HubSettings(),
        {when: Rules(store=when) for when in When},
        {name: NamespaceSettings(rules=when) for name, when in by_namespace.items()},
        {"stock:loud": ChannelSettings(rules="all"), "/audit/x": ChannelSettings(rules="all")},
        Rules(store=When.NEVER),
    )


@pytest.mark.parametrize(
    ("pattern", "stored"),
    [
        ("stock:loud", {When.ALL}),
        ("stock:quiet", {When.NEVER}),
        ("stock:*", {When.NEVER, When.ALL}),
        ("orders:*", {When.MARKED}),
        ("orders:#:a", {When.MARKED}),
        ("or*", {When.NEVER, When.MARKED}),
        ("other*", {When.NEVER}),
        ("/audit", {When.NEVER, When.ALL}),
        ("/plant", {When.NEVER}),
        ("*", set(When)),
    ],
)
def test_what_a_pattern_can_cover_is_stored_as_all_its_channels_may_be(
    pattern: str, stored: set[When]
) -> None:
    assert storing(orders=When.MARKED).stored(pattern) == stored


@given(
    st.dictionaries(st.sampled_from(["n", "m", "nm"]), st.sampled_from(When)),
    st.sampled_from(["*", "n*", "n:*", "#:x", "m:x", "/t", "/", "n*:x", "x"]),
    names,
)
def test_what_is_stored_of_a_channel_is_among_what_is_stored_of_each_pattern_that_covers_it(
    by_namespace: dict[str, When], pattern: str, channel: str
) -> None:
    state = storing(**by_namespace)
    if matches(pattern, channel):
        assert state.stored(channel) <= state.stored(pattern)
    if is_wide(pattern):
        assert state.stores_all(pattern) == (state.stored(pattern) == {When.ALL})
