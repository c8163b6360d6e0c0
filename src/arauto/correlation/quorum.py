"""`all_of` and `any_of`: some or all of several things happen within a time, in any order; and `match`."""

import msgspec

from arauto.correlation.matches import Output, Plan
from arauto.correlation.program import Event

__all__ = ["Nothing", "Quorum"]


class Quorum(msgspec.Struct, array_like=True, gc=False):
    """The latest event of each step that is still young enough, of one key."""

    latest: dict[int, Event] = msgspec.field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.latest

    def deadline_ms(self, plan: Plan) -> int | None:
        """When the oldest of them no longer counts."""
        if not self.latest:
            return None
        return min(event.ts_ms for event in self.latest.values()) + plan.program.span_ms

    def expire(self, plan: Plan, at_ms: int, _output: Output) -> None:
        """Forget what is too old to count."""
        since_ms = at_ms - plan.program.span_ms
        self.latest = {n: event for n, event in self.latest.items() if event.ts_ms > since_ms}

    def feed(self, plan: Plan, event: Event, output: Output) -> None:
        """Look at the next event; it may be several of the steps at once."""
        steps = plan.program.steps
        fits = [n for n in range(len(steps)) if plan.holds(n, event, {})]
        if not fits:
            return
        self.latest.update(dict.fromkeys(fits, event))
        if len(self.latest) >= plan.program.needed:
            first = min(self.latest.values(), key=lambda e: (e.ts_ms, e.node, e.seq))
            roles = {steps[n].name: found for n, found in self.latest.items()}
            output.events(first, event, event.ts_ms, roles)
            self.latest = {}


class Nothing(msgspec.Struct, array_like=True, gc=False):
    """A `match` rule remembers nothing; it comes here only for its cooldown."""

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return True

    def deadline_ms(self, _plan: Plan) -> int | None:
        """Never."""
        return None

    def expire(self, _plan: Plan, _at_ms: int, _output: Output) -> None:
        """Never called."""

    def feed(self, plan: Plan, event: Event, output: Output) -> None:
        """Every event that fits is a match."""
        if plan.holds(0, event, {}):
            output.events(event, event, event.ts_ms, {})
