"""A batch that fails again and again: whoever it fails with is set aside, and all others go on."""

import os
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.feed import journal_stream
from arauto.pipeline.rules import stream
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.left_out import LeftOut, LeftOutSum
from arauto.pipeline.rules.stream import RULES, by_query, start_query
from arauto.pipeline.rules.trouble import CAREFUL_AFTER, CAREFUL_STARTS, Care, Trouble
from tests.pipeline.feed import Feed, message
from tests.pipeline.rules.support import programs
from tests.pipeline.waiting import was_too_slow

_SPIKE = """
rule: spike
version: 1
match: payload.n >= 0
emit: {channel: alerts, payload: {n: payload.n}}
"""


class _Checkpoint:
    """What Spark writes of a query's batches."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "v2"
        for name in ("offsets", "commits"):
            (self.path / name).mkdir(parents=True)

    def begin(self, batch: int, offsets: str = '{"n1":9}') -> None:
        (self.path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")

    def commit(self, batch: int) -> None:
        (self.path / "commits" / str(batch)).write_text("v1\n{}")


def _start(trouble: Trouble, *named: str) -> tuple[Care, list[str]]:
    """One start that fails while its workers are at these hubs."""
    care, anew = trouble.begin()
    if care.notes is not None:
        for number, hub in enumerate(named):
            (care.notes / str(number)).write_text(hub)
    return care, anew


def test_a_query_that_goes_on_costs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    checkpoint = _Checkpoint(tmp_path)
    trouble = Trouble(checkpoint.path)
    assert trouble.begin() == (Care(), [])
    for batch in range(9):
        checkpoint.begin(batch)
        assert trouble.begin() == (Care(), [])
        checkpoint.commit(batch)
        assert trouble.begin() == (Care(), [])
    assert list(tmp_path.iterdir()) == [checkpoint.path]


def test_who_is_named_at_every_failure_is_set_aside_up_to_the_end_of_the_batch(
    tmp_path: Path,
) -> None:
    checkpoint = _Checkpoint(tmp_path)
    checkpoint.begin(4)
    for _ in range(CAREFUL_AFTER):
        care, _ = _start(Trouble(checkpoint.path))
        assert care == Care()
    others = ["a", "b", "", "c"]
    for number in range(CAREFUL_STARTS):
        care, _ = _start(Trouble(checkpoint.path), "loud", others[number])
        assert care.notes is not None
        assert care.aside == {}
    care, anew = Trouble(checkpoint.path).begin()
    assert (care.aside, anew) == ({"loud": {"n1": 9}}, [])
    assert care.passes_over("loud", "n1", 9)
    assert not care.passes_over("loud", "n1", 10)
    assert not care.passes_over("quiet", "n1", 9)
    checkpoint.commit(4)
    assert Trouble(checkpoint.path).is_over()
    assert Trouble(checkpoint.path).begin() == (Care(), [])


def test_who_still_fails_the_batch_when_set_aside_has_its_rules_begin_anew(tmp_path: Path) -> None:
    checkpoint = _Checkpoint(tmp_path)
    checkpoint.begin(0)
    trouble = Trouble(checkpoint.path)
    begun_anew = []
    for _ in range(CAREFUL_AFTER + 2 * CAREFUL_STARTS + 1):
        _, anew = _start(trouble, "loud")
        begun_anew.append(anew)
    assert begun_anew[-1] == ["loud"]
    assert begun_anew[:-1] == [[]] * (len(begun_anew) - 1)


def test_failures_that_lie_in_no_row_set_nobody_aside(tmp_path: Path) -> None:
    checkpoint = _Checkpoint(tmp_path)
    checkpoint.begin(0)
    trouble = Trouble(checkpoint.path)
    for _ in range(50):
        care, _ = _start(trouble, "loud")
        assert care == Care()
        trouble.excuse()
    # A failure with nobody at work names nobody, however often it comes.
    for _ in range(50):
        care, anew = _start(trouble, "", "")
        assert (care.aside, anew) == ({}, [])


def test_a_damaged_record_only_takes_longer(tmp_path: Path) -> None:
    checkpoint = _Checkpoint(tmp_path)
    checkpoint.begin(0)
    _start(Trouble(checkpoint.path))
    [record] = tmp_path.glob("*.trouble/record.json")
    record.write_bytes(b"{")
    care, _ = _start(Trouble(checkpoint.path))
    assert care == Care()


def test_a_row_that_kills_the_worker_is_set_aside_and_the_other_hubs_alerts_come(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly(Carried):
        """Rules of which one is the end of whoever lets it look at a row of its own."""

        @property
        def index(self):  # type: ignore[no-untyped-def]
            found = Carried.index.fget(self)  # type: ignore[attr-defined]
            touching = found.touching

            def deadly(hub: str, channel: str):  # type: ignore[no-untyped-def]
                readers = touching(hub, channel)
                return (_End(),) if hub == "loud" else readers

            found.touching = deadly
            return found

    class _End:
        program = programs(_SPIKE, hub="loud")[0]

        def read(self, _row: object) -> None:
            os._exit(17)

    monkeypatch.setattr(stream, "Carried", Deadly)
    rules = by_query([*programs(_SPIKE, hub="loud"), *programs(_SPIKE)])[RULES]
    checkpoint = tmp_path / "rules" / "v2"
    rows = [message(n, f'{{"n": {n}}}', hub=hub) for n, hub in enumerate(("shop", "loud", "shop"))]
    feed.write(*rows)
    trouble = Trouble(checkpoint)
    left_out = spark.sparkContext.accumulator(LeftOut(), LeftOutSum())
    found: list[str] = []

    def keep(frame: DataFrame, _batch: int) -> None:
        found.extend(row.payload for row in frame.collect())

    failures = 0
    while True:
        source = journal_stream(spark, feed.url, None, rows_max=1_000)
        care, _ = trouble.begin()
        query = start_query(
            spark,
            source,
            RULES,
            rules,
            checkpoint,
            keep,
            available_now=True,
            left_out=left_out,
            care=care,
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if was_too_slow(error):
                trouble.excuse()
                continue
            failures += 1
            assert failures <= CAREFUL_AFTER + CAREFUL_STARTS + 1
            continue
        break
    assert failures == CAREFUL_AFTER + CAREFUL_STARTS + 1
    assert sorted(found) == ['{"n":"0"}', '{"n":"2"}']
    assert left_out.value["loud", "*", "set_aside"] >= 1
    assert trouble.is_over()
