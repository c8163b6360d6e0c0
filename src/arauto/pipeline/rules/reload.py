"""When to start the rules query anew because rules changed. Pure.

A restart takes a second or two in which nothing is matched (nothing is lost: the rows wait). So changes that
come one after the other are gathered, but never for long. Changes of hubs that nobody waits
for are no reason. And a batch under way is done first: else changes in many hubs could cut off each one, and
no alert would ever come.
"""

from dataclasses import dataclass, replace

from arauto.pipeline.rules.registry import Fingerprint

__all__ = [
    "BATCH_S",
    "GAP_S",
    "GATHER_S",
    "Turn",
    "Watch",
    "changed_hubs",
    "had_its_turn",
    "look",
    "restarted",
]

#: A change waits this long for others that belong to it.
GATHER_S = 1.0
#: Restarts are at least this far apart.
GAP_S = 10.0
#: So long after a start rules also take effect in the middle of a batch: they may be what it suffers from.
BATCH_S = 600.0


@dataclass(frozen=True, slots=True)
class Watch:
    """What runs, and what was seen since."""

    running: Fingerprint
    started_s: float
    changed_s: float | None = None
    """Since when the node's rules differ from those that run, and somebody waits for that."""


def look(
    watch: Watch, wanted: Fingerprint, now_s: float, passing: frozenset[str] = frozenset()
) -> tuple[Watch, bool]:
    """Take note of the node's rules; whether to restart now.

    Args:
        now_s: the time of a clock that never goes back.
        passing: hubs that nobody waits for.
    """
    if not changed_hubs(watch.running, wanted) - passing:
        return replace(watch, changed_s=None), False
    since_s = now_s if watch.changed_s is None else watch.changed_s
    due = now_s - since_s >= GATHER_S and now_s - watch.started_s >= GAP_S
    return replace(watch, changed_s=since_s), due


@dataclass(frozen=True, slots=True)
class Turn:
    """How far a query has come since it was started."""

    is_at_work: bool
    """Whether it is in a batch, or just coming up."""
    done_before: int | None
    """The last batch that was done when it was started."""
    done_now: int | None


def had_its_turn(watch: Watch, turn: Turn, now_s: float) -> bool:
    """Whether the query may be stopped: it has done a batch, or there is none to do."""
    has_done = turn.done_now != turn.done_before
    return has_done or not turn.is_at_work or now_s - watch.started_s >= BATCH_S


def changed_hubs(running: Fingerprint, wanted: Fingerprint) -> frozenset[str]:
    """The hubs whose rules differ; "" if rules are to begin anew, which is nobody's to delay."""
    return frozenset(hub if rule else "" for hub, rule, _ in running ^ wanted)


def restarted(running: Fingerprint, now_s: float) -> Watch:
    """The watch after a start with these rules."""
    return Watch(running, now_s)
