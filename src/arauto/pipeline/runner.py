"""The running pipeline: archive, roll-up and rules, side by side in one Spark driver."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

import structlog
from pyspark.sql import SparkSession

from arauto.config.addresses import admin_url, segments_dir
from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.archive import ARCHIVE, Archive
from arauto.pipeline.archive.follow import follow_all
from arauto.pipeline.context import Context
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.lifeline import Lifeline, spark_ended
from arauto.pipeline.metrics import PipelineMetrics, ProgressListener
from arauto.pipeline.renamed import export_renamed
from arauto.pipeline.rollup.refused import Refused
from arauto.pipeline.rollup.serve import Destination, serve
from arauto.pipeline.rules.allowance import Allowance
from arauto.pipeline.rules.running import RuleQuery
from arauto.pipeline.rules.stream import QUERIES
from arauto.pipeline.session import unhurried
from arauto.pipeline.upkeep import crowded, keep_up, only_upkeep
from arauto.pipeline.worker import Worker, first_line

__all__ = ["Pipeline"]

_log = structlog.get_logger(__name__)

_UPKEEP_EVERY_S = 60.0
_STOP_WAIT_S = 30.0


class Pipeline:
    """All long-lived work over one lake.

    Args:
        context: the configuration, Spark and the lake.
        token: the node's admin token; "" = roll-ups stay in the lake and no rules run.
        metrics: where progress is shown.
    """

    def __init__(self, context: Context, token: str, metrics: PipelineMetrics) -> None:
        self._context = context
        self._settings = context.config.pipeline
        self._spark = unhurried(context.spark)
        self._lake = Lake(self._spark, context.lake.root)
        self._lane = Lock()
        """Held by archive, roll-ups and upkeep while they work: they take turns; rules run beside them."""
        self._token = token
        self._url = admin_url(context.config)
        self._segments: Path = segments_dir(context.config).resolve()
        self._metrics = metrics
        self._taking = Archive(
            self._lake,
            self._segments,
            metrics,
            files_max=self._settings.files_per_batch_max,
            lane=self._lane,
        )
        self._allowance = Allowance(self._settings.alerts_per_s)
        self._stop = Event()
        self._archived = Event()
        self._listener = ProgressListener(metrics)
        self.rules: dict[str, int] = {}
        """How many rules each of their queries runs just now."""
        self.workers: list[Worker] = []
        self._refused = Refused()
        self._ended = ""
        self._on_ended: Callable[[], None] = lambda: None

    def start(self, on_ended: Callable[[], None] = lambda: None) -> None:
        """Start everything; returns at once.

        Args:
            on_ended: called if Spark ends by itself, from a thread of its own; `check` then says how.
        """
        self._on_ended = on_ended
        Lifeline(self._context.spark, self._stop, self._note_end).start()
        self._segments.mkdir(parents=True, exist_ok=True)
        for spark in self._sessions():
            spark.streams.addListener(self._listener)
        work = {ARCHIVE: self._archive, "rollup": self._derive}
        if self._token:
            for query in QUERIES:
                work[query] = self._rules_of(query)
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
        if self._ended:
            return
        for spark in self._sessions():
            spark.streams.removeListener(self._listener)

    def check(self) -> None:
        """Whether Spark is still there.

        Raises:
            ArautoError: SPARK_ENDED.
        """
        if self._ended:
            raise spark_ended(self._ended)

    def backfill(self) -> None:
        """Take in all there is now, once."""
        self._segments.mkdir(parents=True, exist_ok=True)
        export_renamed(self._context.config, self._segments)
        self._take_all()
        self._follow_all()

    # --- archive -----------------------------------------------------------------------------------

    def _archive(self) -> None:
        """Take segments as they come."""
        self._use_pool(ARCHIVE)
        self._metrics.running.labels(ARCHIVE).set(1)
        export_renamed(self._context.config, self._segments)
        try:
            while not self._stop.is_set():
                self._take_all()
                self._stop.wait(self._settings.archive_interval_s)
        finally:
            self._metrics.running.labels(ARCHIVE).set(0)

    def _take_all(self) -> None:
        archive = self._taking
        while not self._stop.is_set() and archive.take_next() is not None:
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
        try:
            follow_all(self._lake, self._follow)
        finally:
            # Last, so that after an absence new rows can be queried before old roll-ups are told.
            if self._token:
                self._serve()

    def _follow(self, name: str, work: Callable[[], int]) -> None:
        with self._lane:
            self._metrics.derived.labels(name).inc(work())

    def _serve(self) -> None:
        settings = self._settings
        destination = Destination(
            self._url, self._token, settings.rollup_channel, settings.system_hub
        )
        try:
            serve(
                self._lake,
                destination,
                now_ms=_now_ms(),
                gold_days=settings.retention.gold_days,
                told=self._refused,
            )
        except Exception as error:
            # The lake has them; they are served when the node is there again.
            _log.warning("roll-ups could not be served", error=first_line(error))

    # --- upkeep ------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Merge small files as they gather."""
        self._use_pool(ARCHIVE)
        while not self._stop.wait(_UPKEEP_EVERY_S):
            names = crowded(
                self._lake, self._settings.compact_after_files, serving=bool(self._token)
            )
            if names:
                self._merge(names)

    def _merge(self, names: list[str]) -> None:
        try:
            with self._lane, only_upkeep(self._lake):
                done = keep_up(
                    self._lake,
                    self._settings.retention,
                    now_ms=_now_ms(),
                    names=names,
                    serving=bool(self._token),
                )
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

    def _rules_of(self, query: str) -> Callable[[], None]:
        running = RuleQuery(
            query,
            self._context,
            self._token,
            self._segments,
            self._count_rules,
            self._metrics.alerts_left_out.inc,
            self._allowance,
            lambda reason, count: self._metrics.events_left_out.labels(reason).inc(count),
            self._metrics.hubs_not_waited_for.labels(query).set,
            self._metrics.rows_expired.labels(query).inc,
        )
        return lambda: running.run(self._stop)

    def _count_rules(self, query: str, rules: int) -> None:
        self.rules[query] = rules
        self._metrics.rules.set(sum(self.rules.values()))

    # --- common ------------------------------------------------------------------------------------

    def _sessions(self) -> tuple[SparkSession, ...]:
        """Spark tells of queries by session: those of the rules, and all others."""
        return self._context.spark, self._spark

    def _use_pool(self, name: str) -> None:
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)

    def _note_end(self, how: str) -> None:
        self._ended = how
        self._metrics.nothing_runs()
        _log.error("spark has ended", how=how)
        self._on_ended()

    def _count_restart(self, name: str) -> None:
        self._metrics.restarts.labels(name).inc()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
