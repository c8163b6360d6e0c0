"""The journal against a list, through any sequence of appends, queries, trims and reopenings."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.model import Direction, Serial
from arauto.storage.base import HistoryQuery, JournalEntry, Kind, LastPlace, Storage
from arauto.storage.memory import open_memory
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock

HUBS = st.sampled_from(["a", "a:b", "A"])
CHANNELS = st.sampled_from(["b:c", "c", "b"])
KINDS = st.sampled_from([Kind.MESSAGE] * 4 + [Kind.ERROR, Kind.HEARTBEAT])
NOW = st.integers(0, 60)
Model = list[tuple[int, JournalEntry]]


class JournalMachine(RuleBasedStateMachine):
    """The model keeps (seq, entry); serials grow per channel, as a channel's owner makes them."""

    can_reopen = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(tempfile.mkdtemp(prefix="arauto-model-"))
        self.model: Model = []
        self.last_seq = 0
        self.serials: dict[tuple[str, str], Serial] = {}
        self.time_ms = 1
        self.storage: Storage

    async def open(self) -> Storage:
        return open_memory(FakeClock())

    @initialize()
    def start(self) -> None:
        self.storage = self.runner.run(self.open())

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.runner.run(self.storage.close())
        self.runner.close()
        shutil.rmtree(self.directory)

    @rule(data=st.lists(st.tuples(KINDS, HUBS, CHANNELS, st.booleans(), NOW), max_size=12))
    def append(self, data: list[tuple[Kind, str, str, bool, int]]) -> None:
        batch = []
        for kind, hub, channel, new_epoch, expires_ms in data:
            epoch, offset = (s := self.serials.get((hub, channel), Serial(1, 0))).epoch, s.offset
            serial = Serial(epoch + 1, 1) if new_epoch else Serial(epoch, offset + 1)
            if kind is Kind.MESSAGE:
                self.serials[hub, channel] = serial
            self.time_ms += 1
            batch.append(
                JournalEntry(
                    kind=kind,
                    ts_ms=self.time_ms // 2,
                    hub=hub,
                    channel=channel,
                    epoch=serial.epoch,
                    offset=serial.offset,
                    expires_ms=expires_ms if expires_ms > 20 else 0,
                    payload=b"%d" % self.time_ms,
                )
            )

        async def run() -> list[object]:
            outcomes: list[object] = []
            for entry in batch:
                self.storage.journal.append(entry, outcomes.append)
            await self.storage.journal.flush()
            return outcomes

        assert self.runner.run(run()) == [None] * len(batch)
        for entry in batch:
            self.last_seq += 1
            self.model.append((self.last_seq, entry))

    @rule(
        hub=HUBS,
        channel=CHANNELS,
        now_ms=NOW,
        since=st.none() | st.builds(Serial, st.integers(0, 4), st.integers(0, 6)),
        until=st.none() | st.builds(Serial, st.integers(0, 4), st.integers(0, 6)),
        from_ms=st.integers(0, 30),
        to_ms=st.integers(0, 30),
        limit=st.integers(1, 8),
        direction=st.sampled_from(Direction),
    )
    def history(self, **fields: object) -> None:
        query = HistoryQuery(**fields)  # type: ignore[arg-type]
        found = [
            entry.to_message()
            for _, entry in self.model
            if entry.kind is Kind.MESSAGE
            and (entry.hub, entry.channel) == (query.hub, query.channel)
            and (query.since is None or Serial(entry.epoch, entry.offset) > query.since)
            and (query.until is None or Serial(entry.epoch, entry.offset) < query.until)
            and entry.ts_ms >= query.from_ms
            and (query.to_ms == 0 or entry.ts_ms <= query.to_ms)
            and not 0 < entry.expires_ms <= query.now_ms
        ]
        if query.direction is Direction.BACKWARD:
            found.reverse()
        assert self.runner.run(self.storage.journal.history(query)) == found[: query.limit]

    @rule(hub=HUBS, channel=CHANNELS)
    def last(self, hub: str, channel: str) -> None:
        mine = [
            LastPlace(Serial(e.epoch, e.offset), e.ts_ms)
            for _, e in self.model
            if e.kind is Kind.MESSAGE and (e.hub, e.channel) == (hub, channel)
        ]
        found = self.runner.run(self.storage.journal.last(hub, channel))
        assert found == (mine[-1] if mine else None)

    @rule(share=st.floats(0, 1.2), now_ms=NOW)
    def trim(self, share: float, now_ms: int) -> None:
        upto = int(self.last_seq * share)
        newest = {(e.hub, e.channel): seq for seq, e in self.model if e.kind is Kind.MESSAGE}
        kept = [
            (seq, e)
            for seq, e in self.model
            if seq > upto
            or (
                e.kind is Kind.MESSAGE
                and (not 0 < e.expires_ms <= now_ms or newest[e.hub, e.channel] == seq)
            )
        ]
        count = self.runner.run(self.storage.journal.trim(upto, now_ms))
        assert count == len(self.model) - len(kept)
        self.model = kept

    @rule()
    def reopen(self) -> None:
        if self.can_reopen:
            self.runner.run(self.storage.close())
            self.storage = self.runner.run(self.open())

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "storage"):
            assert self.storage.journal.last_seq == self.last_seq
            assert self.runner.run(self.storage.journal.read(0, 10_000)) == self.model


class SqliteJournalMachine(JournalMachine):
    can_reopen = True

    async def open(self) -> Storage:
        return await open_sqlite(self.directory, "n", FakeClock())


TestMemoryJournal = JournalMachine.TestCase
TestMemoryJournal.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestSqliteJournal = SqliteJournalMachine.TestCase
TestSqliteJournal.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
