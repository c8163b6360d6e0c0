"""What benchmarks found, as plain records: printed, compared and written to `bench/results/` as JSON."""

import msgspec

from arauto.bench.generator import Latency, Load, Sample
from arauto.bench.machine import Machine
from arauto.bench.procfs import Memory
from arauto.bench.stats import Spread

__all__ = [
    "Check",
    "Comparison",
    "IdleResult",
    "IdleRow",
    "LatencyResult",
    "LatencyRow",
    "Report",
    "Row",
]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One target's throughput over all rounds."""

    label: str
    is_arauto: bool
    per_s: Spread
    """Deliveries per second; acknowledged messages per second in `stored`."""
    publishes_per_s: Spread
    server_cpu_us: Spread
    """Processor time of the server per delivery (per acknowledgement in `stored`)."""
    generator_share: float
    """The most of one core the generator used; near 1, it may have been the limit."""
    is_exact: bool
    """Every subscriber got every message once, in all rounds."""
    rounds: tuple[Sample, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Several targets under the same load."""

    name: str
    load: Load
    rows: tuple[Row, ...]
    left_out: dict[str, str] = {}
    """Targets without a figure, and why."""

    def medians(self) -> dict[str, float]:
        """Return the figure of each target by its label."""
        return {row.label: row.per_s.median for row in self.rows}


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One target's delivery latency; percentiles are medians over the rounds."""

    label: str
    is_arauto: bool
    rate: float
    """Publications per second."""
    alone: Latency
    with_stalled: Latency | None
    """Of the subscribers that read, while others do not."""
    is_exact: bool

    @property
    def p99_change(self) -> float | None:
        """How the readers' p99 moved because of the stalled ones: 0.1 reads as 10 % worse."""
        if self.with_stalled is None or self.alone.p99_ms <= 0:
            return None
        return self.with_stalled.p99_ms / self.alone.p99_ms - 1


class LatencyResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    load: Load
    rows: tuple[LatencyRow, ...]
    left_out: dict[str, str] = {}


class IdleRow(msgspec.Struct, frozen=True, kw_only=True):
    """The memory one target takes for idle sessions."""

    label: str
    is_arauto: bool
    sessions: int
    before: Memory
    after: Memory
    connect_s: float

    @property
    def bytes_per_session(self) -> float:
        return (self.after.rss_bytes - self.before.rss_bytes) / self.sessions


class IdleResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rows: tuple[IdleRow, ...]
    left_out: dict[str, str] = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One goal, and what was reached."""

    what: str
    goal: str
    reached: str
    is_met: bool | None
    """None if it could not be measured."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run of `arauto bench all`."""

    date: str
    commit: str
    machine: Machine
    versions: dict[str, str]
    generator: str
    notes: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    latencies: tuple[LatencyResult, ...]
    idle: tuple[IdleResult, ...]
    checks: tuple[Check, ...]
