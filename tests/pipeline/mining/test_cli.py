"""`arauto pipeline mine`: what it prints, and what it refuses before it mines."""

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner

from arauto.cli.main import app
from arauto.cli.pipeline.mine import _check_publishing, _publish, _show
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.run import Mined, mine
from tests.pipeline.mining.frames import messages
from tests.pipeline.sink.nodes import TOKEN, free_port, running_node


def test_patterns_changes_and_bounds_are_printed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(spark, tmp_path)
    options = MiningOptions(
        "shop", "sets", ("payload.items[*]",), caps=Caps(count_min=2, stop_share=1.0)
    )
    rows = [{"body": {"items": ["jam", "\x1b[1mtea"]}} for _ in range(3)]
    lake.table("messages").append(messages(spark, rows), query="test", batch_id=0)
    for _ in range(2):
        _show(Console(width=120), mine(lake, options, now_ms=1), options, 5)
    shown = capsys.readouterr().out
    assert "\\x1b[1mtea + jam" in shown
    assert "jam ⇒ \\x1b[1mtea" in shown
    assert "100%" in shown
    assert "run 1: 3 new, 0 gone, 0 changed" in shown
    assert "run 2: 0 new, 0 gone, 0 changed" in shown
    assert "3 baskets, 3 looked at" in shown


@pytest.mark.parametrize(
    ("channel", "token", "code"),
    [
        ("mined:*", TOKEN, Code.BAD_CHANNEL_NAME),
        ("", TOKEN, Code.BAD_CHANNEL_NAME),
        ("mined", "", Code.BAD_CONFIG),
        ("mined", TOKEN, Code.NODE_UNREACHABLE),
    ],
)
def test_a_run_whose_changes_could_not_be_told_is_not_begun(
    channel: str, token: str, code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("arauto.cli.pipeline.mine.starting_spark", no_spark)
    monkeypatch.setenv("ARAUTO_ADMIN__TOKEN", token)
    monkeypatch.setenv("ARAUTO_PIPELINE__API_URL", f"http://127.0.0.1:{free_port()}")
    asked = ["--hub", "shop", "--items", "channel", "--data-dir", str(tmp_path)]
    error = CliRunner().invoke(app, ["pipeline", "mine", *asked, "--publish", channel]).exception
    assert isinstance(error, ArautoError)
    assert error.code is code


def test_the_node_is_asked_for_the_hub_before_mining() -> None:
    with running_node() as node:
        node.put("/v1/hubs/shop", {})
        settings = _settings(node.url)
        _check_publishing(settings, "shop", "mined")
        with pytest.raises(ArautoError) as caught:
            _check_publishing(settings, "nowhere", "mined")
    assert caught.value.code is Code.UNKNOWN_HUB


def test_publishing_that_fails_says_which_run_was_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise ArautoError(Code.NODE_UNREACHABLE, "gone")

    monkeypatch.setattr("arauto.pipeline.node_api.NodeApi.publish", fails)
    options = MiningOptions("shop", "sets", ("channel",))
    # Nothing of a run but its number is looked at.
    mined = Mined(4, None, None, None)  # type: ignore[arg-type]
    with pytest.raises(ArautoError, match="gone"):
        _publish(_settings("http://127.0.0.1:1"), mined, options, "mined", Console(width=200))
    assert f"run 4 of job {options.job} is stored" in capsys.readouterr().out


def _settings(url: str) -> Config:
    config = Config()
    return msgspec.structs.replace(
        config,
        admin=msgspec.structs.replace(config.admin, token=TOKEN),
        pipeline=msgspec.structs.replace(config.pipeline, api_url=url),
    )
