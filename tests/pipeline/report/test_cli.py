"""`arauto pipeline report`, as it is called."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arauto.cli.main import app
from arauto.errors import ArautoError, Code
from tests.pipeline.waiting import LAST_RESORT_S


def test_a_directory_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["pipeline", "report", "-o", str(tmp_path / "nowhere" / "r.html")]
    )
    assert result.exit_code == 2
    assert "there is no directory" in result.output


def test_an_empty_hub_is_refused_and_is_not_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.cli.pipeline.report.starting_spark", _no_spark)
    page = tmp_path / "r.html"
    error = CliRunner().invoke(app, ["pipeline", "report", "--hub", "", "-o", str(page)]).exception
    assert isinstance(error, ArautoError)
    assert error.code is Code.BAD_HUB_NAME
    assert not page.exists()


def _no_spark(*_: object, **__: object) -> None:
    raise AssertionError("Spark was started")


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_time_that_is_none_is_told(option: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "report", option, "yesterday-ish"])
    assert result.exit_code == 2


@pytest.mark.slow
@pytest.mark.timeout(LAST_RESORT_S)
def test_the_command_writes_a_page_for_an_empty_lake(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "arauto",
            "pipeline",
            "report",
            "-o",
            str(page),
            "--data-dir",
            str(tmp_path),
        ],
        capture_output=True,
        timeout=LAST_RESORT_S,
        check=True,
    )
    assert "Nothing happened in this time" in page.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".html"] == ["r.html"]
