"""One Spark for all tests of a process: starting one takes longer than most tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.session import open_spark

#: Compile only a little: tests end before thorough compilation pays.
_QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made: Path = tmp_path_factory.mktemp("spark")
    with open_spark("arauto-tests", made, master="local[2]", more=_QUICK) as session:
        yield session
