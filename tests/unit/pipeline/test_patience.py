"""Everybody waits for the changes of one hub's rules so many times, and no more."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.pipeline.rules.patience import EVERY_S, WAITS, Patience


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_hub_is_waited_for_a_few_times_and_then_once_in_a_while_and_others_notice_nothing() -> (
    None
):
    now = Now()
    patience = Patience(now)
    for _ in range(WAITS):
        assert not patience.over()
        patience.spend(["hasty"])
    patience.spend(["calm"])
    assert patience.over() == {"hasty"}
    now.s += EVERY_S - 1
    assert patience.over() == {"hasty"}
    now.s += 1
    assert not patience.over()
    patience.spend(["hasty"])
    assert patience.over() == {"hasty"}
    # A rest fills the bucket, and no more than that.
    now.s += 100 * EVERY_S
    for _ in range(WAITS):
        assert not patience.over()
        patience.spend(["hasty"])
    assert patience.over() == {"hasty"}


@given(st.lists(st.tuples(st.floats(0, 90), st.sets(st.sampled_from("abc"))), max_size=60))
def test_nobody_is_waited_for_more_often_than_that(asked: list[tuple[float, set[str]]]) -> None:
    now = Now()
    patience, waits = Patience(now), dict.fromkeys("abc", 0)
    for wait_s, hubs in asked:
        now.s += wait_s
        for hub in hubs - patience.over():
            waits[hub] += 1
            patience.spend([hub])
        assert max(waits.values()) <= WAITS + (now.s - 100.0) / EVERY_S + 1e-6
