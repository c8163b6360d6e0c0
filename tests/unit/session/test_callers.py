"""Who comes without a session has a rate too, kept in a table that does not grow."""

import pytest

from arauto.errors import Code
from arauto.session.callers import CallerKey, Callers, TooFastError, caller_key
from arauto.settings import Quotas

QUOTAS = Quotas(session_messages_per_s=5)
ANN = caller_key("shop", "ann", "10.0.0.1", is_set_up=True)


def spend(callers: Callers, times: int, *, user: str = "ann", now_s: float = 0.0) -> None:
    for _ in range(times):
        callers.admit(caller_key("shop", user, "10.0.0.1", is_set_up=True), QUOTAS, now_s)


def test_a_caller_has_its_rate_and_hears_when_to_come_again() -> None:
    callers = Callers()
    spend(callers, 5)
    with pytest.raises(TooFastError) as caught:
        spend(callers, 1)
    assert (caught.value.code, caught.value.retry_after_s) == (Code.RATE_LIMITED, 1)
    spend(callers, 5, user="bob")
    callers.admit(ANN, QUOTAS, 1.0).owe(20)
    with pytest.raises(TooFastError) as caught:
        spend(callers, 1, now_s=1.0)
    assert caught.value.retry_after_s == 4


@pytest.mark.parametrize("is_set_up", [False, True])
def test_a_stranger_is_an_address_and_a_user_is_not(is_set_up: bool) -> None:
    def key(user: str, address: str) -> CallerKey:
        return caller_key("a", user, address, is_set_up=is_set_up)

    assert key("", "2001:db8::1") == key("", "2001:db8::2")
    assert key("", "10.0.0.1") != key("", "10.0.0.2")
    assert key("ann", "10.0.0.1") == key("ann", "10.0.0.2")


def test_a_stranger_owes_each_hub_that_is_set_up_and_all_that_are_made_up_together() -> None:
    def key(hub: str, *, is_set_up: bool) -> CallerKey:
        return caller_key(hub, "", "10.0.0.1", is_set_up=is_set_up)

    assert key("a", is_set_up=False) == key("b", is_set_up=False)
    assert key("a", is_set_up=True) != key("b", is_set_up=True)
    assert key("a", is_set_up=True) != key("a", is_set_up=False)


def test_the_table_is_bounded_and_the_longest_silent_is_forgotten() -> None:
    callers = Callers(len_max=3)
    for number in range(3):
        spend(callers, 5, user=f"u{number}")
    spend(callers, 5, user="u3")
    assert (len(callers), callers.evicted) == (3, 1)
    with pytest.raises(TooFastError):
        spend(callers, 1, user="u1")
    spend(callers, 5, user="u0")


def test_who_was_silent_for_long_is_let_go_without_loss() -> None:
    callers = Callers()
    for number in range(100):
        spend(callers, 1, user=f"u{number}")
    spend(callers, 1, now_s=60.0)
    assert (len(callers), callers.evicted) == (1, 0)


def test_a_hub_without_a_limit_keeps_no_buckets() -> None:
    callers = Callers()
    for _ in range(10_000):
        callers.admit(ANN, Quotas(session_messages_per_s=0), 0.0)
    assert len(callers) == 0
