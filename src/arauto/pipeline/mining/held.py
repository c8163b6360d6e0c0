"""Frames that are kept in memory while they are used more than once, and no longer."""

from types import TracebackType

from pyspark.sql import DataFrame

__all__ = ["Held"]


class Held:
    """Lets go of what it persisted when the `with` ends."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def persist(self, frame: DataFrame) -> DataFrame:
        """Keep a frame's rows from their first use on."""
        self._frames.append(frame.persist())
        return frame

    def __enter__(self) -> "Held":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for frame in self._frames:
            frame.unpersist()
