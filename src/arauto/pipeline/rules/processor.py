"""Rules that remember: the matcher inside Spark's `transformWithState`, one packed state per rule and key.

Every call of the state goes to the JVM and back, so a key's state is read once and written once a batch,
whatever the number of events. The matcher decides everything; this only brings it rows, the watermark
and a timer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from arauto.correlation.bounds import CALL_BYTES_MAX, bytes_of, refused
from arauto.correlation.matcher import Outcome, advance
from arauto.correlation.matches import event_match, size_of
from arauto.correlation.program import Event, Program
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.holdings import Holdings
from arauto.pipeline.rules.left_out import Reason
from arauto.pipeline.rules.output import dropped_row, match_row
from arauto.pipeline.rules.packing import split_subject, unpack
from arauto.pipeline.rules.trouble import Care

__all__ = ["HUB_BYTES_MAX", "STATE_NAME", "STATE_SCHEMA", "RuleProcessor", "held_bytes"]

STATE_NAME = "rule"
#: `timer_ms` is the one timer that is set; 0 = none. `packed` is the matcher's own.
STATE_SCHEMA = "timer_ms bigint, packed binary"

#: What the rules of one hub may hold in one of the two partitions of the state. At the bound new events are
#: left out, and what is held goes with its time.
HUB_BYTES_MAX = 64 * 1_048_576

#: A key is kept with its state, and twice with its timer.
_KEY_TIMES = 3

_NO_CARE = Care()

#: State is looked at again after this long at the latest, so that the state of a rule that has gone goes too.
_LOOK_AGAIN_MS = 24 * 3_600_000


class RuleProcessor(StatefulProcessor):
    """Serves all rules: the subject says which rule it is, and which key.

    Args:
        rules: the rules, by the name of their state.
        hub_bytes_max: what the rules of one hub may hold in one partition of the state.
        care: what to write down, after failures.
    """

    def __init__(
        self, rules: Carried, hub_bytes_max: int = HUB_BYTES_MAX, care: Care = _NO_CARE
    ) -> None:
        self._rules = rules
        self._care = care
        self._hub_bytes_max = hub_bytes_max

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._programs = self._rules.programs
        self._state = handle.getValueState(STATE_NAME, STATE_SCHEMA)
        self._holdings = Holdings(handle, self._state)
        self._timers_bytes = 0

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,
    ) -> Iterator[Row]:
        ref, subject_key = split_subject(key[0])
        program = self._programs.get(ref)
        # Rows and programs come from the same plan; this is for a rule that is left out of one by mistake.
        if program is None:
            return iter(())
        self._care.at(program.hub)
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        if program.path == "stateless":
            return iter(_fired(program, subject_key, rows, watermark_ms))
        # (subject, packed): by place, since looking a name up takes longer.
        events: list[Event] = []
        settled_ms = left_out = 0
        room = CALL_BYTES_MAX
        for row in rows:
            packed = bytes(row[1])
            room -= len(packed)
            if room < 0:
                left_out += 1
                continue
            event, settled_ms = unpack(packed)
            events.append(event)
        return self._advance(
            _Turn(program, key[0], subject_key, watermark_ms),
            events,
            settled_ms=settled_ms,
            left_out=left_out,
        )

    # Spark passes these by keyword: the names are its own.
    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        ref, subject_key = split_subject(key[0])
        program = self._programs.get(ref)
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        if program is None:
            self._forget(key[0], ref.partition("/")[0])
            return iter(())
        self._care.at(program.hub)
        if self._timers_bytes >= CALL_BYTES_MAX:
            return self._put_off(watermark_ms)
        fired_ms = expiredTimerInfo.getExpiryTimeInMs()
        turn = _Turn(program, key[0], subject_key, watermark_ms)
        found = list(self._advance(turn, [], fired_ms=fired_ms))
        # What all timers of a batch make goes to Java as one piece.
        self._timers_bytes += sum(len(row["payload"]) for row in found)
        return iter(found)

    def close(self) -> None:
        self._holdings.save()
        self._care.at("")

    def _put_off(self, watermark_ms: int) -> Iterator[Row]:
        """Look at a key whose timer has fired in the next batch."""
        kept = self._state.get()
        if kept is not None:
            self._handle.registerTimer(watermark_ms + 1)
            self._state.update((watermark_ms + 1, bytes(kept[1])))
        return iter(())

    def _forget(self, subject: str, hub: str) -> None:
        kept = self._state.get()
        if kept is not None:
            self._holdings.bytes_of(hub, subject)
            self._holdings.change(hub, -held_bytes(subject, kept[1]))
            self._state.clear()

    def _advance(
        self,
        turn: "_Turn",
        events: list[Event],
        *,
        settled_ms: int = 0,
        fired_ms: int = 0,
        left_out: int = 0,
    ) -> Iterator[Row]:
        """Let the matcher look at a key.

        Spark's watermark is that of the batch before. Where the source knows that nothing older can come,
        what this batch brought is decided at once. Timers are Spark's, and go by its watermark.
        """
        program, watermark_ms = turn.program, turn.watermark_ms
        held = self._holdings.bytes_of(program.hub, turn.subject)
        told: Counter[Reason] = Counter({"late_or_no_room": left_out})
        if events and held >= self._hub_bytes_max:
            # Time goes on for what is there, which makes room sooner or later.
            told["hub_full"] = len(events)
            events = []
        kept = self._state.get()
        timer_ms, packed = (kept[0], bytes(kept[1])) if kept is not None else (0, None)
        try:
            outcome = advance(program, turn.key, packed, events, max(watermark_ms, settled_ms))
        except Exception:
            # It would fail again and again, and stop the rules of all hubs.
            outcome = Outcome(None, [], None, 0)
            told["failed"] = max(1, len(events))
        told["late_or_no_room"] += outcome.dropped
        told["too_large"] += outcome.too_large
        wanted_ms = 0
        if outcome.state is not None:
            wanted_ms = _timer_ms(timer_ms, outcome.deadline_ms, watermark_ms)
        self._set_timer(timer_ms, wanted_ms, fired_ms)
        if outcome.state is None:
            if kept is not None:
                self._state.clear()
        elif outcome.state != packed or wanted_ms != timer_ms:
            self._state.update((wanted_ms, outcome.state))
        before, now = (held_bytes(turn.subject, state) for state in (packed, outcome.state))
        self._holdings.change(program.hub, now - before)
        found = [Row(**match_row(program, match)) for match in outcome.matches]
        return iter([*found, *_told(program, turn.key, told, watermark_ms)])

    def _set_timer(self, timer_ms: int, wanted_ms: int, fired_ms: int) -> None:
        if wanted_ms != timer_ms:
            # A timer that has just fired is deleted by Spark.
            if timer_ms and timer_ms != fired_ms:
                self._handle.deleteTimer(timer_ms)
            if wanted_ms:
                self._handle.registerTimer(wanted_ms)


def held_bytes(subject: str, state: bytes | None) -> int:
    """What a key of a rule takes, with a state or without (None)."""
    return 0 if state is None else len(state) + _KEY_TIMES * bytes_of(subject)


@dataclass(slots=True)
class _Turn:
    """One key of one rule, and how far time has come."""

    program: Program
    subject: str
    key: str
    watermark_ms: int


def _fired(program: Program, key: str, rows: Iterator[Any], watermark_ms: int) -> list[Row]:
    """The matches of a rule that looks at every row for itself."""
    found: list[Row] = []
    told: Counter[Reason] = Counter()
    before = refused.count
    room = CALL_BYTES_MAX
    for row in rows:
        event, _ = unpack(bytes(row[1]))
        if not event.bits & 1:
            continue
        if room <= 0:
            refused.count += 1
            continue
        try:
            match = event_match(program, key, event)
        except Exception:
            told["failed"] += 1
            continue
        room -= size_of(match)
        found.append(Row(**match_row(program, match)))
    told["too_large"] = refused.count - before
    return found + _told(program, key, told, watermark_ms)


def _told(program: Program, key: str, told: "Counter[Reason]", at_ms: int) -> list[Row]:
    return [
        Row(**dropped_row(program, key, count, at_ms, reason))
        for reason, count in told.items()
        if count
    ]


def _timer_ms(set_ms: int, deadline_ms: int | None, watermark_ms: int) -> int:
    """When to look at a key again, given the timer that is set (0 = none).

    A timer that fires too early costs one call; moving it with every event would cost two a batch.
    """
    look_ms = watermark_ms + _LOOK_AGAIN_MS
    deadline_ms = look_ms if deadline_ms is None else min(deadline_ms, look_ms)
    if watermark_ms < set_ms <= deadline_ms:
        return set_ms
    # Spark refuses timers that are due already.
    return max(deadline_ms, watermark_ms + 1)
