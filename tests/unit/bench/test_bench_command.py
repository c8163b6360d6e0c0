"""`arauto bench`: what it prints, writes and answers to the shell."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from arauto.bench.peers import MissingPeer, installed
from arauto.bench.results import Comparison, IdleResult, LatencyResult, Report
from arauto.cli.bench import app

_SHORT = ("--seconds", "0.2", "--warmup", "0", "--rounds", "1")


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def redis() -> str:
    """The name of a peer that is installed and quick to start."""
    try:
        installed("redis")
    except MissingPeer as error:
        pytest.skip(str(error))
    return "redis"


def test_fanout_prints_json_for_scripts(runner: CliRunner) -> None:
    options = ("--subscribers", "3", "--in-flight", "4", "--peers", "redis", "--json")
    done = runner.invoke(app, ["fanout", *_SHORT, *options])
    assert done.exit_code == 0, done.output
    result = msgspec.json.decode(done.stdout, type=Comparison)
    labels = {row.label for row in result.rows} | set(result.left_out)
    assert labels == {"arauto proto", "arauto json", "redis"}
    assert all(row.is_exact and row.per_s.median > 0 for row in result.rows)


def test_spread_prints_a_table_for_people(runner: CliRunner, redis: str) -> None:
    options = ("--channels", "3", "--in-flight", "4", "--peers", redis, "--flavour", "")
    done = runner.invoke(app, ["spread", *_SHORT, *options])
    assert done.exit_code == 0, done.output
    assert "spread, 3 channels, 4 in flight" in done.stdout
    assert "1.00 ×" in done.stdout


def test_latency_at_half_of_the_maximum(runner: CliRunner, redis: str) -> None:
    options = ("--subscribers", "3", "--peers", redis, "--flavour", "", "--json")
    done = runner.invoke(app, ["latency", *_SHORT, *options])
    assert done.exit_code == 0, done.output
    row = msgspec.json.decode(done.stdout, type=LatencyResult).rows[0]
    assert row.rate > 0
    assert row.with_stalled is not None


def test_idle_reports_memory(runner: CliRunner, redis: str) -> None:
    options = ("--sessions", "50", "--peers", redis, "--flavour", "", "--json")
    done = runner.invoke(app, ["idle", *options])
    assert done.exit_code == 0, done.output
    row = msgspec.json.decode(done.stdout, type=IdleResult).rows[0]
    assert row.after.rss_bytes > row.before.rss_bytes > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_writes_a_results_page(runner: CliRunner, tmp_path: Path) -> None:
    options = ("--sessions", "50", "--peers", "redis", "--flavour", "proto")
    done = runner.invoke(app, ["all", *_SHORT, *options, "--output", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    assert len(report.comparisons) == 4 + 1 + 2
    assert len(report.checks) == 4 + 1 + 2 + 1 + 2
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fanout", "--peers", "carrier-pigeon"],
        ["fanout", "--flavour", "vanilla"],
        ["fanout", "--subscribers", "0"],
        ["stored", "--batch", "10", "--in-flight", "5"],
        ["profile", "--tool", "guess"],
        ["profile", "--mode", "idle"],
    ],
)
def test_bad_options_are_refused_before_anything_starts(
    runner: CliRunner, arguments: list[str]
) -> None:
    assert runner.invoke(app, arguments).exit_code == 2
