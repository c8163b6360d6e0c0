"""What can be known before Spark has started is told before."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from arauto.cli.main import app
from arauto.cli.pipeline import run
from arauto.cli.pipeline.common import starting_spark
from arauto.config.addresses import UPKEEP
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline import context
from arauto.pipeline.context import only_writer


@pytest.fixture(autouse=True)
def no_log_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is set up once stays so for the tests that follow."""
    monkeypatch.setattr(run, "configure_logging", lambda **_: None)


def test_a_busy_lake_is_told_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(context, "open_spark", lambda *args, **_: started.append(args))
    console = Console(file=io.StringIO())
    with (
        only_writer(tmp_path),
        pytest.raises(ArautoError) as refused,
        starting_spark(Config(), "arauto-test", console, alone=tmp_path),
    ):
        pass
    assert refused.value.code is Code.LAKE_BUSY
    assert started == []


@pytest.mark.parametrize("command", ["compact", "erase"])
def test_commands_that_replace_files_tell_before_spark_is_started_that_another_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(context, "open_spark", lambda *args, **_: started.append(args))
    given = ["--hub", "shop", "--user", "ana", "--yes"] if command == "erase" else []
    with only_writer(tmp_path / "lake" / UPKEEP):
        arguments = ["pipeline", command, *given, "--data-dir", str(tmp_path)]
        result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ArautoError), result.output
    assert result.exception.code is Code.LAKE_BUSY
    assert started == []


def test_a_lake_that_cannot_be_written_to_is_told_at_once_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(context, "open_spark", lambda *args, **_: started.append(args))
    lake = tmp_path / "lake"
    # Neither can its owner open this for writing.
    (lake / ".lock").mkdir(parents=True)
    result = CliRunner().invoke(app, ["pipeline", "run", "--data-dir", str(tmp_path)])
    assert isinstance(result.exception, ArautoError), result.output
    assert result.exception.code is Code.BAD_CONFIG
    assert str(lake) in result.exception.message
    assert started == []


def test_a_lock_that_is_there_does_not_make_a_directory_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".lock").touch()
    # Whoever runs the tests may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_args: False)
    with pytest.raises(ArautoError, match="cannot be written to") as refused, only_writer(tmp_path):
        pass
    assert refused.value.code is Code.BAD_CONFIG


def test_what_is_mined_is_refused_at_once_where_it_cannot_be_kept_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(context, "open_spark", lambda *args, **_: started.append(args))
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    arguments = ["--hub", "shop", "--items", "payload.sku", "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(app, ["pipeline", "mine", *arguments])
    assert isinstance(result.exception, ArautoError), result.output
    assert result.exception.code is Code.BAD_CONFIG
    assert str(tmp_path) in result.exception.message
    assert (started, list(tmp_path.iterdir())) == ([], [])
