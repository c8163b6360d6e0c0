"""`count` and `change`: totals over windows of time.

A window is made of panes as long as the step between windows, so each event is added once however many
windows it lies in. Totals that were computed elsewhere (in SQL) are judged by `totals_match`.
"""

from typing import Any

import msgspec

from arauto.correlation.bounds import short
from arauto.correlation.interpreter import TOTALS
from arauto.correlation.matches import Draft, Output, Plan, finish, prepared
from arauto.correlation.program import Event, Group, Match, Program

__all__ = ["Pane", "Totals", "Windows", "member_change", "totals_match"]

Place = tuple[str, int]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """One window of one key: [start_ms, end_ms).

    Attributes:
        first: (node, seq) of the first event by (time, node, seq); `last` likewise.
        count: events.
        present: events whose value is not NULL; sum, min and max are over these.
        distinct_count: different values.
        members: members whose value changed enough; `up` of them rose, `down` fell.
    """

    start_ms: int
    end_ms: int
    first: Place
    last: Place
    count: int = 0
    present: int = 0
    sum: float | None = None
    min: float | None = None
    max: float | None = None
    distinct_count: int = 0
    members: int = 0
    up: int = 0
    down: int = 0

    def named(self) -> dict[str, float | None]:
        """The totals by the names that rules use."""
        share = max(self.up, self.down) / self.members if self.members else None
        mean = self.sum / self.present if self.present and self.sum is not None else None
        return {
            "count": float(self.count),
            "sum": self.sum,
            "avg": mean,
            "min": self.min,
            "max": self.max,
            "distinct_count": float(self.distinct_count),
            "members": float(self.members),
            "up": float(self.up),
            "down": float(self.down),
            "same_sign_share": share,
            "window_start": float(self.start_ms),
            "window_end": float(self.end_ms),
        }


def totals_match(program: Program, key: str, totals: Totals) -> Match | None:
    """The match that a window's totals make, if they do."""
    plan = prepared(program)
    draft = _judged(plan, totals)
    return finish(plan, key, draft) if draft else None


def _judged(plan: Plan, totals: Totals) -> Draft | None:
    env = {TOTALS: totals.named()}
    if plan.when is None or plan.when(env) is not True:
        return None
    return Draft(totals.first, totals.last, totals.end_ms, env)


def member_change(group: Group, first: float, last: float) -> int:
    """1 if a member rose enough, -1 if it fell enough, else 0. A change from 0 has no percentage."""
    if first == 0:
        return 0
    percent = (last - first) / abs(first) * 100
    beyond = abs(percent) > group.percent or (group.op == ">=" and abs(percent) == group.percent)
    if not beyond or percent == 0:
        return 0
    return 1 if percent > 0 else -1


class Pane(msgspec.Struct, array_like=True, gc=False):
    """The totals of one piece of time. Members map to their first and last value."""

    start_ms: int
    first: Place
    last: Place
    count: int = 0
    present: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None
    distinct: set[float | str] = msgspec.field(default_factory=set)
    members: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)

    def add(self, plan: Plan, event: Event, room: int) -> bool:
        """Add an event; False if there was no room to remember something new about it."""
        self.last = (event.node, event.seq)
        self.count += 1
        if plan.program.kind == "change":
            return self._add_member(event, room)
        value = (event.nums or event.texts or (None,))[0]
        if value is None:
            return True
        self.present += 1
        if isinstance(value, float):
            self.sum += value
            self.min = value if self.min is None else min(self.min, value)
            self.max = value if self.max is None else max(self.max, value)
        else:
            value = short(value)
        if value not in self.distinct:
            if room <= 0:
                return False
            self.distinct.add(value)
        return True

    def _add_member(self, event: Event, room: int) -> bool:
        member, value = event.texts[0], event.nums[0]
        if member is None or value is None:
            return True
        member = short(member)
        known = self.members.get(member)
        if known is None and room <= 0:
            return False
        self.members[member] = (known[0] if known else value, value)
        return True


class Windows(msgspec.Struct, array_like=True, gc=False):
    """The panes of one key that open windows still need, oldest first."""

    panes: list[Pane] = msgspec.field(default_factory=list)
    ended_ms: int = 0

    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.panes

    def deadline_ms(self, plan: Plan) -> int | None:
        """When the next window ends."""
        if not self.panes or plan.program.window is None:
            return None
        every_ms = plan.program.window.every_ms
        return max(self.panes[0].start_ms, self.ended_ms) + every_ms

    def expire(self, plan: Plan, at_ms: int, output: Output) -> None:
        """Close a window."""
        window = plan.program.window
        if window is None:
            return
        inside = [pane for pane in self.panes if pane.start_ms < at_ms]
        if inside:
            totals = _merged(plan.program, inside, at_ms - window.length_ms, at_ms)
            if draft := _judged(plan, totals):
                output.drafts.append(draft)
        self.ended_ms = at_ms
        oldest_ms = at_ms + window.every_ms - window.length_ms
        self.panes = [pane for pane in self.panes if pane.start_ms >= oldest_ms]

    def feed(self, plan: Plan, event: Event, output: Output) -> None:
        """Add an event to its pane."""
        window = plan.program.window
        if window is None:
            return
        start_ms = event.ts_ms - event.ts_ms % window.every_ms
        if not self.panes or self.panes[-1].start_ms != start_ms:
            place = (event.node, event.seq)
            self.panes.append(Pane(start_ms, place, place))
        kept = sum(len(pane.distinct) + len(pane.members) for pane in self.panes)
        if not self.panes[-1].add(plan, event, plan.program.buffer_rows - kept):
            output.dropped += 1


def _merged(program: Program, panes: list[Pane], start_ms: int, end_ms: int) -> Totals:
    present = sum(pane.present for pane in panes)
    lows = [pane.min for pane in panes if pane.min is not None]
    highs = [pane.max for pane in panes if pane.max is not None]
    distinct: set[float | str] = set()
    members: dict[str, tuple[float, float]] = {}
    for pane in panes:
        distinct |= pane.distinct
        for member, (first, last) in pane.members.items():
            members[member] = (members[member][0] if member in members else first, last)
    moves: list[Any] = []
    if program.group is not None:
        group = program.group
        moves = [member_change(group, first, last) for first, last in members.values()]
    return Totals(
        start_ms=start_ms,
        end_ms=end_ms,
        first=panes[0].first,
        last=panes[-1].last,
        count=sum(pane.count for pane in panes),
        present=present,
        sum=sum(pane.sum for pane in panes) if lows else None,
        min=min(lows, default=None),
        max=max(highs, default=None),
        distinct_count=len(distinct),
        members=len(moves) - moves.count(0),
        up=moves.count(1),
        down=moves.count(-1),
    )
