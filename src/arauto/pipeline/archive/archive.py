"""The archive: takes segments into bronze, a few at a time, until none is left that the lake lacks."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import structlog

from arauto.pipeline.archive.bronze import Taken, take
from arauto.pipeline.archive.offers import Offers
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.metrics import PipelineMetrics
from arauto.pipeline.schemas import JOURNAL

__all__ = ["ARCHIVE", "Archive"]

_log = structlog.get_logger(__name__)

#: The name in logs and metrics.
ARCHIVE = "archive"
#: The name under which batches are committed. Earlier versions used others, so no number is taken.
_QUERY = "segments"


class Archive:
    """Takes the segments of one directory. Only for whoever is the only writer of the lake.

    Args:
        lake: where to.
        directory: where segments are offered.
        metrics: where progress is shown.
        files_max: segments taken in one batch.
        lane: held while a batch is taken.
    """

    def __init__(
        self,
        lake: Lake,
        directory: Path,
        metrics: PipelineMetrics,
        *,
        files_max: int,
        lane: AbstractContextManager[object] | None = None,
    ) -> None:
        self._spark = lake.spark
        self._table = lake.table("journal")
        self._offers = Offers(directory)
        self._metrics = metrics
        self._files_max = files_max
        self._lane = nullcontext() if lane is None else lane

    def take_next(self) -> Taken | None:
        """Take one batch; None if nothing was offered that the lake lacks.

        Which rows a batch has may differ when it is repeated after a crash: until its commit nothing of it
        counts, and the commit says which rows there are.
        """
        began_s = time.monotonic()
        state = self._table.state()
        offers, refused = self._offers.fresh(state.coverage, self._files_max)
        for refusal in refused:
            _log.error("a segment cannot be taken", segment=refusal.name, reason=refusal.reason)
            self._metrics.segments_refused.inc()
        if not offers:
            return None
        paths = [str(offer.path) for offer in offers]
        batch_id = state.batches.get(_QUERY, -1) + 1
        with self._lane:
            frame = self._spark.read.schema(JOURNAL).parquet(*paths)
            taken = take(self._table, frame, _QUERY, batch_id)
        assert taken is not None, "somebody else writes to this lake"
        if taken.duplicates:
            _log.warning("rows came twice and were left out", rows=taken.duplicates)
            self._metrics.duplicates.inc(taken.duplicates)
        batch_s = time.monotonic() - began_s
        self._metrics.count_batch(ARCHIVE, taken.rows + taken.duplicates, batch_s)
        _log.info(
            "batch done", query=ARCHIVE, batch=batch_id, rows=taken.rows, seconds=round(batch_s, 3)
        )
        return taken
