"""A table on disk: batches once, reads that skip files, files that go."""

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.manifest import select
from arauto.pipeline.lake.table import Lake, Table
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Lake(spark, tmp_path / "lake").table("journal")


def _seqs(table: Table, **wanted: object) -> list[int]:
    rows = table.read(**wanted).select("seq").collect()  # type: ignore[arg-type]
    return sorted(row.seq for row in rows)


def test_a_batch_counts_once_and_an_empty_table_has_its_columns(
    table: Table, spark: SparkSession
) -> None:
    assert table.read().schema == table.schema.columns
    assert table.read().count() == 0
    assert table.append(journal(spark, {"seq": 1}), query="q", batch_id=3)
    assert not table.append(journal(spark, {"seq": 2}), query="q", batch_id=3)
    assert not table.append(journal(spark, {"seq": 3}), query="q", batch_id=2)
    assert _seqs(table) == [1]


def test_reads_skip_files_and_never_a_row(table: Table, spark: SparkSession) -> None:
    # Fractions that no float holds exactly: a file's last millisecond must still be found.
    rows = [{"seq": n, "at": n + n * 0.001, "hub": f"h{n % 3}"} for n in range(1, 40)]
    for batch in range(3):
        table.append(journal(spark, *rows[batch::3]).coalesce(1), query="q", batch_id=batch)
    files = table.state().files.values()
    assert len(files) == 3
    assert [len(select(files, hub=f"h{n}")) for n in range(4)] == [1, 1, 1, 0]
    for file in files:
        (row,) = (
            table.read(from_ms=file.max_ms, to_ms=file.max_ms + 1, hub=file.last_hub)
            .selectExpr("unix_millis(ts) ms")
            .collect()
        )
        assert row.ms == file.max_ms
    assert _seqs(table, from_ms=T0 + 2_002, to_ms=T0 + 4_004) == [2, 3]
    assert _seqs(table, hub="h1", to_ms=T0 + 5_000) == [1, 4]


def test_replacing_loses_no_row_and_needs_its_files_to_be_there(
    table: Table, spark: SparkSession
) -> None:
    for batch in range(2):
        table.append(journal(spark, {"seq": batch}), query="q", batch_id=batch)
    old = list(table.state().files.values())
    with pytest.raises(ArautoError) as raised:
        table.replace(old, table.read_files(old).limit(1), rows=2)
    assert raised.value.code is Code.LAKE_CORRUPT
    assert _seqs(table) == [0, 1]
    table.replace(old, table.read_files(old), rows=2)
    with pytest.raises(ArautoError) as raised:
        table.replace(old[:1], None)
    assert raised.value.code is Code.CONFLICT
    assert (_seqs(table), len(table.state().files)) == ([0, 1], 1)


def test_only_old_files_that_do_not_count_are_deleted(table: Table, spark: SparkSession) -> None:
    table.append(journal(spark, {"seq": 1}).coalesce(1), query="q", batch_id=0)
    merged = list(table.state().files.values())
    table.replace(merged, table.read_files(merged))
    unfinished = table.write(journal(spark, {"seq": 2}).coalesce(1), "q", 1).files[0]
    old, young = table.directory / merged[0].path, table.directory / unfinished.path
    os.utime(old, (1, 1))
    assert table.leftovers() == [old]
    assert table.vacuum(2_000) == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert table.leftovers() == []
    assert _seqs(table) == [1]


def test_a_batch_that_is_not_committed_loses_nothing_for_an_hour(
    table: Table, spark: SparkSession
) -> None:
    written = table.write(journal(spark, {"seq": 1}).coalesce(1), "q", 0)
    # Where Spark is about to put the first file of another batch.
    begun = table.directory / "data" / "q=q" / "b=1" / "_temporary"
    begun.mkdir(parents=True)
    now_s = time.time()
    for path, age_s in ((table.directory / written.files[0].path, 3_500), (begun.parent, 3_500)):
        os.utime(path, (now_s - age_s, now_s - age_s))
    assert table.vacuum(round(now_s * 1000) + 1_000) == 0
    assert begun.exists()
    table.commit(written, "q", 0)
    assert _seqs(table) == [1]
    # What nobody finished within an hour is not in progress any more.
    left = table.directory / table.write(journal(spark, {"seq": 2}), "q", 2).files[0].path
    for path in (left, begun.parent):
        os.utime(path, (now_s - 3_700, now_s - 3_700))
    assert table.vacuum(round(now_s * 1000)) == 1
    assert (left.exists(), begun.exists()) == (False, False)
