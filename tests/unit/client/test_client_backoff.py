"""How long a client waits before it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.client.backoff import Backoff, attempt_after, ceiling_s, delay_s
from arauto.entropy import SeededEntropy
from arauto.errors import Code

POLICY = Backoff(base_s=0.5, cap_s=30.0, stable_s=5.0)


@pytest.mark.parametrize(
    ("attempt", "ceiling"),
    [(-1, 0), (0, 0), (1, 0.5), (2, 1), (3, 2), (6, 16), (7, 30), (8, 30), (10_000, 30)],
)
def test_the_ceiling_doubles_up_to_the_cap(attempt: int, ceiling: float) -> None:
    assert ceiling_s(POLICY, attempt) == ceiling


def test_the_first_attempt_after_a_loss_is_immediate() -> None:
    assert delay_s(POLICY, 0, SeededEntropy(1).uniform) == 0


@given(st.integers(-1, 200), st.integers(0, 2**32))
def test_a_delay_lies_between_zero_and_its_ceiling(attempt: int, seed: int) -> None:
    delay = delay_s(POLICY, attempt, SeededEntropy(seed).uniform)
    assert 0 <= delay <= ceiling_s(POLICY, attempt) <= POLICY.cap_s


@given(st.integers(0, 200))
def test_ceilings_never_shrink(attempt: int) -> None:
    assert ceiling_s(POLICY, attempt) <= ceiling_s(POLICY, attempt + 1)


def test_two_clients_that_lost_the_same_node_do_not_come_back_in_step() -> None:
    delays = [delay_s(POLICY, 5, SeededEntropy(seed).uniform) for seed in range(100)]
    assert len({round(delay, 3) for delay in delays}) > 90


@pytest.mark.parametrize(
    ("attempt", "lived_s", "code", "following"),
    [
        (-1, 0.0, Code.CONNECTION_LOST, 0),
        (0, 0.0, Code.CONNECTION_LOST, 1),
        (4, 1.0, Code.CONNECTION_LOST, 5),
        (4, 5.0, Code.CONNECTION_LOST, 0),
        (4, 900.0, Code.SLOW_CONSUMER, 0),
        (-1, 900.0, Code.GOING_AWAY, 1),
        (-1, 900.0, Code.OVERLOADED, 1),
        (6, 0.0, Code.OVERLOADED, 7),
    ],
)
def test_only_a_connection_that_lasted_resets_the_count(
    attempt: int, lived_s: float, code: Code, following: int
) -> None:
    assert attempt_after(POLICY, attempt, lived_s, code) == following
