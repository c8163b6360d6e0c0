"""`sequence`: steps one after another within a time, with repetition and absence.

Every event that fits the first step starts a run of its own. A run is deterministic: an event that fits
the next step moves it on, else one that fits the current step repeats that, else it is passed over
(`relaxed`) or ends the run (`strict`). An absent step ends the run if it happens before the step after it.

Unless matches may overlap, the run that is done first is the match and ends all others, or (`first_begun`)
it waits until no older run is left: one of these may still become the match and take its events away.
"""

from operator import ge, gt
from typing import Any

import msgspec

from arauto.correlation.interpreter import TALLIES
from arauto.correlation.matches import Output, Plan
from arauto.correlation.program import Event

__all__ = ["RUNS_MAX", "Sequence"]

#: Runs side by side for one key; further starts are dropped and counted.
RUNS_MAX = 64


class Run(msgspec.Struct, array_like=True, gc=False):
    """One attempt: where it is, how often the current step happened, and the last event of each step.

    Attributes:
        done: it is complete and waits for older ones.
    """

    first: Event
    at: int
    times: int
    lasts: list[Event | None]
    tallies: list[float | None] = msgspec.field(default_factory=list)
    done: bool = False

    def last(self) -> Event:
        """The latest event that took part."""
        return self.lasts[self.at] or self.first

    def take(self, plan: Plan, step: int, event: Event) -> None:
        """Let the event be part of a step."""
        _count(plan, self.tallies, step, event)
        self.times = self.times + 1 if step == self.at else 1
        self.lasts.extend([None] * (step - self.at))
        self.at = step
        self.lasts[step] = event


class Sequence(msgspec.Struct, array_like=True, gc=False):
    """The runs of one key, oldest first. Between calls the oldest is never done."""

    runs: list[Run] = msgspec.field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.runs

    def deadline_ms(self, plan: Plan) -> int | None:
        """When the oldest run ends."""
        return self.runs[0].first.ts_ms + plan.program.span_ms if self.runs else None

    def expire(self, plan: Plan, at_ms: int, output: Output) -> None:
        """The oldest run's time is over; if all that was missing is an absence, it is a match."""
        run = self.runs.pop(0)
        if plan.program.steps[-1].absent and _is_finished(plan, run):
            output.events(run.first, run.last(), at_ms, _roles(plan, run))
            if plan.program.skip != "to_next":
                end = _order(run.last())
                kept = ge if plan.program.skip == "to_last" else gt
                self.runs = [other for other in self.runs if kept(_order(other.first), end)]
        self._settle(plan, at_ms, output)

    def feed(self, plan: Plan, event: Event, output: Output) -> None:
        """Offer the event to every run, then see whether it starts one."""
        if self.runs and self._offer(plan, event, output):
            return
        if not plan.holds(0, event, {}):
            return
        # A run remembers one event per step and its first.
        most = min(RUNS_MAX, max(1, plan.program.buffer_rows // (len(plan.program.steps) + 1)))
        if len(self.runs) < most:
            tallies = [None if t.what == "sum" else 0.0 for t in plan.program.tallies]
            _count(plan, tallies, 0, event)
            self.runs.append(Run(event, 0, 1, [event], tallies))
        else:
            output.dropped += 1

    def shed(self) -> int:
        """Forget the younger half of the runs; how many."""
        gone = (len(self.runs) + 1) // 2
        del self.runs[len(self.runs) - gone :]
        return gone

    def _offer(self, plan: Plan, event: Event, output: Output) -> bool:
        """Whether a match ended with this event and rules out that it starts another."""
        program = plan.program
        ends_late = program.steps[-1].absent
        living: list[Run] = []
        ended = False
        for run in self.runs:
            if not run.done and not _survives(plan, run, event):
                continue
            if run.done or ends_late or not _is_finished(plan, run):
                living.append(run)
            elif program.skip == "to_next":
                output.events(run.first, event, event.ts_ms, _roles(plan, run))
            else:
                # Younger runs began before this event: whether this one or an older one will be the
                # match, they are inside it.
                run.done = ended = True
                living = [*living, run] if program.prefer == "first_begun" else [run]
                break
        self.runs = living
        self._settle(plan, event.ts_ms, output)
        return ended and program.skip == "past_last"

    def _settle(self, plan: Plan, at_ms: int, output: Output) -> None:
        """What is done and has no older run before it is a match."""
        while self.runs and self.runs[0].done:
            run = self.runs.pop(0)
            output.events(run.first, run.last(), at_ms, _roles(plan, run))


def _survives(plan: Plan, run: Run, event: Event) -> bool:
    """Let the run look at an event; False if that ends it."""
    steps = plan.program.steps
    env = _roles(plan, run) if plan.has_tests else {}
    here = steps[run.at]
    if run.times >= here.least:
        for n in range(run.at + 1, len(steps)):
            step = steps[n]
            if plan.holds(n, event, env):
                if step.absent:
                    return False
                run.take(plan, n, event)
                return True
            if not step.absent and step.least > 0:
                break
    if (here.most is None or run.times < here.most) and plan.holds(run.at, event, env):
        run.take(plan, run.at, event)
        return True
    return not plan.program.strict


def _is_finished(plan: Plan, run: Run) -> bool:
    steps = plan.program.steps
    rest = steps[run.at + 1 :]
    return run.times >= steps[run.at].least and all(s.absent or s.least == 0 for s in rest)


def _roles(plan: Plan, run: Run) -> dict[str, Any]:
    named = zip(plan.program.steps, run.lasts, strict=False)
    roles: dict[str, Any] = {step.name: event for step, event in named}
    roles["first"], roles["last"] = run.first, run.last()
    roles[TALLIES] = run.tallies
    return roles


def _count(plan: Plan, tallies: list[float | None], step: int, event: Event) -> None:
    for n, tally in enumerate(plan.program.tallies):
        value = 1.0 if tally.slot < 0 else event.nums[tally.slot]
        if tally.step == step and value is not None:
            tallies[n] = (tallies[n] or 0.0) + (value if tally.what == "sum" else 1.0)


def _order(event: Event) -> tuple[int, str, int]:
    return event.ts_ms, event.node, event.seq
