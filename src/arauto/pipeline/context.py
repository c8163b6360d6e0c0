"""What every command of the pipeline starts with: the configuration, Spark, and the lake."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from arauto.config.addresses import lake_dir
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.alone import only_one_in
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.session import open_spark

__all__ = ["Context", "only_writer", "open_context"]


@dataclass(frozen=True, slots=True)
class Context:
    """An open pipeline."""

    config: Config
    spark: SparkSession
    lake: Lake


@contextmanager
def open_context(
    config: Config,
    app_name: str,
    *,
    master: str = "",
    unattended: bool = False,
    tell: Callable[[str], object] | None = None,
) -> Iterator[Context]:
    """Start Spark over the configured lake.

    Args:
        config: the node's configuration.
        app_name: what a cluster's pages call it.
        master: where Spark runs, if not where the configuration says.
        unattended, tell: see `open_spark`.

    Raises:
        ArautoError: NO_JAVA.
    """
    pipeline = config.pipeline
    with tempfile.TemporaryDirectory(prefix="arauto-spark-", ignore_cleanup_errors=True) as made:
        spark_session = open_spark(
            app_name,
            Path(made),
            master=master or pipeline.master,
            driver_memory_mb=pipeline.driver_memory_mb,
            unattended=unattended,
            more=pipeline.spark,
            tell=tell,
        )
        with spark_session as spark:
            yield Context(config, spark, Lake(spark, lake_dir(config)))


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Be the only one that takes rows into this lake, or (of its upkeep's directory) replaces its files.

    Raises:
        ArautoError: LAKE_BUSY; BAD_CONFIG, the directory cannot be made or written to.
    """
    busy = ArautoError(
        Code.LAKE_BUSY, f"somebody else writes to {root}; wait for that or stop it first"
    )
    with only_one_in(root, ".lock", busy):
        yield
