"""`arauto pipeline sql`, as it is called."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from arauto.cli.main import app
from arauto.cli.pipeline.sql_show import show
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.context import Context
from arauto.pipeline.sql.run import Answer
from tests.pipeline.sql.lakes import make_lake
from tests.pipeline.waiting import LAST_RESORT_S


def test_a_bad_query_is_refused_before_spark_starts() -> None:
    result = CliRunner().invoke(app, ["pipeline", "sql", "DROP TABLE messages"])
    assert isinstance(result.exception, ArautoError)
    assert result.exception.code is Code.BAD_QUERY


def test_cells_neither_steer_the_terminal_nor_are_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(Answer(("[b]c", "n"), [("\x1b[31mred[/b]", None)], is_cut=False), "table")
    shown = capsys.readouterr().out
    assert "\\x1b[31mred[/b]" in shown
    assert "[b]c" in shown
    assert "\x1b[31mred" not in shown


def test_views_are_listed_and_described_without_starting_spark() -> None:
    listed = CliRunner().invoke(app, ["pipeline", "sql", "SHOW TABLES", "--format", "csv"])
    assert "messages," in listed.stdout
    described = CliRunner().invoke(
        app, ["pipeline", "sql", "-f", "json"], input="describe matches;"
    )
    assert {"column": "rule", "type": "string"} in json.loads(described.stdout)


@pytest.mark.parametrize(("hub", "is_missing"), [("shopp", True), ("shop", False)])
def test_a_count_of_nothing_tells_a_mistyped_hub_from_a_quiet_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: str, is_missing: bool
) -> None:
    context = Context(Config(), spark, make_lake(spark, tmp_path))

    @contextmanager
    def started(*_: object, **__: object) -> Iterator[Context]:
        yield context

    monkeypatch.setattr(import_module("arauto.cli.pipeline.sql"), "starting_spark", started)
    query = "SELECT count(*) AS n FROM messages WHERE channel = 'none'"
    done = CliRunner().invoke(app, ["pipeline", "sql", query, "--hub", hub, "-f", "json"])
    assert json.loads(done.stdout) == [{"n": 0}]
    said = "the lake has no rows of a hub shopp; did you mean shop?"
    assert (said in " ".join(done.stderr.split())) is is_missing


@pytest.mark.slow
@pytest.mark.timeout(LAST_RESORT_S)
def test_the_command_answers_from_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    make_lake(spark, tmp_path / "lake")
    query = "SELECT hub, count(*) AS n FROM messages GROUP BY hub"
    options = ["--hub", "shop", "--format", "json", "--data-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "arauto", "pipeline", "sql", query, *options],
        capture_output=True,
        text=True,
        timeout=LAST_RESORT_S,
        check=True,
    )
    assert json.loads(done.stdout) == [{"hub": "shop", "n": 10}]
    assert "default log level" not in done.stderr
