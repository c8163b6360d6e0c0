"""`hold`: a condition becomes true and stays true for some time."""

import msgspec

from arauto.correlation.matches import Output, Plan
from arauto.correlation.program import Event

__all__ = ["Hold"]

_START, _CANCEL = 0, 1


class Hold(msgspec.Struct, array_like=True, gc=False):
    """What is remembered for one key.

    Attributes:
        base: the last event seen while nothing was held (only for rules that compare with it).
        first: the event that started the hold that is running; `last` the latest one in it.
        fired: the hold ran its time; nothing can start before it is cancelled (rules without base).
        seen_ms: the time of the latest event.
    """

    base: Event | None = None
    first: Event | None = None
    last: Event | None = None
    fired: bool = False
    seen_ms: int = 0

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return self.base is None and self.first is None and not self.fired

    def deadline_ms(self, plan: Plan) -> int | None:
        """When something happens next without an event."""
        if self.first is not None:
            return self.first.ts_ms + plan.program.span_ms
        return None if self.is_empty() else self.seen_ms + plan.program.forget_ms

    def expire(self, plan: Plan, at_ms: int, output: Output) -> None:
        """The deadline has come: the hold has lasted, or the key was silent for too long."""
        if self.first is None or self.last is None:
            self.base, self.fired = None, False
            return
        output.events(self.first, self.last, at_ms, {"base": self.base})
        if plan.program.has_base:
            self.base = self.last
        else:
            self.fired = True
        self.first = self.last = None

    def feed(self, plan: Plan, event: Event, _output: Output) -> None:
        """Look at the next event."""
        if any((event.nums if num else event.texts)[i] is None for num, i in plan.base_slots):
            return  # It says nothing about what is compared, so it neither starts, ends nor is a base.
        self.seen_ms = event.ts_ms
        env = {"base": self.base}
        if self.first is not None:
            if not plan.holds(_CANCEL, event, env):
                self.last = event
                return
            self.first = self.last = None
        elif self.fired:
            self.fired = not plan.holds(_CANCEL, event, env)
            return
        elif plan.holds(_START, event, env):
            self.first = self.last = event
            return
        if plan.program.has_base:
            self.base = event
