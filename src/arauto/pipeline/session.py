"""Makes the Spark session: which Java, which master, and the settings everything here relies on."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.java import find_java_home
from arauto.pipeline.lifeline import ENDS_OUT_OF_MEMORY, how_it_ended, spark_ended, stop_spark
from arauto.pipeline.master import check_master
from arauto.pipeline.said import Said, hearing
from arauto.printable import printable

__all__ = ["open_spark", "spark_settings", "unhurried"]

#: The bridge to Java tells every call it gets.
logging.getLogger("py4j").setLevel(logging.WARNING)

_ROCKS = "spark.sql.streaming.stateStore.rocksdb"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="rules"><schedulingMode>FAIR</schedulingMode><weight>3</weight></pool>
  <pool name="archive"><schedulingMode>FAIR</schedulingMode><weight>1</weight></pool>
  <pool name="rollup"><schedulingMode>FAIR</schedulingMode><weight>1</weight></pool>
</allocations>
"""
#: Only errors, on standard error: the rest is for those who develop Spark.
_LOGGING = """rootLogger.level = error
# As the one that PySpark starts with: else Spark says that it lowers the level to warnings, and does.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
"""


def spark_settings(
    made_dir: Path, *, driver_memory_mb: int, unattended: bool = False
) -> dict[str, str]:
    """What every session is made with. Why, setting by setting, where it is not the obvious choice."""
    return {
        # The number of state partitions is frozen into a checkpoint; 2 is right for a machine of two cores
        # and still fine on a few more.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Plans are small and run often: planning them again and again costs more than it finds out.
        "spark.sql.adaptive.enabled": "false",
        # Sketches are aggregated in a hash table; the default gives up at 128 groups and sorts instead.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
        # The old type has no statistics, and files are chosen by their times.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        # Readers look at time and hub ranges of files; a few megabytes of rows each make that useful.
        "spark.sql.parquet.aggregatePushdown": "true",
        # Files name their rows' types; guessing would read them twice and could guess wrong.
        "spark.sql.streaming.schemaInference": "false",
        # Files are named one by one; beyond 32 of them Spark would start a job to look at each.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
        f"{_ROCKS}.changelogCheckpointing.enabled": "true",
        f"{_ROCKS}.trackTotalNumberOfRows": "true",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Timers fire in batches without data.
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        # An idle query looks for news this often; the default of 10 ms keeps a core busy with nothing.
        "spark.sql.streaming.pollingDelay": "200ms",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _made(made_dir, "pools.xml", _POOLS).as_uri(),
        "spark.driver.memory": f"{driver_memory_mb}m",
        # Otherwise the driver listens on whatever address the machine's name leads to.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # What goes to Python at a time. Four times as much would be usual, for each of the tasks.
        "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.warehouse.dir": str(made_dir / "warehouse"),
        "spark.local.dir": str(made_dir / "scratch"),
        "spark.driver.defaultJavaOptions": (
            f"{ENDS_OUT_OF_MEMORY if unattended else ''} "
            f"-Dlog4j2.configurationFile={_made(made_dir, 'log4j2.properties', _LOGGING)}"
        ),
    }


@contextmanager
def open_spark(
    app_name: str,
    made_dir: Path,
    *,
    master: str = "local[*]",
    driver_memory_mb: int = 1_024,
    unattended: bool = False,
    more: Mapping[str, str] | None = None,
    tell: Callable[[str], object] | None = None,
) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end.

    Args:
        app_name: what a cluster's pages call it.
        made_dir: a directory for what Spark needs on disk while it runs.
        master: where it runs.
        driver_memory_mb: heap of the driver.
        unattended: it runs for days, so Java ends when it is out of memory, for somebody to start it anew.
            Else only what asked for too much fails.
        more: settings that win over the usual ones.
        tell: given what Spark prints, line by line; None = it is shown only if Spark fails.

    Raises:
        ArautoError: NO_JAVA; BAD_CONFIG, there is no such master; SPARK_ENDED, whatever else failed because
            of it.
    """
    check_master(master)
    made_dir = made_dir.resolve()
    made_dir.mkdir(parents=True, exist_ok=True)
    with hearing(made_dir, tell or (lambda _line: None)) as said:
        os.environ["JAVA_HOME"] = str(find_java_home(os.environ, made_dir, said.path))
        builder = _builder(app_name, made_dir, master)
        settings = spark_settings(
            made_dir, driver_memory_mb=driver_memory_mb, unattended=unattended
        )
        if not master.startswith("local"):
            # Executors on other machines must find the driver.
            del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
        for name, value in (settings | dict(more or {})).items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception:
            _show(said)
            raise
        try:
            yield spark
        except Exception as error:
            how = how_it_ended(spark)
            if how and tell is None:
                _show(said)
            if not how or (isinstance(error, ArautoError) and error.code is Code.SPARK_ENDED):
                raise
            raise spark_ended(how) from error
        finally:
            said.ending()
            stop_spark(spark)


def _builder(app_name: str, made_dir: Path, master: str) -> Any:
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must be this very Python, with the packages of this environment.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = _quick_python(made_dir) if local else sys.executable
    if master == "local[*]":
        # Rules have a place per core, also while a task of `unhurried` work goes on for seconds.
        master = f"local[{(os.cpu_count() or 1) + _half_the_cores()}]"
    return SparkSession.builder.appName(app_name).master(master)


def _show(said: Said) -> None:
    """What Spark said last, for whoever looks for the reason."""
    said.stop()
    for line in said.last:
        sys.stderr.write(f"{printable(line)}\n")


def unhurried(spark: SparkSession) -> SparkSession:
    """A session of the same Spark for work that has time.

    It divides its work into no more tasks than half the cores, for which there are places beside those of
    what is in a hurry.
    """
    tasks = str(_half_the_cores())
    session = spark.newSession()
    for name in ("shuffle.partitions", "files.minPartitionNum", "leafNodeDefaultParallelism"):
        session.conf.set(f"spark.sql.{name}", tasks)
    return session


def _half_the_cores() -> int:
    return max(1, (os.cpu_count() or 1) // 2)


def _quick_python(made_dir: Path) -> str:
    """A launcher of this Python that finds the installed PySpark first.

    Spark puts an archive of PySpark before all else, which every new Python would have to compile again. That
    takes three times as long, and a query fails whose Python is not there after ten seconds.
    """
    installed = shlex.quote(str(Path(pyspark.__file__).parent.parent))
    launcher = _made(
        made_dir,
        "python",
        f"#!/bin/sh\nPYTHONPATH={installed}:$PYTHONPATH\nexport PYTHONPATH\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n',
    )
    launcher.chmod(0o755)
    # Where nothing may be executed, the usual way still works.
    return str(launcher) if os.access(launcher, os.X_OK) else sys.executable


def _made(made_dir: Path, name: str, text: str) -> Path:
    path = made_dir / name
    made_dir.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
