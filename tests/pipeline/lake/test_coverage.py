"""Ranges of seen places."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.pipeline.lake.coverage import Coverage, count, gaps, merge, overlap

_ranges = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


def _places(ranges: object) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}  # type: ignore[attr-defined]


@given(_ranges, _ranges)
def test_ranges_behave_as_the_sets_they_stand_for(one: Coverage, other: Coverage) -> None:
    a, b = merge(one), merge(other)
    assert _places(a) == _places(one)
    assert count(a) == len(_places(one))
    assert _places(overlap(a, b)) == _places(one) & _places(other)
    assert _places(gaps(a)) == set(range(1, max(_places(a), default=0) + 1)) - _places(a)
    # Disjoint, sorted, and never touching.
    assert all(last + 1 < start for (_, last), (start, _) in pairwise(a))


@pytest.mark.parametrize(("first", "missing"), [(1, ((1, 2), (5, 5))), (4, ((5, 5),))])
def test_gaps_are_exact_and_begin_where_asked(first: int, missing: Coverage) -> None:
    assert gaps(((3, 4), (6, 9)), first) == missing
