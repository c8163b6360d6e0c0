"""Trace context on messages, and the spans the node adds."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from arauto.entropy import SeededEntropy
from arauto.errors import ArautoError, Code
from arauto.telemetry.tracing import (
    TRACEPARENT,
    TraceParent,
    Tracing,
    parse_traceparent,
    start_tracing,
)
from arauto.testing import FakeClock

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"


class Traced:
    """Tracing into memory."""

    def __init__(self, *, sample_ratio: float = 0.0, spans_per_s_max: int = 0) -> None:
        self.exporter = InMemorySpanExporter()
        self.clock = FakeClock()
        tracing = start_tracing(
            clock=self.clock,
            entropy=SeededEntropy(1),
            node="node-7",
            version="1.2",
            sample_ratio=sample_ratio,
            spans_per_s_max=spans_per_s_max,
            exporter=self.exporter,
        )
        assert tracing is not None
        self.tracing: Tracing = tracing

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def test_without_endpoint_and_exporter_there_is_no_tracing() -> None:
    assert start_tracing(clock=FakeClock(), entropy=SeededEntropy(1), node="n") is None


# Reading a traceparent.


def test_a_valid_traceparent_is_read() -> None:
    parent = parse_traceparent(SAMPLED)
    assert parent == TraceParent(int(TRACE, 16), int(SPAN, 16), 1)
    assert parent is not None
    assert parent.sampled
    assert str(parent) == SAMPLED


def test_a_later_version_may_carry_more_fields() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more") is not None
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        SAMPLED[:-1],
        SAMPLED + "0",
        SAMPLED + "-",
        SAMPLED + "-extra",
        " " + SAMPLED,
        SAMPLED + "\n",
        SAMPLED.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"0g-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0x",
        f"00_{TRACE}_{SPAN}_01",
        f"01-{TRACE}-{SPAN}-01more",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 100,
        "\u0660" * 55,  # digits, but not the right ones
        "x" * 1_000_000,
    ],
)
def test_a_malformed_traceparent_counts_as_none(text: str) -> None:
    assert parse_traceparent(text) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_what_is_written_can_be_read(trace_id: int, span_id: int, flags: int) -> None:
    parent = TraceParent(trace_id, span_id, flags)
    assert parse_traceparent(str(parent)) == parent


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_without_an_exception(text: str) -> None:
    parsed = parse_traceparent(text)
    assert parsed is None or text[3:35] == f"{parsed.trace_id:032x}"


# Spans.


def test_a_sampled_publication_gets_a_span_in_the_publishers_trace() -> None:
    traced = Traced()
    span = traced.tracing.start_publish("shop", "stock:42", {TRACEPARENT: SAMPLED})
    assert span is not None
    span.end()
    [done] = traced.spans()
    assert done.context is not None
    assert done.parent is not None
    assert f"{done.context.trace_id:032x}" == TRACE
    assert f"{done.parent.span_id:016x}" == SPAN
    assert done.parent.is_remote
    assert done.kind is SpanKind.PRODUCER
    assert dict(done.attributes or {}) == {
        "messaging.system": "arauto",
        "messaging.operation.type": "send",
        "messaging.destination.name": "stock:42",
        "arauto.hub": "shop",
    }
    assert done.resource.attributes["service.instance.id"] == "node-7"


def test_subscribers_are_handed_the_nodes_span_as_their_parent() -> None:
    traced = Traced()
    headers = {TRACEPARENT: SAMPLED, "x": "1"}
    outgoing = traced.tracing.trace_publish("shop", "a", headers)
    [done] = traced.spans()
    assert done.context is not None
    assert outgoing == {
        TRACEPARENT: f"00-{TRACE}-{done.context.span_id:016x}-01",
        "x": "1",
    }
    assert headers == {TRACEPARENT: SAMPLED, "x": "1"}


@pytest.mark.parametrize(
    "headers", [None, {}, {"x": "1"}, {TRACEPARENT: UNSAMPLED}, {TRACEPARENT: "garbage"}]
)
def test_other_publications_pass_untouched(headers: dict[str, str] | None) -> None:
    traced = Traced()
    assert traced.tracing.trace_publish("shop", "a", headers) is headers
    assert traced.spans() == ()


def test_a_failed_publication_is_marked_with_its_code_only() -> None:
    traced = Traced()
    span = traced.tracing.start_publish("shop", "a", {TRACEPARENT: SAMPLED})
    assert span is not None
    span.end(ArautoError(Code.RATE_LIMITED, "a sentence for the client"))
    [done] = traced.spans()
    assert done.status.status_code is StatusCode.ERROR
    assert done.status.description == "RATE_LIMITED"
    assert (done.attributes or {})["arauto.error_code"] == 3000


def test_a_share_of_the_others_begins_a_trace() -> None:
    traced = Traced(sample_ratio=0.25)
    for _ in range(2_000):
        traced.tracing.trace_publish("shop", "a", None)
    assert 400 < len(traced.spans()) < 600
    assert len({span.context.trace_id for span in traced.spans() if span.context}) > 390


def test_all_begin_a_trace_if_the_share_is_one_but_an_unsampled_one_stays_unsampled() -> None:
    traced = Traced(sample_ratio=1.0)
    outgoing = traced.tracing.trace_publish("shop", "a", None)
    assert outgoing is not None
    parent = parse_traceparent(outgoing[TRACEPARENT])
    assert parent is not None
    assert parent.sampled
    traced.tracing.trace_publish("shop", "a", {TRACEPARENT: UNSAMPLED})
    assert len(traced.spans()) == 1


def test_clients_cannot_flood_the_tracing_backend() -> None:
    """Threat T28: whether a message is sampled is the client's word."""
    traced = Traced(spans_per_s_max=10)
    headers = {TRACEPARENT: SAMPLED}
    for _ in range(100):
        traced.tracing.trace_publish("shop", "a", headers)
    assert len(traced.spans()) == 10
    assert traced.tracing.skipped == 90
    assert traced.tracing.trace_publish("shop", "a", headers) is headers
    traced.clock.advance(1)
    traced.tracing.trace_publish("shop", "a", headers)
    assert len(traced.spans()) == 11


def test_the_same_seed_gives_the_same_ids() -> None:
    ids = []
    for _ in range(2):
        traced = Traced(sample_ratio=1.0)
        ids.append([traced.tracing.trace_publish("h", "c", None) for _ in range(3)])
    assert ids[0] == ids[1]


def test_spans_reach_an_otlp_endpoint_with_the_configured_headers() -> None:
    received: list[tuple[str, str | None, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers.get("x-api-key"), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            tracing = start_tracing(
                clock=FakeClock(),
                entropy=SeededEntropy(1),
                node="n",
                endpoint=f"http://127.0.0.1:{server.server_port}/v1/traces",
                headers={"x-api-key": "k"},
            )
            assert tracing is not None
            tracing.trace_publish("shop", "stock", {TRACEPARENT: SAMPLED})
            tracing.shutdown()
        finally:
            server.shutdown()
            thread.join()
    assert [(path, key) for path, key, _ in received] == [("/v1/traces", "k")]
    assert bytes.fromhex(TRACE) in received[0][2]
