"""`absence`: something is expected and does not come in time; without a trigger, silence itself."""

import msgspec

from arauto.correlation.matches import Output, Plan
from arauto.correlation.program import Event

__all__ = ["Absence"]

_AFTER, _EXPECT = 0, 1


class Absence(msgspec.Struct, array_like=True, gc=False):
    """The event since which one key waits."""

    waiting: Event | None = None

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return self.waiting is None

    def deadline_ms(self, plan: Plan) -> int | None:
        """When waiting ends."""
        return self.waiting.ts_ms + plan.program.span_ms if self.waiting else None

    def expire(self, _plan: Plan, at_ms: int, output: Output) -> None:
        """What was expected did not come."""
        if self.waiting is not None:
            output.events(self.waiting, self.waiting, at_ms, {})
        self.waiting = None

    def feed(self, plan: Plan, event: Event, _output: Output) -> None:
        """What is expected ends the wait; a trigger (maybe the same event) starts one."""
        if plan.holds(_EXPECT, event, {}):
            self.waiting = None
        if self.waiting is None and plan.holds(_AFTER, event, {}):
            self.waiting = event
