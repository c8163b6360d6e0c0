"""The matcher finds exactly the patterns that cover a channel, whatever was added and removed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arauto.errors import ArautoError
from arauto.hub.matcher import Matcher, is_loose
from arauto.names import (
    ancestors,
    check_channel,
    check_pattern,
    is_pattern,
    is_topic,
    literal_prefix,
    matches,
)

#: Few letters, so that names and patterns meet often.
segments = st.text("ab", max_size=2)
plain = st.lists(segments, min_size=1, max_size=4).map(":".join)
topics = st.lists(st.text("ab", min_size=1, max_size=2), max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
wild_segments = st.one_of(st.text("ab*", max_size=3), st.just("#"))
wild = st.lists(wild_segments, min_size=1, max_size=4).map(":".join)


def _is_good(name: str) -> bool:
    try:
        check_pattern(name)
    except ArautoError:
        return False
    return True


channels = st.one_of(plain, topics).filter(lambda name: _is_good(name) and not is_pattern(name))
patterns = st.one_of(wild, wild, topics).filter(
    lambda name: _is_good(name) and (is_pattern(name) or is_topic(name))
)


def _segments_match(pattern: list[str], name: str) -> bool:
    """The definition, taken literally and slowly: try every way a star can take."""
    if not pattern:
        return not name
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(_segments_match(rest, name[at:]) for at in range(len(name) + 1))
    return bool(name) and name[0] == head and _segments_match(rest, name[1:])


def lies_under(name: str, topic: str) -> bool:
    return name == topic or (is_topic(name) and topic in ancestors(name))


def covers_literally(pattern: str, name: str) -> bool:
    if is_topic(pattern):
        return lies_under(name, pattern)
    if "#" not in pattern:
        return _segments_match(list(pattern), name)
    # Try every segment of the name in the place of the first `#`, as long as it stands in that place.
    before, _, after = pattern.partition("#")
    parts = name.split(":")
    for index, part in enumerate(parts):
        left = ":".join([*parts[:index], ""])
        right = name[len(left) + len(part) :]
        if part and _segments_match(list(before), left) and covers_literally_rest(after, right):
            return True
    return False


def covers_literally_rest(pattern: str, name: str) -> bool:
    if "#" not in pattern:
        return _segments_match(list(pattern), name)
    before, _, after = pattern.partition("#")
    for at in range(len(name) + 1):
        end = name.find(":", at)
        end = len(name) if end == -1 else end
        whole = at == 0 or name[at - 1] == ":"
        fits = end > at and whole and _segments_match(list(before), name[:at])
        if fits and covers_literally_rest(after, name[end:]):
            return True
    return False


@given(patterns, channels)
def test_a_pattern_covers_what_its_definition_says(pattern: str, channel: str) -> None:
    assert matches(pattern, channel) == covers_literally(pattern, channel)


@given(channels)
def test_a_channel_covers_itself_and_the_star_covers_every_channel(channel: str) -> None:
    assert matches(channel, channel)
    assert matches("*", channel)


@given(channels, channels)
def test_a_channel_that_is_no_topic_covers_nothing_else(one: str, other: str) -> None:
    assert matches(one, other) == (one == other or (is_topic(one) and lies_under(other, one)))


@given(topics, topics)
def test_a_topic_covers_exactly_what_lies_under_it(above: str, below: str) -> None:
    assert matches(above, below) == lies_under(below, above)


@given(st.lists(segments.filter(bool), min_size=1, max_size=4))
def test_a_hash_takes_exactly_one_segment_that_is_not_empty(parts: list[str]) -> None:
    name = ":".join(parts)
    assert matches(":".join("#" for _ in parts), name)
    assert not matches(":".join(["#", *("#" for _ in parts)]), name)
    assert not matches("#", name + ":")


def test_a_long_run_of_stars_costs_no_more_than_the_product_of_the_lengths() -> None:
    name = "a" * 250
    for _ in range(200):
        assert not matches("*a*a*a*b", name)


@pytest.mark.parametrize(
    ("topic", "above"),
    [("/", []), ("/a", ["/"]), ("/a/b/c", ["/", "/a", "/a/b"])],
)
def test_the_ancestors_of_a_topic_are_listed_from_the_root(topic: str, above: list[str]) -> None:
    assert ancestors(topic) == above


@given(st.text(max_size=12))
def test_no_text_is_both_refused_as_a_pattern_and_accepted_as_a_channel(text: str) -> None:
    try:
        check_channel(text)
    except ArautoError:
        return
    assert check_pattern(text) == text


def is_tried(pattern: str) -> bool:
    return "*" in pattern.removesuffix("*")


def form(pattern: str) -> str | None:
    """Where its `#` stand, with all else made alike; None for a pattern of another kind."""
    if "#" not in pattern or is_tried(pattern):
        return None
    *head, last = ("#" if part == "#" else part.replace("a", "b") for part in pattern.split(":"))
    if not last.endswith("*"):
        last = "#" if last == "#" else ""
    return ":".join(["#" if part == "#" else "" for part in head] + [last])


class MatcherAgainstOracle(RuleBasedStateMachine):
    """A matcher and a plain dict, changed alike."""

    def __init__(self) -> None:
        super().__init__()
        self.matcher: Matcher[int] = Matcher()
        self.oracle: dict[str, int] = {}
        self.value = 0

    @rule(pattern=patterns)
    def add(self, pattern: str) -> None:
        self.value += 1
        self.matcher.add(pattern, self.value)
        self.oracle[pattern] = self.value

    @rule(pattern=patterns)
    def remove(self, pattern: str) -> None:
        self.matcher.remove(pattern)
        self.oracle.pop(pattern, None)

    @rule(data=st.data())
    def remove_a_known_one(self, data: st.DataObject) -> None:
        if self.oracle:
            self.remove(data.draw(st.sampled_from(sorted(self.oracle))))

    @rule(channel=channels)
    def match(self, channel: str) -> None:
        found = self.matcher.match(channel)
        wanted = [(p, value) for p, value in self.oracle.items() if matches(p, channel)]
        assert sorted(found) == sorted(wanted)

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.matcher) == len(self.oracle)
        assert sorted(self.matcher) == sorted(self.oracle)
        assert all(self.matcher.get(pattern) == value for pattern, value in self.oracle.items())
        assert self.matcher.loose_len == sum(map(is_loose, self.oracle))
        alike = Counter(literal_prefix(pattern) for pattern in self.oracle if is_tried(pattern))
        largest: dict[int, int] = {}
        for prefix, count in alike.items():
            largest[len(prefix)] = max(count, largest.get(len(prefix), 0))
        assert self.matcher.tried_len == sum(largest.values())
        assert self.matcher.forms_len == len(set(map(form, self.oracle)) - {None})

    @rule(pattern=patterns)
    def say_what_one_more_would_make(self, pattern: str) -> None:
        known = self.matcher.get(pattern)
        foretold = self.matcher.tried_len_with(pattern), self.matcher.forms_len_with(pattern)
        self.matcher.add(pattern, 0)
        assert (self.matcher.tried_len, self.matcher.forms_len) == foretold
        self.matcher.remove(pattern)
        if known is not None:
            self.matcher.add(pattern, known)

    def teardown(self) -> None:
        for pattern in list(self.oracle):
            self.matcher.remove(pattern)
        assert len(self.matcher) == 0
        # Nothing is left behind for a tenant to fill memory with.
        assert not self.matcher._prefixes
        assert not self.matcher._forms
        assert not self.matcher._forms._by_len
        assert not self.matcher._globs


TestMatcherAgainstOracle = MatcherAgainstOracle.TestCase
