"""What Spark reports of a batch is what Prometheus shows."""

from typing import Any

import pytest
import structlog
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from arauto.pipeline.metrics import PipelineMetrics, ProgressListener

_ID, _RUN = "1c1c8a2e-6d1f-4f8a-9d4f-0c1f4f1f7a10", "7f2d3b52-0c44-4f6f-8d8c-2a0b7a8f9e21"


def _state(rows: int, memory_bytes: int) -> dict[str, Any]:
    return {
        "operatorName": "transformWithStateInPySparkExec",
        "numRowsTotal": rows,
        "numRowsUpdated": 3,
        "allUpdatesTimeMs": 41,
        "numRowsRemoved": 1,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 92,
        "memoryUsedBytes": memory_bytes,
        "numRowsDroppedByWatermark": 0,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
    }


def _source(end: str, newest: str) -> dict[str, Any]:
    return {
        "description": "arauto_journal",
        "startOffset": '{"n1": 100, "n2": 40}',
        "endOffset": end,
        "latestOffset": newest,
        "numInputRows": 120,
        "inputRowsPerSecond": 60.0,
        "processedRowsPerSecond": 80.0,
    }


def _report(listener: ProgressListener, **changes: Any) -> None:
    """A batch of the query `rules` as Spark tells of it, with some changes."""
    recorded: dict[str, Any] = {
        "id": _ID,
        "runId": _RUN,
        "name": "rules",
        "timestamp": "2026-11-02T12:00:30.500Z",
        "batchId": 7,
        "batchDuration": 1_500,
        "durationMs": {"addBatch": 1_200, "triggerExecution": 1_500},
        "eventTime": {
            "avg": "2026-11-02T12:00:27.000Z",
            "max": "2026-11-02T12:00:29.000Z",
            "min": "2026-11-02T12:00:25.000Z",
            "watermark": "2026-11-02T12:00:24.000Z",
        },
        "stateOperators": [_state(11, 1_000), _state(5, 234)],
        "sources": [_source('{"n1": 180, "n2": 80}', '{"n1": 200, "n2": 80, "n3": 4}')],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "numInputRows": 120,
        "inputRowsPerSecond": 60.0,
        "processedRowsPerSecond": 80.0,
    }
    progress = StreamingQueryProgress.fromJson(recorded | changes)
    listener.onQueryProgress(QueryProgressEvent(progress))


class _Shown:
    """The figures of one query as a scraper sees them."""

    def __init__(self, query: str = "rules") -> None:
        self.metrics = PipelineMetrics()
        self._query = query
        self.listener = ProgressListener(self.metrics)

    def __getitem__(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            f"arauto_pipeline_{name}", {"query": self._query}
        )


@pytest.fixture
def shown() -> _Shown:
    return _Shown()


def test_a_batch_is_shown_with_its_rate_backlog_state_and_lag(shown: _Shown) -> None:
    _report(shown.listener)
    assert shown["rows_total"] == 120
    assert shown["batches_total"] == 1
    assert shown["rows_per_second"] == 80
    assert shown["batch_seconds"] == 1.5
    # 20 of n1, none of n2, and all of a node that was not read yet.
    assert shown["backlog_rows"] == 24
    # Of all stateful operators together.
    assert (shown["state_rows"], shown["state_bytes"]) == (16, 1_234)
    assert shown["watermark_lag_seconds"] == 6.5


def test_rows_that_came_too_late_for_a_count_are_counted_and_told(shown: _Shown) -> None:
    late = _state(5, 234) | {"numRowsDroppedByWatermark": 3}
    with structlog.testing.capture_logs() as told:
        _report(shown.listener, name="counts", stateOperators=[late])
        _report(shown.listener, name="counts")
    left_out = shown.metrics.registry.get_sample_value(
        "arauto_pipeline_events_left_out_total", {"reason": "late_or_no_room"}
    )
    assert left_out == 3
    assert [each["count"] for each in told if each["log_level"] == "warning"] == [3]


def test_rows_and_batches_add_up_while_the_rest_is_of_the_last_batch(shown: _Shown) -> None:
    _report(shown.listener)
    _report(shown.listener, numInputRows=30, batchDuration=250, stateOperators=[])
    assert (shown["rows_total"], shown["batches_total"]) == (150, 2)
    assert (shown["batch_seconds"], shown["state_rows"]) == (0.25, 0)


@pytest.mark.parametrize("rate", [float("inf"), float("-inf"), float("nan")])
def test_a_rate_that_is_no_number_is_shown_as_none(shown: _Shown, rate: float) -> None:
    _report(shown.listener)
    _report(shown.listener, processedRowsPerSecond=rate)
    assert shown["rows_per_second"] == 0


@pytest.mark.parametrize(
    ("sources", "backlog"),
    [
        # So Spark tells of a directory of files.
        ([_source('{"logOffset":0}', "None")], -1),
        ([_source('{"path": "seg-1"}', '{"path": "seg-2"}')], -1),
        ([_source("no JSON", "no JSON")], -1),
        ([], -1),
        ([_source('{"path": "a"}', '{"path": "b"}'), _source('{"n1": 1}', '{"n1": 5}')], 4),
        ([_source('{"n1": 1}', '{"n1": 5}'), _source('{"n1": 1}', '{"n1": 3}')], 6),
        # A journal that is shorter than it was has nothing that waits.
        ([_source('{"n1": 9}', '{"n1": 5}')], 0),
    ],
    ids=["files", "text", "no JSON", "none", "one of two", "two", "went back"],
)
def test_the_backlog_is_unknown_unless_offsets_are_numbers(
    shown: _Shown, sources: list[dict[str, Any]], backlog: int
) -> None:
    _report(shown.listener, sources=sources)
    assert shown["backlog_rows"] == backlog


@pytest.mark.parametrize("event_time", [{}, {"watermark": "1970-01-01T00:00:00.000Z"}])
def test_without_a_watermark_no_lag_is_shown(shown: _Shown, event_time: dict[str, str]) -> None:
    _report(shown.listener, eventTime=event_time)
    assert not shown["watermark_lag_seconds"]


def test_a_watermark_ahead_of_the_clock_is_no_lag(shown: _Shown) -> None:
    _report(shown.listener, eventTime={"watermark": "2026-11-02T12:00:31.000Z"})
    assert shown["watermark_lag_seconds"] == 0


def test_a_query_is_shown_as_running_until_it_ends() -> None:
    shown = _Shown("archive")
    began = {"id": _ID, "runId": _RUN, "name": "archive", "timestamp": "2026-11-02T12:00:00.000Z"}
    shown.listener.onQueryStarted(QueryStartedEvent.fromJson(began))
    assert shown["query_running"] == 1
    ended = {"id": _ID, "runId": _RUN, "exception": None, "errorClassOnException": None}
    shown.listener.onQueryTerminated(QueryTerminatedEvent.fromJson(ended))
    assert shown["query_running"] == 0


def test_no_query_is_shown_as_running_once_spark_has_gone() -> None:
    shown = _Shown("archive")
    began = {"id": _ID, "runId": _RUN, "name": "archive", "timestamp": "2026-11-02T12:00:00.000Z"}
    shown.listener.onQueryStarted(QueryStartedEvent.fromJson(began))
    shown.metrics.nothing_runs()
    assert shown["query_running"] == 0
