"""Every function of this Spark was looked at."""

from pyspark.sql import SparkSession

from arauto.pipeline.sql.functions import ALLOWED, DENIED


def test_each_function_of_spark_is_either_allowed_or_denied(spark: SparkSession) -> None:
    state = spark._jsparkSession.sessionState()
    listed = [state.functionRegistry().listFunction(), state.tableFunctionRegistry().listFunction()]
    names = {some.apply(i).funcName() for some in listed for i in range(some.size())}
    assert names - ALLOWED - DENIED == set()
    assert not ALLOWED & DENIED
