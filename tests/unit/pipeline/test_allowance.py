"""A hub publishes so many alerts and no more, whatever the others do."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from arauto.pipeline.rules.allowance import Allowance

BURST_S = 10


class Now:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_hub_gets_a_burst_and_then_its_rate_and_the_others_notice_nothing() -> None:
    now = Now()
    allowance = Allowance(5, now)
    assert sum(allowance.room().admit(["loud"] * 1_000)) == 5 * BURST_S
    allowance.spend({"loud": 5 * BURST_S})
    assert allowance.room().admit(["loud", "quiet", "loud"]) == [False, True, False]
    now.s += 2.0
    assert sum(allowance.room().admit(["loud"] * 1_000)) == 10


def test_what_tasks_took_together_is_a_debt() -> None:
    now = Now()
    allowance = Allowance(5, now)
    # Two tasks of one batch, each with the whole bucket before it.
    allowance.spend({"loud": 2 * 5 * BURST_S})
    now.s += BURST_S
    assert not any(allowance.room().admit(["loud"]))
    now.s += 1.0
    assert sum(allowance.room().admit(["loud"] * 100)) == 5


def test_without_a_limit_everything_is_admitted() -> None:
    allowance = Allowance(0, Now())
    allowance.spend({"loud": 10**9})
    assert all(allowance.room().admit(["loud"] * 1_000))


@given(
    st.integers(1, 20),
    st.lists(
        st.tuples(st.floats(0, 30), st.lists(st.sampled_from(["a", "b"]), max_size=400)),
        max_size=20,
    ),
)
def test_nobody_publishes_more_than_a_burst_and_the_rate(
    per_s: int, batches: list[tuple[float, list[str]]]
) -> None:
    now = Now()
    allowance = Allowance(per_s, now)
    published: Counter[str] = Counter()
    for wait_s, hubs in batches:
        now.s += wait_s
        admitted = allowance.room().admit(hubs)
        sent = Counter(hub for hub, yes in zip(hubs, admitted, strict=True) if yes)
        allowance.spend(sent)
        published += sent
        assert all(count <= per_s * (BURST_S + now.s) + 1e-6 for count in published.values())
