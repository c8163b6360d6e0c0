"""When to start the rules query anew because rules changed. Pure.

A restart takes a second or two in which nothing is matched (nothing is lost: the rows wait). So changes that
come one after the other are gathered, but never for long.
"""

from dataclasses import dataclass, replace

from arauto.pipeline.rules.registry import Fingerprint

__all__ = ["GAP_S", "GATHER_S", "Watch", "look", "restarted"]

#: A change waits this long for others that belong to it.
GATHER_S = 1.0
#: Restarts are at least this far apart.
GAP_S = 10.0


@dataclass(frozen=True, slots=True)
class Watch:
    """What runs, and what was seen since."""

    running: Fingerprint
    started_s: float
    changed_s: float | None = None
    """Since when the node's rules differ from those that run."""


def look(watch: Watch, wanted: Fingerprint, now_s: float) -> tuple[Watch, bool]:
    """Take note of the node's rules; whether to restart now. Times are of a clock that never goes back."""
    if wanted == watch.running:
        return replace(watch, changed_s=None), False
    since_s = now_s if watch.changed_s is None else watch.changed_s
    due = now_s - since_s >= GATHER_S and now_s - watch.started_s >= GAP_S
    return replace(watch, changed_s=since_s), due


def restarted(running: Fingerprint, now_s: float) -> Watch:
    """The watch after a start with these rules."""
    return Watch(running, now_s)
