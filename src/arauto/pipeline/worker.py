"""Work that goes on until it is told to stop, and starts again when it fails."""

import re
import time
from collections.abc import Callable
from threading import Event, Thread

import structlog
from pyspark.sql.streaming.query import StreamingQuery

from arauto.errors import ArautoError

__all__ = ["Worker", "first_line", "lies_in_no_row", "stop_query"]

_log = structlog.get_logger(__name__)

_FIRST_WAIT_S = 1.0
_MOST_WAIT_S = 60.0
#: A run that lasted this long counts as a success: the next failure is waited for shortly again.
_STEADY_S = 120.0
#: How long a stopping query may take to finish its batch.
_PAUSE_WAIT_S = 15.0
_PAUSE_LOOK_S = 0.05
#: As the system says it, through Java, Python or RocksDB.
_DISK = re.compile(
    r"(Exception|Error): .*(No space left on device|Disk quota exceeded|Read-only file system)"
)


class Worker(Thread):
    """Runs `work` in a thread of its own.

    Args:
        name: for logs and metrics.
        work: returns only when `stop` is set; whatever it raises, it is called again after a while.
        stop: set to end it.
        on_restart: called before each further call.
        now_s: a clock that never goes back.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], None],
        stop: Event,
        on_restart: Callable[[str], None],
        now_s: Callable[[], float],
    ) -> None:
        super().__init__(name=f"pipeline-{name}", daemon=True)
        self._label = name
        self._work = work
        self._stop_event = stop
        self._on_restart = on_restart
        self._now_s = now_s
        self.failure = ""
        """What it failed with last, while it waits to start again."""

    def run(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._stop_event.is_set():
            began_s = self._now_s()
            try:
                self._work()
                self.failure = ""
            except Exception as error:
                # Whatever it was, the checkpoint has what was done, and the others go on.
                if self._stop_event.is_set():
                    return
                self.failure = first_line(error)
                if self._now_s() - began_s >= _STEADY_S:
                    wait_s = _FIRST_WAIT_S
                _log.error(
                    "failed, and will be started again",
                    query=self._label,
                    wait_s=wait_s,
                    error=self.failure,
                )
                if self._stop_event.wait(wait_s):
                    return
                wait_s = min(wait_s * 2, _MOST_WAIT_S)
                self.failure = ""
                self._on_restart(self._label)


def stop_query(query: StreamingQuery) -> None:
    """Stop a query between two batches if it has a pause soon; what is cut off would be done again."""
    end_s = time.monotonic() + _PAUSE_WAIT_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < end_s:
        time.sleep(_PAUSE_LOOK_S)
    query.stop()


def lies_in_no_row(error: Exception) -> bool:
    """Whether it says what is wrong, and no row is to blame: the node does not answer, the disk is full."""
    if isinstance(error, ArautoError):
        return True
    text = str(error)
    return "ArautoError: [" in text or bool(_DISK.search(text))


def first_line(error: Exception) -> str:
    """What matters of an error; Spark's go on for pages."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    # An error of ours inside of Spark's says it best, else what lies at the bottom of it: a full disk, say.
    ours = [line for line in lines if "ArautoError: [" in line]
    causes = [line for line in lines if line.startswith("Caused by: ")][-1:]
    return (ours or causes or lines or [type(error).__name__])[0].strip()[:500]
