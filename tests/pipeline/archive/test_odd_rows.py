"""One odd row costs nobody but itself, and one table that fails holds none of the others back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive import follow as module
from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, Derived, follow, follow_all
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rollup.merge import merge_rollups
from tests.pipeline.archive.support import journal

_ODD: tuple[tuple[int, bytes], ...] = (
    (3, b'{"durationMs": 9223372036854775807}'),
    (3, b'{"durationMs": -9223372036854775808}'),
    (4, b'{"leftOut": 9223372036854775807}'),
    (5, b'{"startMs": 9223372036854775807}'),
    (5, b'{"startMs": 0, "endMs": 300000000000000}'),
    (5, b'{"startMs": 0, "total": {"messagesIn": 9223372036854775807}}'),
    (5, b'{"startMs": 0, "total": {"refused": {"a": 9223372036854775807}}}'),
    (5, b'{"startMs": 0, "gauges": {"sessions": 9223372036854775807}}'),
)
_GOOD: tuple[tuple[int, bytes], ...] = (
    (3, b'{"durationMs": 1500}'),
    (4, b'{"leftOut": 2}'),
    (5, b'{"startMs": 0, "total": {"messagesIn": 3, "refused": {"a": 1}}, "gauges": {"hubs": 1}}'),
)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def _take(lake: Lake, *rows: dict[str, Any]) -> None:
    take(lake.table("journal"), journal(lake.spark, *rows), "archive", 0)


def test_a_row_with_an_absurd_number_goes_to_quarantine_and_stops_no_table(lake: Lake) -> None:
    rows = (*_ODD, *_GOOD)
    _take(lake, *({"kind": kind, "payload": payload} for kind, payload in rows))
    for name in DERIVED:
        follow(lake, name)
    found = lake.table("quarantine").read().select("seq", "reason").orderBy("seq").collect()
    assert [row.seq for row in found] == list(range(1, len(_ODD) + 1))
    assert {row.reason for row in found} == {"a number of the details is out of range"}
    counts = {name: lake.table(name).state().rows for name in ("sessions", "refusals", "counters")}
    assert counts == {"sessions": 1, "refusals": 1, "counters": 1}
    merged = merge_rollups(lake.table("rollup_5m").read(), "day")
    refused = {row.refused for row in merged.where("hub = 'shop'").collect() if row.refused}
    # Each row of a refusal is one; what the odd one says was left out is not believed.
    assert refused == {4}


def test_a_table_that_fails_holds_no_other_back_and_is_told_at_the_end(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take(lake, {"seq": 1}, {"seq": 2, "kind": 10})

    def fail(_: Any) -> Any:
        raise RuntimeError("no such thing")

    first = next(iter(DERIVED))
    broken = {**DERIVED, first: Derived(fail, None)}
    monkeypatch.setattr(module, "DERIVED", broken)
    done: dict[str, int] = {}

    def each(name: str, work: Callable[[], int]) -> None:
        done[name] = work()

    with pytest.raises(RuntimeError, match="no such thing"):
        follow_all(lake, each)
    assert set(done) == set(DERIVED) - {first}
    assert done["messages"] == 2


def test_equal_names_in_different_hubs_are_different_users_and_channels(lake: Lake) -> None:
    _take(lake, *({"hub": hub, "user": "ana"} for hub in ("a", "b", "c")))
    follow(lake, "rollup_5m")
    merged = merge_rollups(lake.table("rollup_5m").read(), "day").collect()
    found = {row.hub: (row.distinct_users, row.distinct_channels) for row in merged}
    assert found == {"": (3, 3), "a": (1, 1), "b": (1, 1), "c": (1, 1)}
