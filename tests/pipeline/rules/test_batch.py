"""History in pieces gives what history in one go gives. No Spark."""

from arauto.correlation.matcher import advance
from arauto.correlation.program import Event
from arauto.pipeline.rules.batch import _CHUNK_LEN, _matches
from tests.pipeline.rules.support import PAIR, programs


def test_a_long_history_with_many_events_at_one_time_loses_none_of_them_to_the_buffer() -> None:
    [pair] = programs(PAIR)
    nothing = ((None,) * len(pair.nums), (None,) * len(pair.texts))
    # Twenty events a millisecond, twice as many as may wait.
    events = [
        Event(1_000 + n // 20, "n1", n, 1 + n % 2, *nothing) for n in range(2 * _CHUNK_LEN + 500)
    ]
    whole = advance(pair, "[]", None, events, 1 << 40)
    assert (len(whole.matches), whole.dropped) == (len(events) // 2, 0)
    assert list(_matches(pair, "[]", events, 1 << 40)) == whole.matches
