"""Released schemas stay readable: columns are only ever added, at the end and nullable.

Each released version of a table is a file in `schemas/`. A new version adds a file; none is ever changed.
"""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from arauto.pipeline.lake.footers import describe_files
from arauto.pipeline.lake.table import Lake, Written
from arauto.pipeline.schemas import TABLES
from tests.pipeline.archive.support import journal

_RELEASED = Path(__file__).with_name("schemas")
_NAME = re.compile(r"(?P<table>\w+)-v(?P<version>\d+)\.json\Z")


def _released() -> dict[tuple[str, int], StructType]:
    found = {}
    for path in sorted(_RELEASED.iterdir()):
        match = _NAME.match(path.name)
        assert match, f"{path.name} is not called <table>-v<version>.json"
        schema = StructType.fromJson(json.loads(path.read_text(encoding="utf-8")))
        found[match["table"], int(match["version"])] = schema
    return found


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_is_what_was_released_under_its_version(name: str) -> None:
    table = TABLES[name]
    assert table.columns == _released()[name, table.version]


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_extends_all_its_earlier_versions(name: str) -> None:
    table, released = TABLES[name], _released()
    for version in range(1, table.version):
        earlier = released[name, version]
        assert list(table.columns)[: len(earlier)] == list(earlier)
        assert all(field.nullable for field in list(table.columns)[len(earlier) :])
        assert len(table.columns) > len(earlier)


def test_no_table_was_ever_taken_away() -> None:
    assert {name for name, _ in _released()} == set(TABLES)


def test_todays_reader_reads_files_of_version_one(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(spark, tmp_path / "lake").table("journal")
    place = table.directory / "data" / "old"
    old = journal(spark, {"seq": 1}).select(*_released()["journal", 1].names)
    old.write.parquet(str(place))
    table.commit(Written(place, describe_files(table.directory, place, "ts")), "archive", 0)
    table.append(journal(spark, {"seq": 2, "origin": "http ::1"}), query="archive", batch_id=1)
    rows = table.read().orderBy("seq").select("seq", "origin").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, "http ::1")]
