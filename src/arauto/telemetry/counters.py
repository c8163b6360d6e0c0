"""What a hub counts, on the way of every message: plain integers on slotted objects.

`metrics.py` adds them up when someone looks. One of the modules that can be compiled (ADR 0008).
"""

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

__all__ = [
    "COUNTER_FIELDS",
    "SAMPLE_MASK",
    "TIMING_BOUNDS_NS",
    "Counters",
    "Sampler",
    "Timing",
    "read_counters",
]

#: One publication in 64 is timed.
SAMPLE_MASK = 63


#: Upper bounds of the buckets of a `Timing`; one more bucket holds what lies above.
TIMING_BOUNDS_NS = (
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    100_000_000,
    1_000_000_000,
)

#: The plain integer fields of `Counters`.
COUNTER_FIELDS: tuple[str, ...] = (
    "backlogs_refused",
    "bytes_in",
    "bytes_out",
    "deliveries",
    "dropped",
    "gaps",
    "history_evicted",
    "keys_evicted",
    "messages_in",
    "messages_out",
    "publishes",
    "retained_failures",
    "retained_refused",
    "session_duration_ms",
    "sessions_ended",
    "sessions_restored",
    "sessions_started",
    "slow_disconnects",
    "snapshot_failures",
    "stored",
    "unknown_fields",
)

# Reads all of them in one call: a node may have ten thousand hubs, and reading must not stop the loop.
read_counters: Callable[[object], tuple[int, ...]] = attrgetter(*COUNTER_FIELDS)


class Timing:
    """A histogram of durations with fixed buckets."""

    __slots__ = ("buckets", "count", "sum_ns")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ns = 0
        self.buckets = [0] * (len(TIMING_BOUNDS_NS) + 1)

    def observe(self, duration_ns: int) -> None:
        self.count += 1
        self.sum_ns += duration_ns
        self.buckets[bisect_left(TIMING_BOUNDS_NS, duration_ns)] += 1


class Sampler:
    """Counts the publications of a node, whatever their hub and channel: each that leaves no rest under
    `SAMPLE_MASK` is timed. Most channels never see 64.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Counters:
    """What one hub (or the node outside all hubs) has done since it was opened. Only ever grows."""

    __slots__ = (
        "backlogs_refused",
        "bytes_in",
        "bytes_out",
        "deliveries",
        "document_time",
        "dropped",
        "gaps",
        "history_evicted",
        "keys_evicted",
        "messages_in",
        "messages_out",
        "publish_time",
        "publishes",
        "refused",
        "retained_failures",
        "retained_refused",
        "session_duration_ms",
        "sessions_ended",
        "sessions_restored",
        "sessions_started",
        "slow_disconnects",
        "snapshot_failures",
        "stored",
        "unknown_fields",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        """Requests that were read: each message over WebSocket, heartbeats included, and each request to
        publish over HTTP, of clients and administrators. What an SSE client wants stands in its URL, and
        is neither a message nor bytes in."""
        self.messages_out = 0
        """Frames written to clients, of any kind."""
        self.bytes_in = 0
        """Their bytes, before decoding. Both grow together, in `Session.receive` and `read`."""
        self.bytes_out = 0
        self.publishes = 0
        """Publications accepted, from any side."""
        self.deliveries = 0
        """Publications handed to a subscriber's outbox."""
        self.stored = 0
        """Publications that became durable."""
        self.dropped = 0
        """Deliveries a slow-consumer policy gave up."""
        self.gaps = 0
        """Gap markers sent."""
        self.slow_disconnects = 0
        self.backlogs_refused = 0
        """Times a slow reader was treated as full, because the hub or the node held too many bytes."""
        self.keys_evicted = 0
        """Idempotency keys forgotten before their time, because a channel had too many."""
        self.history_evicted = 0
        """Messages that left live history early, because the hub or the node held too many bytes."""
        self.retained_refused = 0
        """Messages not retained, because the hub retained too many, or the hub or the node too many bytes."""
        self.retained_failures = 0
        """Writes of retained messages that failed; they are tried again with the next flush."""
        self.snapshot_failures = 0
        """Documents that could not be written whole, or whose log could not be cut; both are tried again."""
        self.unknown_fields = 0
        """Requests carried out without some of their fields, which this version does not know."""
        self.sessions_started = 0
        self.sessions_restored = 0
        self.sessions_ended = 0
        self.session_duration_ms = 0
        """Sum over the sessions that ended."""
        self.refused: dict[int, int] = {}
        """Requests and connections refused, by error code. Use `refuse`."""
        self.publish_time = Timing()
        """From a publication's arrival to its hand-over to all outboxes, of every 64th of the node."""
        self.document_time = Timing()
        """From a document change's arrival to its broadcast."""

    def read(self, size_bytes: int) -> None:
        """Count a request that came without a session."""
        self.messages_in += 1
        self.bytes_in += size_bytes

    def refuse(self, code: int) -> None:
        """Count a refusal. `code` is one of `arauto.errors.Code`, never something a client made up."""
        self.refused[code] = self.refused.get(code, 0) + 1

    @property
    def signature(self) -> tuple[object, ...]:
        """Changes whenever anything was counted."""
        counts = (self.publish_time.count, self.document_time.count)
        return (*read_counters(self), sum(self.refused.values()), *counts)
