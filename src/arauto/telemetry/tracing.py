"""Traces: a span per traced publication, tied to the publisher's trace and handed on to subscribers.

A publisher that traces puts a W3C `traceparent` on its message; where that says "sampled", the node adds
a span and puts its own `traceparent` on what the subscribers get, so that one trace runs from publisher
to subscribers. While tracing is off, `start_tracing` returns None and nothing here runs.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from arauto.clock import Clock
from arauto.entropy import Entropy
from arauto.errors import ArautoError

__all__ = [
    "TRACEPARENT",
    "PublishSpan",
    "TraceParent",
    "Tracing",
    "parse_traceparent",
    "start_tracing",
]

TRACEPARENT = "traceparent"

_LEN = 55
_LEN_MAX = 128
_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1


class TraceParent(msgspec.Struct, frozen=True, gc=False):
    """A place in a trace."""

    trace_id: int
    span_id: int
    flags: int = 0

    @property
    def sampled(self) -> bool:
        return bool(self.flags & _SAMPLED)

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags & 0xFF:02x}"


def parse_traceparent(text: str) -> TraceParent | None:
    """Read a `traceparent` as W3C Trace Context says, strictly.

    Returns:
        None if it is malformed; the standard says to go on as if it were not there.
    """
    if not _LEN <= len(text) <= _LEN_MAX:
        return None
    found = _SHAPE.match(text)
    if found is None or found[1] == "ff":
        return None
    # Version 00 ends here; later versions may add fields, each after a dash (§ 3.2.4).
    if len(text) > _LEN and (found[1] == "00" or text[_LEN] != "-"):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return TraceParent(trace_id, span_id, int(found[4], 16))


class PublishSpan:
    """The node's part in one publication's trace. `end` it once, whatever happened."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = str(
            TraceParent(context.trace_id, context.span_id, int(context.trace_flags))
        )
        """What to put on the message for its subscribers."""

    def end(self, error: ArautoError | None = None) -> None:
        if error is not None:
            self._span.set_attribute("arauto.error_code", int(error.code))
            self._span.set_status(Status(StatusCode.ERROR, error.code.name))
        self._span.end()


class Tracing:
    """Makes spans. Made by `start_tracing`, shut down by whoever started it."""

    __slots__ = (
        "_clock",
        "_entropy",
        "_provider",
        "_ratio",
        "_second",
        "_spans_in_second",
        "_spans_per_s_max",
        "_tracer",
        "skipped",
    )

    def __init__(
        self,
        provider: TracerProvider,
        clock: Clock,
        entropy: Entropy,
        *,
        sample_ratio: float,
        spans_per_s_max: int,
    ) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("arauto")
        self._clock = clock
        self._entropy = entropy
        self._ratio = sample_ratio
        self._spans_per_s_max = spans_per_s_max
        self._second = 0
        self._spans_in_second = 0
        self.skipped = 0
        """Spans not recorded because there were too many in one second."""

    def start_publish(
        self, hub: str, channel: str, headers: Mapping[str, str] | None
    ) -> PublishSpan | None:
        """Begin a span for a publication, or return None if this one is not traced.

        Never fails on what a client sent: a malformed `traceparent` counts as none.
        """
        text = headers.get(TRACEPARENT) if headers else None
        parent = parse_traceparent(text) if text is not None else None
        if parent is not None:
            if not parent.sampled:
                return None
        elif not self._ratio or self._entropy.uniform(0, 1) >= self._ratio:
            return None
        if not self._has_room():
            return None
        context = None
        if parent is not None:
            remote = SpanContext(
                parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(_SAMPLED)
            )
            context = set_span_in_context(NonRecordingSpan(remote))
        attributes = {
            "messaging.system": "arauto",
            "messaging.operation.type": "send",
            "messaging.destination.name": channel,
            "arauto.hub": hub,
        }
        span = self._tracer.start_span(
            "publish", context=context, kind=SpanKind.PRODUCER, attributes=attributes
        )
        return PublishSpan(span)

    def trace_publish(
        self, hub: str, channel: str, headers: dict[str, str] | None
    ) -> dict[str, str] | None:
        """Record a publication as one moment and return the headers to send on with it.

        The same dictionary comes back if the publication is not traced; it is never changed in place.
        """
        span = self.start_publish(hub, channel, headers)
        if span is None:
            return headers
        span.end()
        return {**(headers or {}), TRACEPARENT: span.traceparent}

    def shutdown(self) -> None:
        """Send what is left and stop. Blocks while it sends: call it off the event loop."""
        self._provider.shutdown()

    def _has_room(self) -> bool:
        if not self._spans_per_s_max:
            return True
        second = int(self._clock.monotonic_s())
        if second != self._second:
            self._second = second
            self._spans_in_second = 0
        if self._spans_in_second >= self._spans_per_s_max:
            self.skipped += 1
            return False
        self._spans_in_second += 1
        return True


class _EntropyIds(IdGenerator):
    """Takes span and trace ids from the injected randomness. Zero is not a valid id."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def generate_span_id(self) -> int:
        return self._entropy.bits(64) or 1

    def generate_trace_id(self) -> int:
        return self._entropy.bits(128) or 1


def start_tracing(
    *,
    clock: Clock,
    entropy: Entropy,
    node: str,
    version: str = "",
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
    sample_ratio: float = 0.0,
    spans_per_s_max: int = 1_000,
    exporter: SpanExporter | None = None,
) -> Tracing | None:
    """Set up tracing if there is somewhere to send traces to.

    Args:
        clock: bounds the spans per second.
        entropy: gives the ids and decides which publications begin a trace.
        node: names the node on every span.
        version: the node's version, on every span too.
        endpoint: URL for OTLP over HTTP; "" = none.
        headers: HTTP headers for it.
        sample_ratio: share of publications without a trace that begin one.
        spans_per_s_max: upper bound of spans recorded per second; 0 = none.
        exporter: takes each span at once, in place of the endpoint; for tests.

    Returns:
        None if there is neither endpoint nor exporter.
    """
    processor: Any
    if exporter is not None:
        processor = SimpleSpanProcessor(exporter)
    elif endpoint:
        # Only here: loading it costs time and memory that a node without tracing need not spend.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        processor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=endpoint, headers=dict(headers or {}), timeout=5)
        )
    else:
        return None
    provider = TracerProvider(
        sampler=ALWAYS_ON,  # what is not to be sampled never becomes a span
        resource=Resource.create(
            {
                "service.name": "arauto",
                "service.instance.id": node,
                "service.version": version,
            }
        ),
        id_generator=_EntropyIds(entropy),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(processor)
    return Tracing(
        provider, clock, entropy, sample_ratio=sample_ratio, spans_per_s_max=spans_per_s_max
    )
