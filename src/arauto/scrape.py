"""What `/metrics` shows: the hubs' counters, and those that other parts of the node keep for themselves."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import arauto
from arauto.config.schema import Config
from arauto.gateways.buffers import ReadBuffers
from arauto.hub.encodings import Encodings
from arauto.storage.base import ExporterCounters, StorageCounters
from arauto.telemetry.metrics import Metrics
from arauto.telemetry.prometheus import MetricsCollector, PrometheusExporter, ValueCollector

if TYPE_CHECKING:
    from arauto.telemetry.tracing import Tracing

__all__ = ["build_scrape"]

_Value = tuple[str, str, Callable[[], int]]


def build_scrape(
    config: Config,
    metrics: Metrics,
    storage: StorageCounters,
    *,
    exporter: ExporterCounters | None,
    tracing: "Tracing | None",
    refused_connections: Callable[[], int],
    encodings: Encodings,
    evicted_callers: Callable[[], int],
    read_buffers: Callable[[], ReadBuffers],
    states_left_out: Callable[[], int],
) -> PrometheusExporter:
    """The body of a node's `/metrics`."""
    collector = MetricsCollector(
        metrics,
        hubs_max=config.telemetry.metrics_hubs_max,
        node=config.node.name,
        version=arauto.__version__,
    )
    refused = ("refused_connections", "Connections refused, there were too many")
    values: list[_Value] = [
        *_of_storage(storage),
        *_of_encodings(encodings),
        (*refused, refused_connections),
        (
            "evicted_callers",
            "HTTP callers whose rate was forgotten for want of room",
            evicted_callers,
        ),
        (
            "restore_states_left_out",
            "States of lost sessions that were not kept, so that their restore keys do not work",
            states_left_out,
        ),
        (
            "read_buffers_shrunk",
            "Read buffers that were made small again for want of room",
            lambda: read_buffers().shrunk,
        ),
        (
            "read_buffers_cut_off",
            "Connections ended because unfinished messages took too much room",
            lambda: read_buffers().cut_off,
        ),
    ]
    if exporter is not None:
        values += _of_exporter(exporter)
    if tracing is not None:
        values.append(("skipped_spans", "Spans over the allowed rate", lambda: tracing.skipped))
    held = "What read buffers grew by, and fragments of unfinished messages"
    gauges: list[_Value] = [("read_buffers_bytes", held, lambda: read_buffers().held_bytes)]
    return PrometheusExporter(collector, extra=[ValueCollector(values, gauges)])


def _of_storage(counters: StorageCounters) -> Iterable[_Value]:
    yield "journal_rows", "Journal rows committed", lambda: counters.committed
    yield "journal_failed_rows", "Writes that failed", lambda: counters.failed
    yield "journal_refused_rows", "Writes refused, too much was waiting", lambda: counters.refused
    shares = "Writes refused, too many of their hub were waiting"
    yield "journal_refused_share_rows", shares, lambda: counters.refused_shares
    yield "journal_commits", "Group commits", lambda: counters.commits
    yield "journal_failed_commits", "Group commits that failed", lambda: counters.commit_failures
    yield "storage_reopened", "Reconnections to the store", lambda: counters.reopened


def _of_encodings(encodings: Encodings) -> Iterable[_Value]:
    yield "document_encodings", "Large documents encoded for readers", lambda: encodings.made
    evicted = "Encoded documents given up for want of room"
    yield "document_encodings_evicted", evicted, lambda: encodings.evicted


def _of_exporter(counters: ExporterCounters) -> Iterable[_Value]:
    yield "export_runs", "Runs of the segment exporter", lambda: counters.runs
    yield "export_failures", "Runs that failed", lambda: counters.failures
    yield "export_segments", "Segments sealed", lambda: counters.segments
    yield "export_rows", "Journal rows exported", lambda: counters.rows
    yield "export_trimmed_rows", "Exported rows deleted", lambda: counters.trimmed
