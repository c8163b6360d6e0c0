"""Grants: what they allow, and that what they allow never exceeds what they name."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arauto.errors import ArautoError, Code
from arauto.grants import GRANTS_LEN_MAX, GrantSet, check_grants, covers
from arauto.model import Grant, Grants
from arauto.names import check_channel, check_pattern, is_pattern, matches


def _set(*channels: str, publish: bool = True, subscribe: bool = True) -> GrantSet:
    return GrantSet(Grants(channels=tuple(Grant(c, publish, subscribe) for c in channels)))


def _valid(check: object, name: str) -> bool:
    try:
        check(name)  # type: ignore[operator]
    except ArautoError:
        return False
    return True


# Few letters, so that random grants, patterns and channels meet often.
_segments = st.text(alphabet="ab/", min_size=0, max_size=3)
_wild_segments = st.one_of(
    _segments, st.just("*"), st.just("#"), st.text(alphabet="ab*", min_size=1, max_size=4)
)
_channels = (
    st.lists(_segments, min_size=1, max_size=4)
    .map(":".join)
    .filter(lambda n: _valid(check_channel, n))
)
_topics = (
    st.lists(st.text(alphabet="ab:", min_size=1, max_size=2), max_size=3)
    .map(lambda parts: "/" + "/".join(parts))
    .filter(lambda n: _valid(check_channel, n))
)
_patterns = (
    st.lists(_wild_segments, min_size=1, max_size=4)
    .map(":".join)
    .filter(lambda n: _valid(check_pattern, n))
)
_anything = st.one_of(_patterns, _topics, _channels)
_names = st.one_of(_channels, _topics)


@st.composite
def _instance(draw: st.DrawFn, pattern: str) -> str:
    """A channel that the pattern matches, made by filling its wildcards."""
    if pattern.startswith("/"):
        tail = draw(st.lists(st.text(alphabet="ab:", min_size=1, max_size=2), max_size=2))
        return "/".join([pattern.rstrip("/"), *tail]) or "/"
    out = []
    for char in pattern:
        if char == "*":
            out.append(draw(st.text(alphabet="ab:/", max_size=4)))
        elif char == "#":
            out.append(draw(st.text(alphabet="ab/", min_size=1, max_size=3)))
        else:
            out.append(char)
    return "".join(out)


def _plainly_covers(grant: str, wanted: str) -> bool:
    """The definition, one character after the other."""
    if grant == "*" or grant == wanted:
        return True
    if grant.startswith("/"):
        return not is_pattern(wanted) and matches(grant, wanted)
    if wanted.startswith("/"):
        return is_pattern(grant) and _takes(grant, wanted + "*")
    return _takes(grant, wanted)


def _takes(grant: str, wanted: str) -> bool:
    g = w = 0
    star_g = star_w = -1
    while True:
        if g < len(grant) and grant[g] == "*":
            star_g, star_w = g, w
            g += 1
            continue
        if g < len(grant) and grant[g] == "#":
            end = _segment_end(wanted, w)
            if end > w:
                g, w = g + 1, end
                continue
        elif g < len(grant) and w < len(wanted) and grant[g] == wanted[w]:
            g, w = g + 1, w + 1
            continue
        elif g == len(grant) and w == len(wanted):
            return True
        if star_g == -1 or star_w >= len(wanted):
            return False
        star_w += 1
        g, w = star_g + 1, star_w


def _segment_end(wanted: str, start: int) -> int:
    """Where the whole, starless segment that begins at `start` ends; `start` if there is none."""
    if start > 0 and wanted[start - 1] != ":":
        return start
    end = wanted.find(":", start)
    end = len(wanted) if end == -1 else end
    return start if "*" in wanted[start:end] else end


@given(_anything, _anything)
@example("*:#:b", "a*:b:b")
@example("#:*", "*:#")
@example("#", "/a")
def test_covering_is_what_its_definition_says(grant: str, wanted: str) -> None:
    assert covers(grant, wanted) == _plainly_covers(grant, wanted)


@given(st.data(), _patterns)
def test_covering_is_what_its_definition_says_for_grants_made_by_widening(
    data: st.DataObject, pattern: str
) -> None:
    pieces = [data.draw(st.sampled_from([s, "*", "#", s[:1] + "*"])) for s in pattern.split(":")]
    grant = ":".join(pieces[: data.draw(st.integers(1, len(pieces)))])
    if _valid(check_pattern, grant):
        assert covers(grant, pattern) == _plainly_covers(grant, pattern)


@given(st.lists(_anything, max_size=8), st.lists(_anything, min_size=1, max_size=4))
def test_grants_together_cover_what_one_of_them_covers(
    grants: list[str], questions: list[str]
) -> None:
    together = _set(*grants)
    for wanted in (*questions, *grants):
        if is_pattern(wanted) or wanted.startswith("/"):
            expected = any(_plainly_covers(grant, wanted) for grant in grants)
            assert together.may_subscribe(wanted) == expected


@given(st.data(), _anything, _anything)
def test_a_grant_that_covers_a_pattern_matches_all_that_the_pattern_matches(
    data: st.DataObject, grant: str, pattern: str
) -> None:
    channel = data.draw(_instance(pattern))
    # Not assumed: most random pairs have nothing to say, and Hypothesis would give up looking.
    if _valid(check_channel, channel) and matches(pattern, channel) and covers(grant, pattern):
        assert matches(grant, channel)


@given(st.data(), _patterns)
def test_coverage_is_sound_for_grants_made_by_widening_the_pattern(
    data: st.DataObject, pattern: str
) -> None:
    """Random pairs seldom cover each other; these nearly always do, in every way there is."""
    segments = [data.draw(st.sampled_from([s, "*", "#", s[:1] + "*"])) for s in pattern.split(":")]
    grant = ":".join(segments[: data.draw(st.integers(1, len(segments)))])
    channel = data.draw(_instance(pattern))
    is_sound = _valid(check_pattern, grant) and _valid(check_channel, channel)
    if is_sound and matches(pattern, channel) and covers(grant, pattern):
        assert matches(grant, channel)


@given(_anything, _anything, _anything)
def test_coverage_is_transitive_enough_to_never_gain_rights_by_narrowing(
    grant: str, middle: str, narrow: str
) -> None:
    """If g covers m and m covers n, then whatever n is instantiated to is within g."""
    if covers(grant, middle) and covers(middle, narrow) and _valid(check_channel, narrow):
        assert matches(grant, narrow)


@given(_anything)
def test_every_pattern_covers_itself_and_star_covers_all(pattern: str) -> None:
    assert covers(pattern, pattern)
    assert covers("*", pattern)


@given(st.lists(_anything, max_size=6), st.lists(_anything, min_size=1, max_size=6), st.randoms())
def test_decisions_depend_on_neither_the_order_of_grants_nor_of_questions(
    grants: list[str], questions: list[str], rng: random.Random
) -> None:
    shuffled = list(grants)
    rng.shuffle(shuffled)
    one, two = _set(*grants), _set(*shuffled)
    asked = [(one.may_subscribe(q), one.may_publish(q)) for q in questions]
    again = [(two.may_subscribe(q), two.may_publish(q)) for q in reversed(questions)]
    assert asked == again[::-1]


@given(st.lists(_anything, max_size=6), _names)
@example([], "/")
def test_a_channel_is_writable_exactly_if_one_grant_matches_it(
    grants: list[str], channel: str
) -> None:
    assert _set(*grants).may_publish(channel) == any(matches(g, channel) for g in grants)


@pytest.mark.parametrize(
    ("grant", "wanted"),
    [
        ("a:#", "a:*"),  # the star can hold colons, the # cannot
        ("#", "*"),
        ("#:b", "*:b"),
        ("a:#", "a:#:b"),
        ("a", "a*"),
        ("a:*", "a*"),
        ("a:*", "*"),
        ("a:b", "a:#"),
        ("a:#", "a:b*"),
        ("/a", "*"),
        ("/a", "/"),
        ("/a", "/ab"),
        ("/a/b", "/a"),
        ("*a", "/a"),  # matches the topic itself but not what lies under it
        ("#", "/a"),  # a topic further down may hold a colon
        ("a", "/a"),
        ("*b", "b*"),
        ("a*b", "a*"),
    ],
)
def test_a_grant_that_matches_only_part_of_a_pattern_does_not_cover_it(
    grant: str, wanted: str
) -> None:
    assert not covers(grant, wanted)
    assert not _set(grant).may_subscribe(wanted)


@pytest.mark.parametrize(
    ("grant", "wanted"),
    [
        ("a:*", "a:#"),
        ("a:*", "a:*:b"),
        ("a:*", "a:b*"),
        ("a:#:c", "a:#:c"),
        ("a:#:*", "a:b:#"),
        ("*:c", "#:c"),
        ("#:#", "a:#"),
        ("/a", "/a"),
        ("/a", "/a/b"),
        ("/", "/a/b"),
        ("*", "/a"),
        ("*", "*"),
    ],
)
def test_a_grant_covers_narrower_patterns_and_topics(grant: str, wanted: str) -> None:
    assert _set(grant).may_subscribe(wanted)


def test_publish_and_subscribe_are_granted_apart() -> None:
    read = _set("a:*", publish=False)
    write = _set("a:*", subscribe=False)
    assert (read.may_subscribe("a:1"), read.may_publish("a:1")) == (True, False)
    assert (write.may_subscribe("a:1"), write.may_publish("a:1")) == (False, True)


def test_nobody_may_publish_to_or_call_a_pattern() -> None:
    everything = GrantSet(Grants(channels=(Grant("*", True, True),), rpcs=("*",)))
    assert not everything.may_publish("a:*")
    assert not everything.may_publish("a:#")
    assert not everything.may_call("billing:*")


def test_no_grants_allow_nothing() -> None:
    nothing = GrantSet(Grants())
    assert not nothing.may_subscribe("a")
    assert not nothing.may_subscribe("*")
    assert not nothing.may_publish("a")
    assert not nothing.may_call("a")


def test_methods_are_matched_with_the_same_wildcards() -> None:
    grants = GrantSet(Grants(rpcs=("billing:#:read", "math.*")))
    assert grants.may_call("billing:invoice:read")
    assert grants.may_call("math.add")
    assert not grants.may_call("billing:a:b:read")
    assert not grants.may_call("billing:invoice:write")


def test_as_many_grants_as_allowed_are_taken_and_one_more_is_refused() -> None:
    many = tuple(Grant(f"a:{n}", True, True) for n in range(GRANTS_LEN_MAX))
    assert GrantSet(Grants(channels=many)).may_publish("a:999")
    for grants in (
        Grants(channels=(*many, Grant("b"))),
        Grants(rpcs=("m",) * (GRANTS_LEN_MAX + 1)),
    ):
        with pytest.raises(ArautoError) as caught:
            check_grants(grants)
        assert caught.value.code is Code.BAD_FIELD


@pytest.mark.parametrize("bad", ["", "a b", "/a/*", "a#", "*" * 5, "x" * 256, "a\x00", "/a//b"])
def test_a_malformed_grant_is_refused_and_named(bad: str) -> None:
    with pytest.raises(ArautoError) as caught:
        GrantSet(Grants(channels=(Grant("ok", True, True), Grant(bad, True, True))))
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "channels[1].channel")
    with pytest.raises(ArautoError) as caught:
        GrantSet(Grants(rpcs=(bad,)))
    assert caught.value.field == "rpcs[0]"


def test_a_decision_stays_the_same_when_more_channels_were_asked_for_than_are_remembered() -> None:
    grants = _set("a:#:x*y")
    asked = [(f"a:{n}:x{n}{'y' if n % 3 else 'z'}", n % 3 != 0) for n in range(500)]
    for _ in range(2):
        for channel, allowed in asked:
            assert grants.may_publish(channel) is allowed


def test_even_a_malformed_grant_covers_nothing_in_the_middle_of_a_segment() -> None:
    assert not covers("*b#", "abc")


def test_only_grants_that_begin_as_a_name_does_are_tried() -> None:
    others = [f"b{n}:*:x" for n in range(900)]
    for wanted in ("a:#:x", "a:1:x"):
        assert _set("a:*:x").may_subscribe(wanted)  # from now on it is compiled
        few, many = _set("a:*:x"), _set("a:*:x", *others)
        assert few.may_subscribe(wanted)
        assert many.may_subscribe(wanted)
        assert 0 < many.effort == few.effort
    assert not _set(*(f"room:{n}" for n in range(900)), "hall:*", "/plant").must_try


def test_what_was_decided_is_not_decided_again() -> None:
    grants = _set(*(f"*{n}:b" for n in range(100)))
    for wanted in ("*:c", "a1:c"):
        assert not grants.may_subscribe(wanted)
        effort = grants.effort
        assert effort > 100 * len(wanted)
        assert not grants.may_subscribe(wanted)
        assert grants.effort == effort


def test_the_effort_grows_with_both_lengths_and_not_with_the_ways_a_star_can_be_filled() -> None:
    """Seen: a hundred such grants and patterns took 17 seconds."""
    grants = [f"*{'a' * 120}b*{'a' * 110}c{n}" for n in range(100)]
    together = _set(*grants)
    assert not together.may_subscribe("*" + "a" * 250)
    grown = together.effort
    assert not together.may_subscribe("*" + "a" * 249)
    assert together.effort - grown < 100 * 251 * 251
