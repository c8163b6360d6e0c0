"""The whole table: every measurement Arauto is judged by, and the goals it is held to."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from arauto.bench.build import Generator
from arauto.bench.generator import Load
from arauto.bench.goals import FAST_PEERS, check_idle, check_latency, check_rate, check_ratio
from arauto.bench.machine import describe_machine, short_commit
from arauto.bench.results import Check, Comparison, IdleResult, LatencyResult, Report
from arauto.bench.runs import OnStep, compare, measure_idle, measure_latency, running_targets

__all__ = ["FANOUTS", "Plan", "run_plan", "sample_every"]

FANOUTS = ((100, 1, 1.0), (100, 64, 1.2), (1000, 1, 1.0), (1000, 64, 1.5))
"""Subscribers, messages in flight, and how many times the best of NATS and Redis is wanted."""

_SPREAD_CHANNELS = 1000
_SPREAD_IN_FLIGHT = 256
_STORED_IN_FLIGHT = 4096
_STORED_PER_S = 50_000
_LATENCY_SUBSCRIBERS = 1000
_SAMPLED_SUBSCRIBERS = 100


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how often to measure, and against whom."""

    peers: tuple[str, ...]
    flavours: tuple[str, ...]
    rounds: int = 3
    seconds: float = 3.0
    warmup_s: float = 1.0
    sessions: int = 15_000
    batch: int = 100

    @property
    def steps(self) -> int:
        """Roughly how many measurements the plan takes, for a progress bar."""
        targets = len(self.peers) + len(self.flavours)
        throughput = (len(FANOUTS) + 1) * targets * self.rounds
        latency = targets * (self.rounds + 1)
        return throughput + latency + len(self.flavours) * (1 + 2 * self.rounds)


def sample_every(subscribers: int) -> int:
    """Return n so that every n-th subscriber gives about a hundred subscribers' latencies."""
    return max(1, subscribers // _SAMPLED_SUBSCRIBERS)


def run_plan(plan: Plan, generator: Generator, directory: Path, on_step: OnStep) -> Report:
    """Measure everything; takes several minutes."""
    machine = describe_machine()
    with running_targets(plan.peers, plan.flavours) as targets:
        versions = targets.versions()
        fanouts = [
            compare(
                generator,
                targets,
                _load(plan, "fanout", subscribers, in_flight),
                name=f"fan-out, {subscribers} subscribers, {in_flight} in flight",
                rounds=plan.rounds,
                on_step=on_step,
            )
            for subscribers, in_flight, _ in FANOUTS
        ]
        spread = compare(
            generator,
            targets,
            _load(plan, "spread", _SPREAD_CHANNELS, _SPREAD_IN_FLIGHT),
            name=f"spread, {_SPREAD_CHANNELS} channels, {_SPREAD_IN_FLIGHT} in flight",
            rounds=plan.rounds,
            on_step=on_step,
        )
        latency = measure_latency(
            generator,
            targets,
            _latency_load(plan),
            name=f"latency, {_LATENCY_SUBSCRIBERS} subscribers, half of the maximum rate",
            rounds=plan.rounds,
            rate=None,
            on_step=on_step,
        )
    idle = measure_idle(
        generator,
        (),
        plan.flavours,
        plan.sessions,
        name=f"idle, {plan.sessions:,} sessions",
        on_step=on_step,
    )
    stored = _measure_stored(plan, generator, on_step)
    return Report(
        date=datetime.now(UTC).date().isoformat(),
        commit=short_commit(directory),
        machine=machine,
        versions=versions,
        generator=generator.kind,
        notes=(generator.note,) if generator.note else (),
        comparisons=(*fanouts, spread, *stored),
        latencies=(latency,),
        idle=(idle,),
        checks=tuple(_checks(plan, fanouts, spread, latency, idle, stored)),
    )


def _load(plan: Plan, mode: str, subscribers: int, in_flight: int, batch: int = 1) -> Load:
    return Load(
        mode=mode,
        subscribers=subscribers,
        in_flight=in_flight,
        batch=batch,
        warmup_s=plan.warmup_s,
        seconds=plan.seconds,
    )


def _latency_load(plan: Plan) -> Load:
    load = _load(plan, "latency", _LATENCY_SUBSCRIBERS, 1)
    every = sample_every(_LATENCY_SUBSCRIBERS)
    # Longer than for throughput: a tail shows what is still warming up.
    warmup_s = 2 * plan.warmup_s
    return msgspec.structs.replace(load, stalled=1, sample_every=every, warmup_s=warmup_s)


def _measure_stored(plan: Plan, generator: Generator, on_step: OnStep) -> list[Comparison]:
    with running_targets((), plan.flavours, stored=True) as targets:
        return [
            compare(
                generator,
                targets,
                _load(plan, "stored", 0, _STORED_IN_FLIGHT, batch),
                name=f"stored, {'one message' if batch == 1 else f'{batch} messages'} per request",
                rounds=plan.rounds,
                on_step=on_step,
            )
            for batch in (1, plan.batch)
        ]


def _checks(
    plan: Plan,
    fanouts: Sequence[Comparison],
    spread: Comparison,
    latency: LatencyResult,
    idle: IdleResult,
    stored: Sequence[Comparison],
) -> list[Check]:
    checks: list[Check] = []
    for label in (f"arauto {flavour}" for flavour in plan.flavours):
        for comparison, (_, _, at_least) in zip(fanouts, FANOUTS, strict=True):
            checks.append(check_ratio(comparison, label, FAST_PEERS, at_least))
        checks.append(check_ratio(spread, label, ("nats",), 1.0))
        checks.extend(check_latency(latency, label, p99_ms_max=10, change_max=0.10))
        checks.append(check_idle(idle, label, session_kib_max=20, total_mib_max=512))
        checks.extend(check_rate(one, label, _STORED_PER_S) for one in stored)
    return checks
