"""The recovery decision: everything that was missed, or a plain no. Never something in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.hub.recovery import Recovery, decide
from arauto.model import Serial

serials = st.builds(Serial, st.integers(1, 3), st.integers(0, 12))


@given(serials, serials, st.integers(0, 12), st.booleans(), st.integers(0, 12))
def test_what_is_promised_can_be_kept(
    since: Serial, top: Serial, floor: int, stored_all: bool, missed_max: int
) -> None:
    floor = min(floor, top.offset)
    how = decide(since, top, floor, stored_all=stored_all, missed_max=missed_max)
    missed = set(range(since.offset + 1, top.offset + 1))
    if how is Recovery.IMPOSSIBLE:
        return
    assert since.epoch == top.epoch
    assert since.offset <= top.offset
    assert len(missed) <= missed_max or how is Recovery.NOTHING_MISSED
    held = {
        Recovery.NOTHING_MISSED: set[int](),
        Recovery.FROM_MEMORY: set(range(floor + 1, top.offset + 1)),
        Recovery.FROM_STORE: set(range(1, top.offset + 1)) if stored_all else set[int](),
    }[how]
    assert missed <= held


@given(serials, st.integers(0, 12), st.booleans(), st.integers(1, 12))
def test_a_place_within_memory_is_never_refused(
    top: Serial, back: int, stored_all: bool, missed_max: int
) -> None:
    since = Serial(top.epoch, max(0, top.offset - min(back, missed_max)))
    how = decide(since, top, since.offset, stored_all=stored_all, missed_max=missed_max)
    assert how in (Recovery.NOTHING_MISSED, Recovery.FROM_MEMORY)


@pytest.mark.parametrize(
    ("since", "how"),
    [
        (Serial(5, 10), Recovery.NOTHING_MISSED),
        (Serial(5, 6), Recovery.FROM_MEMORY),
        (Serial(5, 5), Recovery.FROM_STORE),
        (Serial(5, 11), Recovery.IMPOSSIBLE),
        (Serial(4, 10), Recovery.IMPOSSIBLE),
        (Serial(6, 0), Recovery.IMPOSSIBLE),
        (Serial(0, 0), Recovery.IMPOSSIBLE),
    ],
)
def test_each_case_of_a_stored_channel_at_ten_that_remembers_four(
    since: Serial, how: Recovery
) -> None:
    assert decide(since, Serial(5, 10), 6, stored_all=True, missed_max=100) is how


def test_the_store_proves_nothing_where_only_some_messages_are_stored() -> None:
    how = decide(Serial(4, 5), Serial(4, 10), 6, stored_all=False, missed_max=100)
    assert how is Recovery.IMPOSSIBLE
