"""The pipeline on a standalone Spark cluster: a master and two workers, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from arauto.pipeline.java import find_java_home
from arauto.pipeline.lake.log import CommitLog
from arauto.pipeline.schemas import TABLES
from tests.chaos.processes import free_port
from tests.pipeline.feed import Feed, beat, message
from tests.pipeline.waiting import LAST_RESORT_S, until

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_PACKAGE = "org.apache.spark.deploy"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The master's URL, once two workers have reported to it."""
    home = find_java_home(os.environ, tmp_path)
    environ = os.environ | {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    started = []
    commands = [
        ("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)),
        *(_worker(url, tmp_path / f"w{n}") for n in range(2)),
    ]
    try:
        for name, *rest in commands:
            with (tmp_path / f"{name}.log").open("ab") as log:
                command = [str(_SPARK_CLASS), f"{_PACKAGE}.{name}", *rest]
                started.append(
                    subprocess.Popen(
                        command, env=environ, stdout=log, stderr=log, start_new_session=True
                    )
                )
        _wait_for_workers(f"http://127.0.0.1:{page}/json/", 2)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _worker(master: str, directory: Path) -> tuple[str, ...]:
    size = ("--cores", "1", "--memory", "600m", "--webui-port", str(free_port()))
    return ("worker.Worker", "--host", "127.0.0.1", *size, "--work-dir", str(directory), master)


def _wait_for_workers(page: str, count: int) -> None:
    """Ask the master again and again: that is the only way it tells who has reported."""

    def have_reported() -> bool:
        try:
            with urllib.request.urlopen(page, timeout=LAST_RESORT_S) as answer:
                return bool(json.load(answer)["aliveworkers"] == count)
        except (OSError, ValueError):
            return False  # not listening yet, or its page is there and its figures are not

    until(have_reported, "the workers have reported to the master")


def test_a_cluster_of_two_workers_takes_in_every_row(
    cluster: str, feed: Feed, tmp_path: Path
) -> None:
    feed.write(*(message(n, json.dumps({"n": n})) for n in range(500)), beat(501))
    feed.export(rows_max=100)
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "storage": {"dataDir": str(tmp_path / "data")},
                "pipeline": {
                    "segmentsDir": str(feed.segments),
                    "metricsPort": 0,
                    "spark": {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"},
                },
            }
        )
    )
    arguments = ["pipeline", "backfill", "--config", str(config), "--master", cluster]
    done = subprocess.run(
        [sys.executable, "-m", "arauto", *arguments],
        capture_output=True,
        text=True,
        timeout=LAST_RESORT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "501 rows taken in" in done.stderr

    assert _rows(tmp_path, "journal") == 501
    assert _rows(tmp_path, "messages") == 500
    assert _rows(tmp_path, "rollup_5m") > 0
    # Both workers ran executors: the work did not stay with the driver.
    assert all(list((tmp_path / f"w{n}").glob("app-*/*")) for n in range(2))


def _rows(directory: Path, name: str) -> int:
    schema = TABLES[name]
    table = directory / "data" / "lake" / schema.layer / name
    return CommitLog(table, schema.version).state().rows
