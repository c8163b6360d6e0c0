"""What goes wrong on Spark's side, in one line."""

from py4j.protocol import (  # type: ignore[import-untyped]
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
)
from pyspark.errors import PySparkException

__all__ = ["FAULTS", "first_line", "is_out_of_memory"]

#: All that a call into Spark raises on purpose.
FAULTS = (PySparkException, Py4JError, ConnectionError)
_LEN_MAX = 500


def first_line(error: Exception) -> str:
    """What Spark says, without its plans, hints and stack."""
    said = str(error)
    if isinstance(error, PySparkException):
        said = error.getMessage() or said
    elif isinstance(error, Py4JJavaError):
        said = error.java_exception.getMessage() or said
    return said.strip().split("\n")[0][:_LEN_MAX]


def is_out_of_memory(error: Exception) -> bool:
    """Whether it asked for more than there is; a Java that ended did so for this reason."""
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return True
    said = str(error)
    return any(word in said for word in ("OutOfMemoryError", "maxResultSize", "MAX_RESULT_SIZE"))
