"""The connection's states: a table that must be whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.client.state import TABLE, State, Trigger, next_state
from arauto.errors import ArautoError, Code

FINAL = {State.CLOSED, State.FAILED}


def test_a_client_goes_through_its_usual_life() -> None:
    state = State.NEW
    for trigger in (
        Trigger.START,
        Trigger.OPENED,
        Trigger.JOINED,
        Trigger.LOST,
        Trigger.RETRY,
        Trigger.OPENED,
        Trigger.JOINED,
        Trigger.CLOSE,
        Trigger.ENDED,
    ):
        state = next_state(state, trigger)
    assert state is State.CLOSED


@pytest.mark.parametrize("state", sorted(set(State) - FINAL - {State.CLOSING}))
def test_every_living_state_can_be_closed(state: State) -> None:
    assert next_state(state, Trigger.CLOSE) is State.CLOSING


@pytest.mark.parametrize("state", sorted(FINAL))
@pytest.mark.parametrize("trigger", list(Trigger))
def test_nothing_leads_out_of_a_final_state(state: State, trigger: Trigger) -> None:
    with pytest.raises(ArautoError) as caught:
        next_state(state, trigger)
    assert caught.value.code is Code.CONFLICT


def test_every_state_can_be_reached() -> None:
    reached = {State.NEW}
    for _ in State:
        reached |= {after for (before, _), after in TABLE.items() if before in reached}
    assert reached == set(State)


@given(st.lists(st.sampled_from(Trigger), max_size=30))
def test_connected_is_reached_only_by_joining(triggers: list[Trigger]) -> None:
    state = State.NEW
    for trigger in triggers:
        before = state
        state = TABLE.get((state, trigger), state)
        if state is State.CONNECTED and before is not State.CONNECTED:
            assert (before, trigger) == (State.JOINING, Trigger.JOINED)
