"""What becomes of matches: a message each on the rule's channel, and a row each in the table `matches`.

Both can be done twice without harm: the node knows the message's id, the table the batch's number. So a batch
that was interrupted anywhere is simply done again. One job does it all, since an alert waits for every
job before it: rows are published and written as they pass.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import structlog
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame

from arauto.correlation.program import Program
from arauto.model import JSON
from arauto.pipeline.archive.bronze import batches_of
from arauto.pipeline.lake.table import Table
from arauto.pipeline.rules.allowance import Allowance, Room
from arauto.pipeline.rules.left_out import REASONS, LeftOut, LeftOutAccumulator, Reason
from arauto.pipeline.rules.output import MATCHES
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.sink.writer import Counts, Publisher

__all__ = ["Delivery", "Outcome", "OutcomeSum", "marked"]

_log = structlog.get_logger(__name__)

_HEADERS = "headers"
#: What goes to the node.
_MESSAGE = ["hub", "channel", "payload", "id", _HEADERS]


def marked(matches: pa.RecordBatch, second_hand: frozenset[str]) -> pa.RecordBatch:
    """Matches as messages, with their headers.

    A rule that looks at messages of the pipeline marks what it makes of them as second-hand, and no
    rule looks at those: rules can build on others, and cannot feed themselves.

    Args:
        matches: rows of the table `matches`.
        second_hand: references of rules that look at messages of the pipeline.
    """
    headers = []
    for row in matches.select(["hub", "rule", "version"]).to_pylist():
        ref = f"{row['hub']}/{row['rule']}@{row['version']}"
        hops = [("x-hops", "1")] if ref in second_hand else []
        headers.append([("x-rule", ref), *hops])
    made = pa.array(headers, type=pa.map_(pa.string(), pa.string()))
    return matches.append_column(_HEADERS, made).select(_MESSAGE)


@dataclass
class Outcome:
    """What became of the rows of a batch."""

    published: Counts = field(default_factory=Counts)
    left_out: LeftOut = field(default_factory=Counter)
    """Events that no match was looked for in, and what was too large."""
    tried: Counter[str] = field(default_factory=Counter)
    """Alerts that went to the node, by hub."""
    over: Counter[str] = field(default_factory=Counter)
    """Alerts above what the hub may publish."""

    def add(self, more: "Outcome") -> None:
        self.published.add(more.published)
        self.tried.update(more.tried)
        self.over.update(more.over)
        self.left_out.update(more.left_out)


class OutcomeSum(AccumulatorParam[Outcome]):
    """Adds what the tasks report. A task that is run again may report again: this is for the log."""

    def zero(self, value: Outcome) -> Outcome:
        return Outcome()

    def addInPlace(self, value1: Outcome, value2: Outcome) -> Outcome:
        value1.add(value2)
        return value1


@dataclass
class Delivery:
    """Delivers the matches of a query's batch; given to `start_query`."""

    query: str
    table: Table
    sink: SinkOptions
    programs: tuple[Program, ...]
    checkpoint: Path
    """Of the query: its batches are known by it."""
    on_left_out: Callable[[int], None] = lambda _alerts: None
    """Told how many alerts a batch did not publish, because their own hub took no more just then."""
    allowance: Allowance = field(default_factory=lambda: Allowance(0))
    """How many alerts each hub may publish."""
    events: LeftOutAccumulator | None = None
    """What was left out before it came to a rule's memory."""
    on_events_left_out: Callable[[Reason, int], None] = lambda _reason, _count: None
    """Told how much of the events a batch left out, and why."""
    outcome: Accumulator[Outcome] | None = None
    """What becomes of the rows of a batch; else one is made, which PySpark then keeps for ever."""

    def __call__(self, matches: DataFrame, batch_id: int) -> None:
        """Raises ArautoError if the node cannot be reached, so that Spark does the batch again."""
        if self.outcome is None:
            self.outcome = matches.sparkSession.sparkContext.accumulator(Outcome(), OutcomeSum())
        outcome = self.outcome
        outcome.value = Outcome()
        options = replace(self.sink, content_type=JSON)
        second_hand = frozenset(each.ref for each in self.programs if each.include_pipeline)
        start = self.allowance.room()

        def publish(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            mine, room = Outcome(), start.for_task()
            with Publisher(options, mine.published, wait_for_hubs=False) as publisher:
                for batch in batches:
                    found = _matches_of(batch, mine)
                    publisher.publish(marked(_fitting(found, room, mine), second_hand))
                    yield found
            outcome.add(mine)

        passed = matches.mapInArrow(publish, MATCHES)
        name = batches_of(self.query, self.checkpoint)
        if self.table.is_committed(name, batch_id):
            # The table has them; the frame is evaluated all the same, since the rules' memory is made by it.
            passed.write.format("noop").mode("overwrite").save()
        else:
            written = self.table.write(passed, name, batch_id)
            if written.rows:
                self.table.commit(written, name, batch_id)
            else:
                written.discard()
        done = outcome.value
        if self.events is not None:
            done.left_out.update(self.events.value)
            self.events.value = Counter()
        self.allowance.spend(done.tried)
        _tell(done)
        for (_, _, reason), count in done.left_out.items():
            self.on_events_left_out(reason, count)
        self.on_left_out(sum(done.published.left_out.values()) + done.over.total())


def _matches_of(batch: pa.RecordBatch, outcome: Outcome) -> pa.RecordBatch:
    """The rows of a batch that are matches; the others, which have no id, are counted."""
    is_match = pc.is_valid(batch["id"])
    columns = ["hub", "rule", "channel", "payload"]
    for row in batch.filter(pc.invert(is_match)).select(columns).to_pylist():
        outcome.left_out[row["hub"], row["rule"], row["channel"]] += int(row["payload"])
    return batch.filter(is_match)


def _fitting(matches: pa.RecordBatch, room: Room, outcome: Outcome) -> pa.RecordBatch:
    """Those that their hubs may publish; all are counted."""
    hubs = matches["hub"].to_pylist()
    admitted = room.admit(hubs)
    for hub, fits in zip(hubs, admitted, strict=True):
        (outcome.tried if fits else outcome.over)[hub] += 1
    return matches.filter(pa.array(admitted, type=pa.bool_()))


def _tell(outcome: Outcome) -> None:
    for (hub, rule, reason), count in sorted(outcome.left_out.items()):
        _log.warning(REASONS[reason], hub=hub, rule=rule, reason=reason, count=count)
    counts = outcome.published
    for hub, alerts in sorted(counts.left_out.items()):
        _log.warning(
            "alerts were not published: their hub takes no more just now; the table matches has them",
            hub=hub,
            alerts=alerts,
        )
    for hub, alerts in sorted(outcome.over.items()):
        _log.warning(
            "alerts were not published: there are more than pipeline.alertsPerS; the table matches has them",
            hub=hub,
            alerts=alerts,
        )
    if counts.refused or counts.looped:
        _log.warning(
            "matches were refused",
            published=counts.published + counts.repeated,
            refused=counts.refused,
            looped=counts.looped,
            first=counts.first_refusal,
        )
