"""Rules that remember: the matcher inside Spark's `transformWithState`, one packed state per rule and key.

Every call of the state goes to the JVM and back, so a key's state is read once and written once a batch,
whatever the number of events. The matcher decides everything; this only brings it rows, the watermark
and a timer.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from arauto.correlation.matcher import advance
from arauto.correlation.matches import event_match
from arauto.correlation.program import Event, Match, Program
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.output import dropped_row, match_row
from arauto.pipeline.rules.packing import split_subject, unpack

__all__ = ["STATE_NAME", "STATE_SCHEMA", "RuleProcessor"]

STATE_NAME = "rule"
#: `timer_ms` is the one timer that is set; 0 = none. `packed` is the matcher's own.
STATE_SCHEMA = "timer_ms bigint, packed binary"

#: State is looked at again after this long at the latest, so that the state of a rule that has gone goes too.
_LOOK_AGAIN_MS = 24 * 3_600_000


class RuleProcessor(StatefulProcessor):
    """Serves all rules: the subject says which rule it is, and which key.

    Args:
        rules: the rules, by the name of their state.
    """

    def __init__(self, rules: Carried) -> None:
        self._rules = rules

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._programs = self._rules.programs
        self._state = handle.getValueState(STATE_NAME, STATE_SCHEMA)

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
        # (subject, packed): by place, since looking a name up takes longer.
        events: list[Event] = []
        settled_ms = 0
        for row in rows:
            event, settled_ms = unpack(bytes(row[1]))
            events.append(event)
        if program.path == "stateless":
            fired = [event_match(program, subject_key, event) for event in events if event.bits & 1]
            return _rows(program, fired)
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        return self._advance(program, subject_key, events, watermark_ms, settled_ms=settled_ms)

    # Spark passes these by keyword: the names are its own.
    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        ref, subject_key = split_subject(key[0])
        program = self._programs.get(ref)
        if program is None:
            self._state.clear()
            return iter(())
        fired_ms = expiredTimerInfo.getExpiryTimeInMs()
        return self._advance(
            program, subject_key, [], timerValues.getCurrentWatermarkInMs(), fired_ms=fired_ms
        )

    def close(self) -> None:
        pass

    def _advance(
        self,
        program: Program,
        key: str,
        events: list[Event],
        watermark_ms: int,
        *,
        settled_ms: int = 0,
        fired_ms: int = 0,
    ) -> Iterator[Row]:
        """Let the matcher look at a key.

        Spark's watermark is that of the batch before. Where the source knows that nothing older can come,
        what this batch brought is decided at once. Timers are Spark's, and go by its watermark.
        """
        kept = self._state.get()
        timer_ms, packed = (kept[0], bytes(kept[1])) if kept is not None else (0, None)
        outcome = advance(program, key, packed, events, max(watermark_ms, settled_ms))
        wanted_ms = 0
        if outcome.state is not None:
            wanted_ms = _timer_ms(timer_ms, outcome.deadline_ms, watermark_ms)
        if wanted_ms != timer_ms:
            # A timer that has just fired is deleted by Spark.
            if timer_ms and timer_ms != fired_ms:
                self._handle.deleteTimer(timer_ms)
            if wanted_ms:
                self._handle.registerTimer(wanted_ms)
        if outcome.state is None:
            if kept is not None:
                self._state.clear()
        elif outcome.state != packed or wanted_ms != timer_ms:
            self._state.update((wanted_ms, outcome.state))
        found = _rows(program, outcome.matches)
        if outcome.dropped:
            lost = dropped_row(program, key, outcome.dropped, watermark_ms)
            return chain(found, [Row(**lost)])
        return found


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


def _rows(program: Program, matches: Iterable[Match]) -> Iterator[Row]:
    return iter([Row(**match_row(program, match)) for match in matches])
