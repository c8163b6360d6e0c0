"""A hub that the lake does not know is told from one that is quiet."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from arauto.cli.console import errors
from arauto.cli.pipeline.common import say_if_hub_is_missing
from arauto.config.schema import Config
from arauto.pipeline.context import Context
from arauto.pipeline.lake.hubs import missing_hub
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import TABLES


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One file for the hubs bakery, flowers and zoo: its ends say nothing about those in the middle."""
    lake = Lake(spark, tmp_path_factory.mktemp("hubs"))
    columns = TABLES["rollup_5m"].columns
    start = datetime(2026, 3, 2, 12, tzinfo=UTC)
    rows = [
        tuple({"start": start, "hub": hub, "node": "n1"}.get(name) for name in columns.names)
        for hub in ("bakery", "flowers", "zoo")
    ]
    frame = spark.createDataFrame(rows, columns).coalesce(1)
    assert lake.table("rollup_5m").append(frame, query="test", batch_id=0)
    return lake


@pytest.mark.parametrize("hub", ["bakery", "flowers", "zoo"])
def test_nothing_is_said_of_a_hub_with_rows(lake: Lake, hub: str) -> None:
    assert missing_hub(lake, hub) == ""


@pytest.mark.parametrize(
    ("hub", "said"),
    [
        ("floers", "the lake has no rows of a hub floers; did you mean flowers?"),
        ("zo", "the lake has no rows of a hub zo; did you mean zoo?"),
        ("q", "the lake has no rows of a hub q"),
    ],
)
def test_a_mistyped_hub_is_said_to_be_unknown_with_the_near_name(
    lake: Lake, hub: str, said: str
) -> None:
    assert missing_hub(lake, hub) == said


def test_commands_say_so_on_standard_error(
    lake: Lake, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    context = Context(Config(), spark, lake)
    for hub in (None, "flowers", "floers"):
        say_if_hub_is_missing(errors(), context, hub)
    shown = capsys.readouterr()
    assert shown.out == ""
    said = "the lake has no rows of a hub floers; did you mean flowers?"
    assert " ".join(shown.err.split()) == said
