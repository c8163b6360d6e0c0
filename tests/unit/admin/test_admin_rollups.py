"""Which chunk a roll-up is kept in, and for how long. Pure decisions."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.admin.rollups import PERIODS, Period

_DAY_MS = 86_400_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "key"),
    [
        ("5m", "analytics/5m/2026-11-16T09"),
        ("hour", "analytics/hour/2026-11-16"),
        ("day", "analytics/day/2026"),
    ],
)
def test_rows_that_lie_beside_each_other_share_a_chunk(period: str, key: str) -> None:
    assert PERIODS[period].chunk_of(at("2026-11-16T09:55")) == key


@given(
    st.sampled_from(list(PERIODS.values())),
    st.integers(0, at("2100-01-01")),
    st.integers(1, 1_500),
)
def test_the_chunks_of_a_range_are_those_of_its_rows_in_order(
    period: Period, from_ms: int, steps: int
) -> None:
    to_ms = from_ms + steps * period.step_ms
    first = -(-from_ms // period.step_ms) * period.step_ms
    wanted = [period.chunk_of(ms) for ms in range(first, to_ms, period.step_ms)]
    found = list(period.chunks(from_ms, to_ms))
    assert found == sorted(set(found))
    assert set(wanted) <= set(found)
    assert len(found) <= len(set(wanted)) + 2


def test_a_chunk_is_kept_as_long_as_its_rows_and_daily_ones_for_ever() -> None:
    now_ms = at("2026-11-16T09:00")
    five = PERIODS["5m"]
    assert five.ttl_s(now_ms, now_ms) == 90 * 86_400 + 3_600
    assert five.ttl_s(now_ms - 89 * _DAY_MS, now_ms) == 86_400 + 3_600
    assert five.ttl_s(now_ms - 91 * _DAY_MS, now_ms) < 0
    assert PERIODS["hour"].ttl_s(now_ms - 1_098 * _DAY_MS, now_ms) > 0
    assert PERIODS["hour"].ttl_s(now_ms - 1_100 * _DAY_MS, now_ms) < 0
    assert PERIODS["day"].ttl_s(0, now_ms) == 0
