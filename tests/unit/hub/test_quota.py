"""A token bucket allows its rate on average, a second's worth at once, and never more."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.hub.quota import TokenBucket

steps = st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=60)


@given(st.integers(1, 20), steps)
def test_no_stretch_of_time_allows_more_than_its_share_and_one_burst(
    rate: int, pauses: list[float]
) -> None:
    bucket = TokenBucket(rate, 0.0)
    now_s = 0.0
    allowed: list[float] = []
    for pause_s in pauses:
        now_s += pause_s
        if bucket.take(now_s):
            allowed.append(now_s)
    for first, start_s in enumerate(allowed):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= rate * (allowed[last] - start_s + 1) + 1e-6


@given(st.integers(1, 1_000))
def test_a_second_of_rest_allows_exactly_a_second_of_work(rate: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    for now_s in (0.0, 1.0, 500.0):
        assert [bucket.take(now_s) for _ in range(rate + 1)] == [True] * rate + [False]


def test_a_rate_of_zero_allows_everything() -> None:
    bucket = TokenBucket(0, 0.0)
    assert all(bucket.take(0.0) for _ in range(10_000))


def test_a_limit_set_live_holds_from_then_on() -> None:
    bucket = TokenBucket(0, 0.0)
    bucket.set_rate(3)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    bucket.set_rate(1)
    assert [bucket.take(101.0) for _ in range(2)] == [True, False]
    bucket.set_rate(0)
    assert all(bucket.take(101.0) for _ in range(50))


def test_changing_the_limit_again_and_again_gives_nothing_away() -> None:
    bucket = TokenBucket(5, 0.0)
    assert [bucket.take(0.0) for _ in range(6)] == [True] * 5 + [False]
    for rate in (6, 5, 6, 5):
        bucket.set_rate(rate)
        assert not bucket.take(0.0)
