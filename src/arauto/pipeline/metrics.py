"""What the pipeline shows to Prometheus and writes to the log about itself."""

from collections.abc import Mapping
from datetime import datetime
from threading import Thread
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

__all__ = ["PipelineMetrics", "ProgressListener", "watermark_lag_s"]

_log = structlog.get_logger(__name__)


class PipelineMetrics:
    """The figures. One per process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"arauto_pipeline_{name}", text, ["query"], registry=self.registry)

        def counter(name: str, text: str, label: str = "query") -> Counter:
            return Counter(f"arauto_pipeline_{name}", text, [label], registry=self.registry)

        self.rows = counter("rows", "Rows taken in.")
        self.batches = counter("batches", "Batches done.")
        self.rows_per_s = gauge("rows_per_second", "Rows a second in the last batch.")
        self.batch_s = gauge("batch_seconds", "How long the last batch took.")
        self.backlog = gauge("backlog_rows", "Rows that wait to be taken in; -1 = not known.")
        self.state_rows = gauge("state_rows", "Rows held in state.")
        self.state_bytes = gauge("state_bytes", "Memory of the state.")
        self.watermark_lag_s = gauge(
            "watermark_lag_seconds", "How far the watermark is behind now."
        )
        self.running = gauge("query_running", "1 while the query runs.")
        self.hubs_not_waited_for = gauge(
            "hubs_not_waited_for", "Hubs that changed rules too often for rows to wait for them."
        )
        self.restarts = counter("restarts", "Starts after a failure.")
        self.duplicates = Counter(
            "arauto_pipeline_duplicates",
            "Rows that came twice and were left out.",
            registry=self.registry,
        )
        self.segments_refused = Counter(
            "arauto_pipeline_segments_refused",
            "Segments that were offered, are damaged, and are not in the lake.",
            registry=self.registry,
        )
        self.derived = counter(
            "bronze_rows_read", "Bronze rows looked at to make each derived table.", "table"
        )
        self.alerts_left_out = Counter(
            "arauto_pipeline_alerts_left_out",
            "Alerts not published, because their own hub took no more just then.",
            registry=self.registry,
        )
        self.events_left_out = counter(
            "events_left_out",
            "What correlation rules left out: events without room, values too large, failures.",
            "reason",
        )
        self.rows_expired = counter(
            "rows_expired", "Rows that retention took before any correlation rule saw them."
        )
        self.rules = Gauge("arauto_pipeline_rules", "Rules that run.", registry=self.registry)

    def nothing_runs(self) -> None:
        """Show that no query runs any more. Spark, which tells of their ends, has gone."""
        for family in self.running.collect():
            for sample in family.samples:
                self.running.labels(sample.labels["query"]).set(0)

    def count_batch(self, query: str, rows: int, batch_s: float) -> None:
        """A batch is done."""
        self.rows.labels(query).inc(rows)
        self.batches.labels(query).inc()
        self.batch_s.labels(query).set(batch_s)
        self.rows_per_s.labels(query).set(rows / batch_s if batch_s else 0.0)

    def serve(self, host: str, port: int) -> Thread:
        """Answer scrapers at this address."""
        _, thread = start_http_server(port, host, registry=self.registry)
        return thread


class ProgressListener(StreamingQueryListener):
    """Takes what Spark reports of each batch."""

    def __init__(self, metrics: PipelineMetrics) -> None:
        self._metrics = metrics
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        name = event.name or "unnamed"
        self._names[str(event.runId)] = name
        self._metrics.running.labels(name).set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        name = progress.name or "unnamed"
        metrics = self._metrics
        batch_s = progress.batchDuration / 1000
        state = progress.stateOperators
        state_rows = sum(each.numRowsTotal for each in state)
        backlog = _backlog(progress.sources)
        lag_s = watermark_lag_s(dict(progress.eventTime), progress.timestamp)
        metrics.rows.labels(name).inc(progress.numInputRows)
        metrics.batches.labels(name).inc()
        metrics.batch_s.labels(name).set(batch_s)
        metrics.rows_per_s.labels(name).set(_finite(progress.processedRowsPerSecond))
        metrics.backlog.labels(name).set(backlog)
        metrics.state_rows.labels(name).set(state_rows)
        metrics.state_bytes.labels(name).set(sum(each.memoryUsedBytes for each in state))
        # What is counted within windows is Spark's own to drop; rules that remember tell of it by themselves.
        late = sum(each.numRowsDroppedByWatermark for each in state)
        if late:
            metrics.events_left_out.labels("late_or_no_room").inc(late)
            _log.warning("rows came too late for windows that had ended", query=name, count=late)
        if lag_s is not None:
            metrics.watermark_lag_s.labels(name).set(lag_s)
        _log.info(
            "batch done",
            query=name,
            batch=progress.batchId,
            rows=progress.numInputRows,
            seconds=round(batch_s, 3),
            backlog=backlog,
            state_rows=state_rows,
            watermark_lag_s=lag_s,
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing came; what was shown last stays true."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        name = self._names.pop(str(event.runId), "unnamed")
        self._metrics.running.labels(name).set(0)


def watermark_lag_s(event_time: Mapping[str, str], at: str) -> float | None:
    """Seconds from the watermark to when the batch began; None without a watermark."""
    watermark = event_time.get("watermark")
    if not watermark or watermark.startswith("1970"):
        return None
    return max(0.0, (_moment(at) - _moment(watermark)).total_seconds())


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _backlog(sources: list[Any]) -> int:
    """Rows between what was read and the newest, where offsets are numbers of rows."""
    import msgspec

    total = -1
    for source in sources:
        try:
            end = msgspec.json.decode(source.endOffset or "{}", type=dict[str, int])
            newest = msgspec.json.decode(source.latestOffset or "{}", type=dict[str, int])
        except msgspec.DecodeError:
            continue
        total = max(total, 0) + sum(
            max(0, last - end.get(node, 0)) for node, last in newest.items()
        )
    return total


def _finite(value: float) -> float:
    return value if value == value and value not in (float("inf"), float("-inf")) else 0.0
