"""Runs the load generator against one target and reads what it measured."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from arauto.bench.build import Generator
from arauto.bench.failure import BenchError
from arauto.bench.peers import Target

__all__ = ["Latency", "Load", "Sample", "idle_sessions", "run_load"]

_SLACK_S = 120.0
"""How long connecting and draining may take beside the measurement itself."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the generator does. Fields that a mode does not use are ignored by it."""

    mode: str
    subscribers: int = 1
    in_flight: int = 1
    publishers: int = 1
    batch: int = 1
    payload_bytes: int = 100
    rate: float = 1000.0
    """Publications per second of `latency`."""
    stalled: int = 0
    """Further subscribers that never read."""
    sample_every: int = 1
    """`latency` looks at every n-th subscriber."""
    warmup_s: float = 1.0
    seconds: float = 3.0


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """From when a message was due to be sent to when a subscriber had read it."""

    samples: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as the generator reports it. Counts are of the measured window unless named `_total`."""

    generator: str
    seconds: float
    deliveries: int
    publishes: int
    acks: int
    server_cpu_s: float
    generator_cpu_s: float
    published_total: int
    delivered_total: int
    acked_total: int
    refused_total: int
    lost: int
    uneven_subscribers: int
    """Subscribers that did not get exactly what was published to their channel."""
    gaps: int
    latency: Latency | None = None

    @property
    def deliveries_per_s(self) -> float:
        return self.deliveries / self.seconds

    @property
    def publishes_per_s(self) -> float:
        return self.publishes / self.seconds

    @property
    def acks_per_s(self) -> float:
        return self.acks / self.seconds

    def server_cpu_us_per(self, count: int) -> float:
        """Processor time of the server for each of `count` things: hardly disturbed by other work."""
        return self.server_cpu_s / count * 1e6 if count else 0.0

    @property
    def generator_share(self) -> float:
        """How much of one core the generator used; near 1, it may have been the limit."""
        return self.generator_cpu_s / self.seconds

    @property
    def is_exact(self) -> bool:
        """Whether every subscriber got every message once."""
        return not (self.lost or self.uneven_subscribers or self.refused_total or self.gaps)


def _arguments(target: Target, load: Load) -> list[str]:
    options = {
        "proto": target.proto,
        "mode": load.mode,
        "port": target.server.port,
        "subscribers": load.subscribers,
        "publishers": load.publishers,
        "in-flight": load.in_flight,
        "batch": load.batch,
        "payload-bytes": load.payload_bytes,
        "rate": load.rate,
        "stalled": load.stalled,
        "sample-every": load.sample_every,
        "warmup": load.warmup_s,
        "seconds": load.seconds,
    }
    pids = [part for pid in target.server.pids for part in ("--server-pid", str(pid))]
    return [*(part for name, value in options.items() for part in (f"--{name}", str(value))), *pids]


def run_load(generator: Generator, target: Target, load: Load) -> Sample:
    """Run one measurement.

    Raises:
        BenchError: the generator gave up; the text says why.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own generator
            [*generator.argv, *_arguments(target, load)],
            capture_output=True,
            text=True,
            timeout=load.warmup_s + load.seconds + _SLACK_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{target.label}: the load generator did not end in time") from error
    if done.returncode != 0:
        raise BenchError(f"{target.label}: {done.stderr.strip() or 'the load generator failed'}")
    return msgspec.json.decode(done.stdout, type=Sample)


@contextmanager
def idle_sessions(generator: Generator, target: Target, load: Load) -> Iterator[None]:
    """Hold `load.subscribers` connections, each subscribed to its own channel, while the block runs.

    Raises:
        BenchError: they could not all be opened, or some were lost meanwhile.
    """
    process = subprocess.Popen(  # noqa: S603 - our own generator
        [*generator.argv, *_arguments(target, load)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError(f"{target.label}: {process.communicate()[1].strip()}")
        yield
        _, errors = process.communicate("", timeout=_SLACK_S)
        if process.returncode != 0:
            raise BenchError(f"{target.label}: {errors.strip()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
