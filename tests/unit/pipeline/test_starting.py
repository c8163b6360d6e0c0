"""What can be known before Spark has started is told before."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from arauto.cli.main import app
from arauto.cli.pipeline.common import starting_spark
from arauto.config.addresses import UPKEEP
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline import context
from arauto.pipeline.context import only_writer


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
