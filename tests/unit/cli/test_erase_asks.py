"""`arauto pipeline erase` asks before it erases, and says what to do where nobody can be asked."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from arauto.cli.main import app


@pytest.mark.parametrize("answer", ["", "n\n"])
def test_without_a_yes_nothing_is_erased_and_the_option_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    erase = ["pipeline", "erase", "--hub", "shop", "--user", "ana"]
    done = CliRunner().invoke(app, erase, input=answer)
    assert done.exit_code == 2
    assert "nothing was erased" in done.stderr
    assert "give --yes" in done.stderr
    assert list(tmp_path.iterdir()) == []
