"""What rules left out, by hub, rule and reason: workers add, the driver tells."""

from collections import Counter
from typing import Literal

from pyspark.accumulators import Accumulator, AccumulatorParam

__all__ = ["REASONS", "LeftOut", "LeftOutAccumulator", "LeftOutSum", "Reason"]

Reason = Literal["late_or_no_room", "too_large", "hub_full", "failed", "set_aside"]

#: Reason → what the log says.
REASONS: dict[Reason, str] = {
    "late_or_no_room": "events were left out: they came late, or a key had more than its buffer holds",
    "too_large": "keys, values or alerts were cut or left out: they took more bytes than a rule may make",
    "hub_full": "events were left out: the rules of their hub hold as much as they may",
    "failed": "events were left out: a rule failed on them, which is a defect",
    "set_aside": "rows were set aside: batches with them failed again and again",
}

#: (hub, rule, reason) → how many.
LeftOut = Counter[tuple[str, str, Reason]]


class LeftOutSum(AccumulatorParam[LeftOut]):
    """Adds what the tasks report. A task that is run again may report again: this is for the log."""

    def zero(self, value: LeftOut) -> LeftOut:
        return Counter()

    def addInPlace(self, value1: LeftOut, value2: LeftOut) -> LeftOut:
        value1.update(value2)
        return value1


LeftOutAccumulator = Accumulator[LeftOut]
