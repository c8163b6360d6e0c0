"""The Python that Spark starts for itself."""

from pathlib import Path

from pyspark.sql import SparkSession


def test_workers_take_the_installed_pyspark_and_not_an_archive_that_each_would_compile_anew(
    spark: SparkSession,
) -> None:
    def places(_rows: object) -> list[str]:
        import pyspark

        return [pyspark.__file__]

    found = spark.sparkContext.parallelize([1], 1).mapPartitions(places).collect()
    assert [Path(each).is_file() for each in found] == [True]
