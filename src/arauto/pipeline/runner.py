"""The running pipeline: archive, roll-up and rules, side by side in one Spark driver."""

import time
from pathlib import Path
from threading import Event

import structlog
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from arauto.config.addresses import admin_url, segments_dir
from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.bronze import batches_of, take
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.context import Context
from arauto.pipeline.feed import journal_stream, journal_url, segments_stream
from arauto.pipeline.metrics import PipelineMetrics, ProgressListener
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.rollup.serve import Destination, serve
from arauto.pipeline.rules.deliver import Delivery
from arauto.pipeline.rules.registry import RuleSet, rule_set
from arauto.pipeline.rules.reload import Watch, look, restarted
from arauto.pipeline.rules.stream import PLAN_VERSION, QUERY, start_rules
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.upkeep import crowded, keep_up, only_upkeep
from arauto.pipeline.worker import Worker

__all__ = ["Pipeline"]

_log = structlog.get_logger(__name__)

_ARCHIVE = "archive"
_ARCHIVE_VERSION = 1
_RULES_POLL_S = 3
#: How often heartbeats become a batch once it has been silent for long.
_IDLE_S = 60
_UPKEEP_EVERY_S = 60.0
_STOP_WAIT_S = 30.0
#: How long a stopping query may take to finish its batch.
_PAUSE_WAIT_S = 15.0
_PAUSE_LOOK_S = 0.05


class Pipeline:
    """All long-lived work over one lake.

    Args:
        context: the configuration, Spark and the lake.
        token: the node's admin token; "" = roll-ups stay in the lake and no rules run.
        metrics: where progress is shown.
    """

    def __init__(self, context: Context, token: str, metrics: PipelineMetrics) -> None:
        self._config = context.config
        self._settings = context.config.pipeline
        self._spark = context.spark
        self._lake = context.lake
        self._token = token
        self._url = admin_url(context.config)
        self._segments: Path = segments_dir(context.config).resolve()
        self._metrics = metrics
        self._stop = Event()
        self._archived = Event()
        self._listener = ProgressListener(metrics)
        self.rules = RuleSet()
        """What runs just now."""
        self.workers: list[Worker] = []

    def start(self) -> None:
        """Start everything; returns at once."""
        self._segments.mkdir(parents=True, exist_ok=True)
        self._spark.streams.addListener(self._listener)
        work = {_ARCHIVE: self._archive, "rollup": self._derive}
        if self._token:
            work["rules"] = self._correlate
        if self._settings.compact_after_files:
            work["upkeep"] = self._keep_up
        for name, each in work.items():
            self.workers.append(Worker(name, each, self._stop, self._count_restart, time.monotonic))
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """End everything, each after the batch it is at."""
        self._stop.set()
        self._archived.set()
        for worker in self.workers:
            worker.join(_STOP_WAIT_S)
        self._spark.streams.removeListener(self._listener)

    def backfill(self) -> None:
        """Take in all there is now, once."""
        self._segments.mkdir(parents=True, exist_ok=True)
        query = self._start_archive(available_now=True)
        query.awaitTermination()
        self._follow_all()

    # --- archive -----------------------------------------------------------------------------------

    def _archive(self) -> None:
        self._wait_for(self._start_archive())

    def _start_archive(self, *, available_now: bool = False) -> StreamingQuery:
        self._use_pool(_ARCHIVE)
        stream = segments_stream(
            self._spark, self._segments, files_max=self._settings.files_per_batch_max
        )
        checkpoint = self._lake.checkpoint(_ARCHIVE, _ARCHIVE_VERSION)
        writer = (
            stream.writeStream.queryName(_ARCHIVE)
            .option("checkpointLocation", str(checkpoint))
            .foreachBatch(self._take)
        )
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(self._settings.archive_interval_s * 1000)} milliseconds"
        ).start()

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        checkpoint = self._lake.checkpoint(_ARCHIVE, _ARCHIVE_VERSION)
        query = batches_of(_ARCHIVE, checkpoint)
        taken = take(self._lake.table("journal"), frame, query, batch_id)
        if taken is not None and taken.duplicates:
            _log.warning("rows came twice and were left out", rows=taken.duplicates)
            self._metrics.duplicates.labels(",".join(taken.coverage)).inc(taken.duplicates)
        self._archived.set()

    # --- what is derived from bronze ---------------------------------------------------------------

    def _derive(self) -> None:
        """Follow bronze: silver, roll-ups, and the node's copy of them."""
        self._use_pool("rollup")
        while not self._stop.is_set():
            self._follow_all()
            self._archived.wait(self._settings.rollup_interval_s)
            self._archived.clear()

    def _follow_all(self) -> None:
        """Bring all derived tables up to date."""
        for name in DERIVED:
            self._metrics.followed.labels(name).inc(follow(self._lake, name))
            if name == "rollup_5m" and self._token:
                self._serve()

    def _serve(self) -> None:
        settings = self._settings
        destination = Destination(
            self._url, self._token, settings.rollup_channel, settings.system_hub
        )
        try:
            serve(self._lake, destination)
        except Exception as error:
            # The lake has them; they are served when the node is there again.
            _log.warning("roll-ups could not be served", error=str(error).splitlines()[0])

    # --- upkeep ------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Merge small files as they gather."""
        self._use_pool(_ARCHIVE)
        while not self._stop.wait(_UPKEEP_EVERY_S):
            names = crowded(self._lake, self._settings.compact_after_files)
            if names:
                self._merge(names)

    def _merge(self, names: list[str]) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            with only_upkeep(self._lake):
                done = keep_up(self._lake, self._settings.retention, now_ms=now_ms, names=names)
        except ArautoError as error:
            if error.code is not Code.LAKE_BUSY:
                raise
            # `compact` or `erase` is at work; the files are still there in a minute.
            return
        for each in done:
            _log.info(
                "files merged", table=each.table, before=each.files_before, now=each.files_after
            )

    # --- rules -------------------------------------------------------------------------------------

    def _correlate(self) -> None:
        """Run the node's rules, and start anew when they change."""
        with NodeApi(self._url, self._token) as api:
            query: StreamingQuery | None = None
            try:
                watch = Watch(frozenset(), time.monotonic() - 3600)
                while not self._stop.is_set():
                    found = self._fetch_rules(api)
                    watch, due = look(watch, found.fingerprint, time.monotonic())
                    if due:
                        if query is not None:
                            _stop_query(query)
                        query = self._start_rules(found)
                        watch = restarted(found.fingerprint, time.monotonic())
                    self._pause(query)
            finally:
                if query is not None:
                    _stop_query(query)

    def _pause(self, query: StreamingQuery | None) -> None:
        if query is None:
            self._stop.wait(_RULES_POLL_S)
        else:
            # Raises what the query failed with.
            query.awaitTermination(_RULES_POLL_S)

    def _fetch_rules(self, api: NodeApi) -> RuleSet:
        try:
            return rule_set(api.correlations())
        except ArautoError as error:
            if not self.rules.programs:
                raise
            # What runs goes on running.
            _log.warning("the node's rules could not be read", error=error.message)
            return self.rules

    def _start_rules(self, found: RuleSet) -> StreamingQuery | None:
        for name, problem in found.problems.items():
            _log.warning("a rule does not run", rule=name, problem=problem)
        self.rules = found
        self._metrics.rules.set(len(found.programs))
        _log.info("rules start", rules=len(found.programs))
        if not found.programs:
            return None
        settings = self._settings
        source = journal_stream(
            self._spark,
            journal_url(self._config),
            self._segments,
            rows_max=settings.rows_per_batch_max,
            kinds=",".join(map(str, found.kinds)),
            starting="latest",
            idle_s=_IDLE_S,
        )
        sink = SinkOptions(url=self._url, token=self._token, refused_max=1_000_000)
        return start_rules(
            self._spark,
            source,
            found.programs,
            self._lake.root / "_checkpoints" / "rules",
            Delivery(
                self._lake.table("matches"),
                sink,
                found.programs,
                self._lake.checkpoint(QUERY, PLAN_VERSION),
            ),
            interval_s=settings.rules_interval_s,
            watermark_s=settings.watermark_s,
        )

    # --- common ------------------------------------------------------------------------------------

    def _wait_for(self, query: StreamingQuery) -> None:
        try:
            while not self._stop.is_set():
                # Raises what the query failed with; True if it was stopped.
                if query.awaitTermination(1):
                    return
        finally:
            _stop_query(query)

    def _use_pool(self, name: str) -> None:
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)

    def _count_restart(self, name: str) -> None:
        self._metrics.restarts.labels(name).inc()


def _stop_query(query: StreamingQuery) -> None:
    """Stop a query between two batches if it has a pause soon; what is cut off would be done again."""
    end_s = time.monotonic() + _PAUSE_WAIT_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < end_s:
        time.sleep(_PAUSE_LOOK_S)
    query.stop()
