"""The index finds what a pattern covers, looking at no more than what starts alike."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.hub import name_index
from arauto.hub.name_index import NameIndex
from arauto.names import matches
from tests.unit.hub.test_matcher import channels, patterns

names = st.one_of(channels, st.sampled_from(["/a", "/a-b", "/a/b", "/a0", "a\U0010ffff", "b"]))


def index_of(*members: str) -> NameIndex:
    index = NameIndex()
    for name in members:
        index.add(name)
    return index


@given(st.sets(names, max_size=30), patterns)
def test_exactly_the_covered_names_are_found_in_order(members: set[str], pattern: str) -> None:
    wanted = sorted(name for name in members if matches(pattern, name))
    assert list(index_of(*members).matching(pattern)) == wanted


@given(st.sets(names, max_size=30), patterns, st.integers(1, 7))
def test_pages_together_hold_what_one_walk_finds(
    members: set[str], pattern: str, scan_len: int
) -> None:
    index = index_of(*members)
    found: list[str] = []
    after = ""
    while True:
        page, after = index.page(pattern, after, scan_len)
        found += page
        if not after:
            break
    assert found == list(index.matching(pattern))


def test_names_that_went_are_found_no_more() -> None:
    index = index_of("a:1", "a:2")
    index.discard("a:1")
    index.discard("never:there")
    assert list(index.matching("a:*")) == ["a:2"]
    assert len(index) == 1


def test_a_prefix_looks_at_none_of_the_names_it_does_not_cover() -> None:
    index = index_of(*(f"user:{n}" for n in range(10_000)), "shop:1", "shop:2")
    looked: list[str] = []

    def counting(pattern: str, name: str) -> bool:
        looked.append(name)
        return matches(pattern, name)

    original, name_index.matches = name_index.matches, counting  # type: ignore[attr-defined]
    try:
        assert list(index.matching("shop:*")) == ["shop:1", "shop:2"]
        assert looked == []
        assert list(index.matching("shop:#")) == ["shop:1", "shop:2"]
        assert looked == ["shop:1", "shop:2"]
    finally:
        name_index.matches = original  # type: ignore[attr-defined]
