"""Coverage: ranges behave as the sets they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arauto.pipeline.lake.coverage import count, gaps, merge, overlap

_RANGES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 10)).map(lambda r: (r[0], r[0] + r[1]))
)


def _places(ranges: object) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}  # type: ignore[attr-defined]


@given(_RANGES)
def test_merged_ranges_cover_the_same_places_and_do_not_touch(
    ranges: list[tuple[int, int]],
) -> None:
    merged = merge(ranges)
    assert _places(merged) == _places(ranges)
    assert count(merged) == len(_places(ranges))
    assert all(last + 1 < following for (_, last), (following, _) in pairwise(merged))


@given(_RANGES)
def test_gaps_are_what_lies_between(ranges: list[tuple[int, int]]) -> None:
    covered = _places(ranges)
    end = max(covered, default=0)
    assert _places(gaps(merge(ranges))) == set(range(1, end + 1)) - covered


@given(_RANGES, _RANGES)
def test_an_overlap_is_what_both_cover(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    assert _places(overlap(merge(one), merge(other))) == _places(one) & _places(other)
