"""`arauto pipeline replay`, as a person runs it: a real process, killed for real."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from arauto.cli.pipeline import app
from arauto.cli.pipeline.replay import parse_speed
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from tests.pipeline.replay.rows import message, save
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, free_port
from tests.pipeline.waiting import LAST_RESORT_S, until

RANGE = ["--from", "2026-11-01", "--until", "2026-11-02"]
COUNT = 120
#: Starting Spark takes long on a busy machine.
_PATIENCE_S = LAST_RESORT_S


@pytest.mark.parametrize(
    ("text", "speed"), [("original", 1.0), ("full", 0.0), ("2", 2.0), ("0.5x", 0.5)]
)
def test_a_speed_is_a_word_or_a_factor(text: str, speed: float) -> None:
    assert parse_speed(text) == speed


def test_what_is_no_speed_is_said_to_be_that() -> None:
    with pytest.raises(typer.BadParameter, match="'fast' is no speed"):
        parse_speed("fast")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either channels, or --resume"),
        (["a:*", "--resume", "r1"], "either channels, or --resume"),
        (["a:*", "--speed", "fast"], "is no speed"),
        (["a:*", "--from", "yesterday"], "is no time"),
    ],
)
def test_wrong_usage_is_said_before_spark_starts(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["replay", *arguments], env={"TERM": "dumb", "COLUMNS": "200"})
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a b"], Code.BAD_CHANNEL_NAME),
        (["a:*", "--speed", "-1"], Code.BAD_FIELD),
        (["a:*", "--to", "x:{nope}"], Code.BAD_FIELD),
        (["--resume", "unknown"], Code.NOT_FOUND),
        (["a:*"], Code.NODE_UNREACHABLE),
    ],
)
def test_errors_have_their_numbers_and_come_before_spark_starts(
    tmp_path: Path, arguments: list[str], code: Code
) -> None:
    result = CliRunner().invoke(
        app, ["replay", *arguments], env=environment(tmp_path, f"http://127.0.0.1:{free_port()}")
    )
    assert isinstance(result.exception, ArautoError)
    assert result.exception.code is code


def environment(data_dir: Path, url: str) -> dict[str, str]:
    return {
        "ARAUTO_ADMIN__TOKEN": TOKEN,
        "ARAUTO_PIPELINE__API_URL": url,
        "ARAUTO_PIPELINE__MASTER": "local[1]",
        "ARAUTO_STORAGE__DATA_DIR": str(data_dir),
    }


@contextmanager
def command(data_dir: Path, node: KeepingNode, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "arauto", "pipeline", "replay", *arguments],
        env=os.environ | environment(data_dir, node.url) | {"COLUMNS": "200"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=data_dir,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_dry_run_says_what_would_come_and_publishes_nothing(
    spark: SparkSession, node: KeepingNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    save(lake, [message(seq=n, after_s=n, channel=f"d:{n % 30}") for n in range(600)])

    @contextmanager
    def started(config: Config, *_: object, **__: object) -> Iterator[Context]:
        """The tests' own Spark: the command's would end it."""
        yield Context(config, spark, lake)

    monkeypatch.setattr("arauto.cli.pipeline.replay.starting_spark", started)
    given = ["d:*", "--hub", "shop", *RANGE, "--speed", "2", "--id", "dry", "--dry-run"]
    result = CliRunner().invoke(app, ["replay", *given], env=environment(tmp_path, node.url))
    assert result.exit_code == 0, result.output
    assert "600 messages of 30 channels" in result.output
    assert "from 2026-11-01 12:00:00 to 2026-11-01 12:09:59 UTC" in result.output
    assert "          20  d:0" in result.output
    assert "and 10 more channels" in result.output
    assert "2 × the original speed: takes 0:05:00 at least" in result.output
    assert node.history("shop", "replay:dry:d:0") == []
    assert not (tmp_path / "lake" / "_replays").exists()


def replayed(node: KeepingNode) -> list[int]:
    return [each["data"]["n"] for each in node.history("shop", "replay:r1:a:1")]


def wait_for(node: KeepingNode, count: int, process: subprocess.Popen[str]) -> None:
    until(
        lambda: len(replayed(node)) >= count,
        f"{count} messages",
        is_over=lambda: process.poll() is not None,
        said=lambda: process.communicate()[1] if process.poll() is not None else "",
    )


@pytest.mark.slow
@pytest.mark.timeout(3 * _PATIENCE_S)
def test_a_killed_a_stopped_and_a_resumed_replay_publish_everything_once(
    spark: SparkSession, node: KeepingNode, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    save(lake, [message(seq=n, after_s=n, channel="a:1") for n in range(COUNT)])
    given = ["a:*", "--hub", "shop", *RANGE, "--speed", "full", "--rate", "12", "--id", "r1"]
    with command(tmp_path, node, *given) as process:
        wait_for(node, 20, process)
        process.kill()
        process.wait(_PATIENCE_S)
    with command(tmp_path, node, "--resume", "r1") as process:
        wait_for(node, 60, process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=_PATIENCE_S)[1]
        assert process.returncode == 130, said
    assert "go on with: arauto pipeline replay --resume r1" in said
    with command(tmp_path, node, "--resume", "r1") as process:
        said = process.communicate(timeout=_PATIENCE_S)[1]
        assert process.returncode == 0, said
    assert "replay r1 is done" in said
    assert replayed(node) == list(range(COUNT))
