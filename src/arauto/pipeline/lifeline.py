"""Whether Spark's Java is still there, and how it ended. The only place that knows how PySpark holds it.

Java is a process of its own, and nothing of PySpark tells when it has gone: each call fails by itself,
and what only waits goes on waiting.
"""

import contextlib
import signal
from collections.abc import Callable
from threading import Event, Thread

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code

__all__ = ["ENDS_OUT_OF_MEMORY", "Lifeline", "how_it_ended", "spark_ended", "stop_spark"]

#: Out of memory, Java would go on with whatever threads it has left. With this it ends, with code 3.
ENDS_OUT_OF_MEMORY = "-XX:+ExitOnOutOfMemoryError"
_OUT_OF_MEMORY_CODE = 3
_LOOK_S = 1.0


def how_it_ended(spark: SparkSession) -> str:
    """Why Spark can do nothing any more, in words; "" while it can. Waits as long as Java takes to answer."""
    context = spark.sparkContext
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return _of_code(process.returncode)
    try:
        stopped = context._jsc is None or context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return "Java does not answer"
    return "somebody stopped it" if stopped else ""


def spark_ended(how: str) -> ArautoError:
    """The error for people."""
    return ArautoError(
        Code.SPARK_ENDED, f"Spark has ended: {how}; start again, all goes on from where it was"
    )


def stop_spark(spark: SparkSession) -> None:
    """Stop Spark, unless it has ended by itself."""
    if how_it_ended(spark):
        return
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()


class Lifeline(Thread):
    """Looks after Java from a thread of its own, since a Java that hangs holds up whoever asks it.

    Args:
        spark: whose Java.
        stop: set to end it.
        on_ended: called once, with what happened.
    """

    def __init__(self, spark: SparkSession, stop: Event, on_ended: Callable[[str], None]) -> None:
        super().__init__(name="pipeline-lifeline", daemon=True)
        self._spark = spark
        self._stop_event = stop
        self._on_ended = on_ended

    def run(self) -> None:
        while not self._stop_event.wait(_LOOK_S):
            how = how_it_ended(self._spark)
            if how and not self._stop_event.is_set():
                self._on_ended(how)
                return


def _of_code(code: int) -> str:
    if code == _OUT_OF_MEMORY_CODE:
        return "Java had no memory left (pipeline.driverMemoryMb)"
    if code >= 0:
        return f"Java ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"Java was ended by signal {name}"
