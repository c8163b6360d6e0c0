"""A node's signs of life: often while there is something to tell apart, seldom in a silence."""

from itertools import pairwise

from arauto.recorder import Recorder
from arauto.storage.base import JournalEntry, Kind
from arauto.storage.memory import MemoryJournal
from arauto.telemetry.intervals import HubLevels, Interval
from arauto.telemetry.metrics import NodeGauges, Totals
from arauto.testing.clock import FakeClock


class _Node:
    def __init__(self, interval_s: float = 10) -> None:
        self.clock = FakeClock()
        self.journal = MemoryJournal(self.clock)
        self.recorder = Recorder(self.journal, self.clock, interval_s)
        self.recorder.start()
        self.clock.run_soon()

    def write(self) -> None:
        entry = JournalEntry(kind=Kind.MESSAGE, ts_ms=self.clock.wall_ms())
        self.journal.append(entry, lambda error: None)
        self.clock.run_soon()

    async def beats(self) -> list[float]:
        """When heartbeats were written, in seconds after the start."""
        rows = [entry for _, entry in await self.journal.read(0, 1_000)]
        start_ms = rows[0].ts_ms
        return [(row.ts_ms - start_ms) / 1_000 for row in rows if row.kind is Kind.HEARTBEAT]


async def test_a_silent_node_gives_a_sign_of_life_at_each_interval() -> None:
    node = _Node()
    node.clock.advance(35)
    assert await node.beats() == [0, 10, 20, 30]


async def test_every_row_is_followed_by_signs_of_life_for_some_seconds() -> None:
    node = _Node()
    node.clock.advance(3.5)
    node.write()
    node.clock.advance(20)
    # Then the interval begins anew.
    assert await node.beats() == [0, 4, 5, 6, 16]


async def test_a_busy_node_gives_one_every_second() -> None:
    node = _Node()
    for _ in range(50):
        node.clock.advance(0.1)
        node.write()
    assert await node.beats() == [0, 1, 2, 3, 4, 5]


async def test_a_recorder_that_was_stopped_writes_no_more() -> None:
    node = _Node()
    node.write()
    node.recorder.stop()
    node.clock.advance(60)
    assert await node.beats() == [0]


async def test_the_rows_of_many_hubs_are_written_some_at_a_time() -> None:
    node = _Node()
    names = [f"h{number}" for number in range(1_000)]
    interval = Interval(
        start_ms=0,
        end_ms=1,
        total=Totals(),
        hubs={},
        levels={name: HubLevels(1, 1, 1, 1) for name in names},
        gauges=NodeGauges(),
        sessions_peak=0,
    )
    before = node.journal.last_seq
    written = []
    for _ in node.recorder.record(interval):
        node.clock.run_soon()
        written.append(node.journal.last_seq)
    node.clock.run_soon()
    assert max(later - one for one, later in pairwise([before, *written])) <= 100
    rows = [entry for _, entry in await node.journal.read(0, 2_000)]
    assert [row.hub for row in rows if row.kind is Kind.COUNTERS] == ["", *names]
