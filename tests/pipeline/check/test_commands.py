"""The commands as they are typed, each in a process of its own with its own Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.lake.table import Lake
from tests.pipeline.archive.support import take_segments
from tests.pipeline.feed import Feed, message
from tests.pipeline.waiting import LAST_RESORT_S

#: The first test of a process waits for Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(LAST_RESORT_S)


def _arauto(data_dir: Path, segments: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "ARAUTO_PIPELINE__SEGMENTS_DIR": str(segments)}
    command = [sys.executable, "-m", "arauto", "pipeline", *arguments, "--data-dir", str(data_dir)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_check_tells_a_gap_by_its_exit_code_and_erase_keeps_the_count(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    feed.write(*(message(n) for n in range(6)))
    feed.export(rows_max=2)
    sorted(feed.segments.glob("seg-*"))[1].unlink()
    lake = Lake(spark, data_dir / "lake")
    take_segments(lake, feed.segments)
    for name in DERIVED:
        follow(lake, name)
    erased = _arauto(data_dir, feed.segments, "erase", "--hub", "shop", "--user", "ana", "--yes")
    assert erased.returncode == 0, erased.stderr
    assert lake.table("messages").state().rows == 0
    checked = _arauto(data_dir, feed.segments, "check", "--json")
    assert checked.returncode == 1, checked.stderr
    report = json.loads(checked.stdout)
    (node,) = report["nodes"]
    assert (node["rows"], node["rowsExpected"], node["missing"]) == (4, 4, [[3, 4]])
    assert report["problems"] == ["node n1: 2 rows are missing: 3-4"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit",), "say one of --message, --user and --channel"),
        (("audit", "--user", "ana", "--from", "yesterday"), "is no time"),
        (("audit", "--channel", "a b"), "no white space"),
        (("erase", "--hub", "no hub", "--user", "ana", "--yes"), "a hub name is"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_starts(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = _arauto(tmp_path, tmp_path, *arguments)
    assert refused.returncode != 0
    assert said in " ".join(refused.stderr.replace("│", " ").split())
    assert "incubator" not in refused.stderr
