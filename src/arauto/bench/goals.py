"""The goals Arauto is held to, and whether a run reached them. Pure.

A goal that could not be measured (a peer is missing) is neither met nor missed.
"""

from collections.abc import Iterable

from arauto.bench.results import Check, Comparison, IdleResult, LatencyResult
from arauto.bench.stats import best_of, ratio

__all__ = [
    "FAST_PEERS",
    "check_idle",
    "check_latency",
    "check_rate",
    "check_ratio",
]

FAST_PEERS = ("nats", "redis")
_KIB = 1024
_MIB = 1024 * 1024


def _unmeasured(what: str, goal: str, why: str) -> Check:
    return Check(what=what, goal=goal, reached=f"not measured: {why}", is_met=None)


def check_ratio(comparison: Comparison, label: str, peers: Iterable[str], at_least: float) -> Check:
    """Hold a target's throughput against the best of some peers in the same run."""
    names = tuple(peers)
    what = f"{comparison.name}, {label}"
    goal = f"≥ {at_least:.1f} × {' or '.join(names)}"
    medians = comparison.medians()
    best = best_of(medians, names)
    if label not in medians:
        return _unmeasured(what, goal, comparison.left_out.get(label, "no figure"))
    found = ratio(medians[label], best[1]) if best else None
    if best is None or found is None:
        return _unmeasured(what, goal, "no peer to compare with")
    return Check(what=what, goal=goal, reached=f"{found:.2f} × {best[0]}", is_met=found >= at_least)


def check_rate(comparison: Comparison, label: str, at_least_per_s: float) -> Check:
    """Hold a target's throughput against a number."""
    goal = f"≥ {at_least_per_s:,.0f}/s"
    medians = comparison.medians()
    if label not in medians:
        return _unmeasured(comparison.name, goal, comparison.left_out.get(label, "no figure"))
    found = medians[label]
    return Check(
        what=f"{comparison.name}, {label}",
        goal=goal,
        reached=f"{found:,.0f}/s",
        is_met=found >= at_least_per_s,
    )


def check_latency(
    result: LatencyResult, label: str, p99_ms_max: float, change_max: float
) -> list[Check]:
    """Hold a target's p99, and how far stalled readers move it, against limits."""
    what = f"{result.name}, {label}"
    goals = (f"p99 ≤ {p99_ms_max:g} ms", f"stalled readers move p99 by ≤ {change_max:.0%}")
    row = next((row for row in result.rows if row.label == label), None)
    if row is None:
        why = result.left_out.get(label, "no figure")
        return [_unmeasured(what, goal, why) for goal in goals]
    p99_ms = row.alone.p99_ms
    checks = [
        Check(what=what, goal=goals[0], reached=f"{p99_ms:.2f} ms", is_met=p99_ms <= p99_ms_max)
    ]
    change = row.p99_change
    if change is None:
        checks.append(_unmeasured(what, goals[1], "no stalled readers in this run"))
    else:
        checks.append(
            Check(what=what, goal=goals[1], reached=f"{change:+.1%}", is_met=change <= change_max)
        )
    return checks


def check_idle(
    result: IdleResult, label: str, session_kib_max: float, total_mib_max: float
) -> Check:
    """Hold the memory of idle sessions against limits."""
    goal = f"≤ {session_kib_max:g} KiB each, ≤ {total_mib_max:g} MiB in all"
    what = f"{result.name}, {label}"
    row = next((row for row in result.rows if row.label == label), None)
    if row is None:
        return _unmeasured(what, goal, result.left_out.get(label, "no figure"))
    each_kib = row.bytes_per_session / _KIB
    total_mib = row.after.rss_bytes / _MIB
    return Check(
        what=what,
        goal=goal,
        reached=f"{each_kib:.1f} KiB each, {total_mib:.0f} MiB in all",
        is_met=each_kib <= session_kib_max and total_mib <= total_mib_max,
    )
