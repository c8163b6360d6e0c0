"""Makes the measurements: all targets under the same load, in turns, several rounds.

Rounds are interleaved (A B C A B C, not A A B B C C) because machines drift: what disturbs one target
for a while should disturb its neighbours too.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

import msgspec

from arauto.bench.build import Generator
from arauto.bench.failure import BenchError
from arauto.bench.generator import Latency, Load, Sample, idle_sessions, run_load
from arauto.bench.peers import PEERS, Target, start
from arauto.bench.procfs import Memory, memory
from arauto.bench.results import Comparison, IdleResult, IdleRow, LatencyResult, LatencyRow, Row
from arauto.bench.stats import spread_of

__all__ = ["OnStep", "Targets", "compare", "measure_idle", "measure_latency", "running_targets"]

OnStep = Callable[[str], None]
"""Told what is measured next."""

_SETTLE_TIMEOUT_S = 10.0
_SETTLE_STEP_S = 0.5
_MAXIMUM_IN_FLIGHT = 64


class Targets(msgspec.Struct, frozen=True):
    """The servers that run now, and those that could not be started."""

    ready: tuple[Target, ...]
    left_out: dict[str, str]

    def versions(self) -> dict[str, str]:
        return {target.server.name: target.server.version for target in self.ready}


def _arauto_labels(flavours: Sequence[str]) -> dict[str, str]:
    return {f"arauto {flavour}": f"arauto-{flavour}" for flavour in flavours}


@contextmanager
def running_targets(
    peers: Sequence[str], flavours: Sequence[str], *, stored: bool = False
) -> Iterator[Targets]:
    """Start Arauto (if a flavour is wanted) and the peers; stop them when the block ends.

    What is missing or does not come up is left out, with the reason.
    """
    ready: list[Target] = []
    left_out: dict[str, str] = {}
    with ExitStack() as stack:
        for name in (*(("arauto",) if flavours else ()), *peers):
            protos = _arauto_labels(flavours) if name == "arauto" else {name: ""}
            try:
                server = stack.enter_context(start(name, stored=stored))
            except BenchError as error:
                left_out.update(dict.fromkeys(protos, str(error)))
                continue
            for label, proto in protos.items():
                proto_name = proto or PEERS[name].proto
                ready.append(Target(label=label, proto=proto_name, server=server))
        yield Targets(tuple(ready), left_out)


def compare(
    generator: Generator,
    targets: Targets,
    load: Load,
    *,
    name: str,
    rounds: int,
    on_step: OnStep,
) -> Comparison:
    """Measure the throughput of every target; one that fails is left out from then on."""
    samples: dict[str, list[Sample]] = {target.label: [] for target in targets.ready}
    left_out = dict(targets.left_out)
    for number in range(1, rounds + 1):
        for target in targets.ready:
            if target.label in left_out:
                continue
            on_step(f"{name} · {target.label} · round {number}/{rounds}")
            try:
                samples[target.label].append(run_load(generator, target, load))
            except BenchError as error:
                left_out[target.label] = str(error)
    rows = tuple(
        _row(target, load, samples[target.label])
        for target in targets.ready
        if target.label not in left_out
    )
    return Comparison(name=name, load=load, rows=rows, left_out=left_out)


def _row(target: Target, load: Load, samples: Sequence[Sample]) -> Row:
    counts = [s.acks if load.mode == "stored" else s.deliveries for s in samples]
    return Row(
        label=target.label,
        is_arauto=target.is_arauto,
        per_s=spread_of([count / s.seconds for s, count in zip(samples, counts, strict=True)]),
        publishes_per_s=spread_of([s.publishes_per_s for s in samples]),
        server_cpu_us=spread_of(
            [s.server_cpu_us_per(count) for s, count in zip(samples, counts, strict=True)]
        ),
        generator_share=max(s.generator_share for s in samples),
        is_exact=all(s.is_exact for s in samples),
        rounds=tuple(samples),
    )


def measure_latency(
    generator: Generator,
    targets: Targets,
    load: Load,
    *,
    name: str,
    rounds: int,
    rate: float | None,
    on_step: OnStep,
) -> LatencyResult:
    """Measure delivery latency at a steady rate, and again with stalled readers if the load has some.

    `rate` None = half of what the target itself can publish to this many subscribers.
    """
    left_out = dict(targets.left_out)
    runs: dict[str, _LatencyRuns] = {}
    for number in range(rounds + 1):
        for target in targets.ready:
            if target.label in left_out:
                continue
            try:
                if number == 0:
                    on_step(f"{name} · {target.label} · finding its rate")
                    own_rate = rate or _half_of_maximum(generator, target, load)
                    runs[target.label] = _LatencyRuns(target, own_rate, [], [])
                else:
                    on_step(f"{name} · {target.label} · round {number}/{rounds}")
                    _latency_round(generator, runs[target.label], load)
            except BenchError as error:
                left_out[target.label] = str(error)
    rows = tuple(_latency_row(run) for label, run in runs.items() if label not in left_out)
    return LatencyResult(name=name, load=load, rows=rows, left_out=left_out)


class _LatencyRuns(msgspec.Struct, frozen=True):
    target: Target
    rate: float
    alone: list[Sample]
    stalled: list[Sample]


def _half_of_maximum(generator: Generator, target: Target, load: Load) -> float:
    fanout = msgspec.structs.replace(load, mode="fanout", in_flight=_MAXIMUM_IN_FLIGHT, stalled=0)
    return run_load(generator, target, fanout).publishes_per_s / 2


def _latency_round(generator: Generator, run: _LatencyRuns, load: Load) -> None:
    with_stalled = msgspec.structs.replace(load, rate=run.rate)
    alone = msgspec.structs.replace(with_stalled, stalled=0)
    steps = [(run.alone, alone)]
    if load.stalled:
        # In turns, since whichever comes right after another server's run finds the machine cold.
        steps.insert(len(run.alone) % 2, (run.stalled, with_stalled))
    for samples, step in steps:
        samples.append(run_load(generator, run.target, step))


def _latency_row(run: _LatencyRuns) -> LatencyRow:
    return LatencyRow(
        label=run.target.label,
        is_arauto=run.target.is_arauto,
        rate=run.rate,
        alone=_middle(run.alone),
        with_stalled=_middle(run.stalled) if run.stalled else None,
        is_exact=all(sample.is_exact for sample in (*run.alone, *run.stalled)),
    )


def _middle(samples: Sequence[Sample]) -> Latency:
    latencies = [sample.latency for sample in samples if sample.latency is not None]
    if not latencies:
        raise BenchError("the load generator reported no latency")
    fields = Latency.__struct_fields__
    return Latency(**{f: median(getattr(latency, f) for latency in latencies) for f in fields})


def measure_idle(
    generator: Generator,
    peers: Sequence[str],
    flavours: Sequence[str],
    sessions: int,
    *,
    name: str,
    on_step: OnStep,
) -> IdleResult:
    """Measure the memory of idle sessions, each target in a fresh process."""
    rows: list[IdleRow] = []
    left_out: dict[str, str] = {}
    wanted = [((), (flavour,)) for flavour in flavours] + [((peer,), ()) for peer in peers]
    for some_peers, some_flavours in wanted:
        with running_targets(some_peers, some_flavours) as targets:
            left_out.update(targets.left_out)
            for target in targets.ready:
                on_step(f"{name} · {target.label}")
                try:
                    rows.append(_idle_row(generator, target, sessions))
                except BenchError as error:
                    left_out[target.label] = str(error)
    return IdleResult(name=name, rows=tuple(rows), left_out=left_out)


def _idle_row(generator: Generator, target: Target, sessions: int) -> IdleRow:
    before = _settled_memory(target)
    began_s = time.monotonic()
    with idle_sessions(generator, target, Load(mode="idle", subscribers=sessions)):
        connect_s = time.monotonic() - began_s
        after = _settled_memory(target)
    return IdleRow(
        label=target.label,
        is_arauto=target.is_arauto,
        sessions=sessions,
        before=before,
        after=after,
        connect_s=connect_s,
    )


def _settled_memory(target: Target) -> Memory:
    """Return the memory once it has stopped moving: buffers of the handshakes are given back late."""
    deadline_s = time.monotonic() + _SETTLE_TIMEOUT_S
    last = memory(target.server.pids)
    while True:
        time.sleep(_SETTLE_STEP_S)
        now = memory(target.server.pids)
        still = abs(now.rss_bytes - last.rss_bytes) <= last.rss_bytes // 200
        if still or time.monotonic() > deadline_s:
            return now
        last = now
