"""The outbox: bounded in bytes after every step, in order, and honest about what it dropped."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.codec.events import Event, Gap, Occupancy, Pong, Publication
from arauto.errors import Code
from arauto.hub.fanout import Lane, Turn
from arauto.hub.outbox import Outbox
from arauto.hub.share import Pool, Share
from arauto.model import Serial, SlowPolicy
from arauto.telemetry.counters import Counters
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import WIRE, message, split

LIMIT_BYTES = 600
CHANNELS = ("a", "b", "c")
channels = st.sampled_from(CHANNELS)
policies = st.sampled_from(list(SlowPolicy))


class Transport:
    """A connection's write side that fills up when the test says so."""

    def __init__(self) -> None:
        self.data = b""
        self.fills_up = False
        self.outbox: Outbox | None = None
        self.closed_with: Code | None = None
        self.on_close: Callable[[], None] = lambda: None
        self.breaks = False

    def write(self, data: bytes) -> None:
        if self.breaks:
            raise RuntimeError("a planted mistake")
        assert self.closed_with is None
        self.data += data
        if self.fills_up and self.outbox is not None:
            self.outbox.pause()

    def close_slow(self, code: Code, reason: str) -> None:
        self.closed_with = code
        self.on_close()


def an_outbox(
    turn: Turn,
    limit_bytes: int = LIMIT_BYTES,
    memory: Share | None = None,
    counters: Counters | None = None,
) -> tuple[Outbox, Transport]:
    transport = Transport()
    memory = memory or Share(Pool())
    counters = counters or Counters()
    transport.outbox = Outbox(transport, WIRE, turn, counters, limit_bytes, memory)
    return transport.outbox, transport


def a_lane(turn: Turn, *outboxes: Outbox, name: str = "a", policy: SlowPolicy) -> Lane:
    lane = Lane(name, WIRE, policy, turn, Counters())
    for outbox in outboxes:
        lane.add(outbox)
    return lane


def put(lane: Lane, offset: int, size_bytes: int = 100, key: str = "") -> None:
    sent = message(offset, b"x" * size_bytes, lane.channel, key=key)
    lane.put(WIRE.encode_message(sent), sent)


class OutboxUnderPressure(RuleBasedStateMachine):
    """One reader that stalls at random, beside one that never does."""

    @initialize(
        chosen=st.fixed_dictionaries(dict.fromkeys(CHANNELS, policies)),
        stalls=st.booleans(),
        is_crowded=st.booleans(),
    )
    def start(self, chosen: dict[str, SlowPolicy], stalls: bool, is_crowded: bool) -> None:
        self.clock = FakeClock()
        self.turn = Turn(self.clock)
        self.memory = Share(Pool(), 1 if is_crowded else 0)
        self.outbox, self.transport = an_outbox(self.turn, memory=self.memory)
        self.calm_outbox, self.calm = an_outbox(self.turn)
        self.lanes = {
            name: a_lane(self.turn, self.outbox, self.calm_outbox, name=name, policy=policy)
            for name, policy in chosen.items()
        }
        self.transport.on_close = self.leave_everything
        self.offsets = dict.fromkeys(CHANNELS, 0)
        self.owed: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.owed_others: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.owed_private: list[int] = []
        self.owed_calm: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.seen: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.told: dict[str, list[Gap]] = {name: [] for name in CHANNELS}
        self.place = dict.fromkeys(CHANNELS, 0)
        self.private_seen = 0
        self.checked_bytes = 0
        if stalls:
            self.stall()
        self.number = 0

    # --- what happens to an outbox -----------------------------------------------------------------

    @rule(channel=channels, size_bytes=st.integers(0, 250), key=st.sampled_from("kl"))
    def publish(self, channel: str, size_bytes: int, key: str) -> None:
        self.offsets[channel] += 1
        put(self.lanes[channel], self.offsets[channel], size_bytes, key)
        self.owed_calm[channel].append(self.offsets[channel])
        if not self.outbox.closed:
            self.owed[channel].append(self.offsets[channel])

    @rule(
        channel=channels,
        burst=st.lists(st.tuples(st.integers(50, 250), st.sampled_from("kl")), max_size=8),
    )
    def publish_turn_after_turn(self, channel: str, burst: list[tuple[int, str]]) -> None:
        for size_bytes, key in burst:
            self.publish(channel, size_bytes, key)
            self.clock.run_soon()

    @rule(channel=channels, size_bytes=st.integers(0, 250))
    def publish_to_the_others_only(self, channel: str, size_bytes: int) -> None:
        self.offsets[channel] += 1
        sent = message(self.offsets[channel], b"x" * size_bytes, channel)
        self.lanes[channel].put_except(WIRE.encode_message(sent), sent, {self.outbox})
        self.owed_calm[channel].append(self.offsets[channel])

    @rule(channel=channels, size_bytes=st.integers(0, 250))
    def publish_to_this_one_only(self, channel: str, size_bytes: int) -> None:
        self.offsets[channel] += 1
        sent = message(self.offsets[channel], b"x" * size_bytes, channel)
        self.lanes[channel].put_except(WIRE.encode_message(sent), sent, {self.calm_outbox})
        self.owed[channel].append(self.offsets[channel])

    @rule(channel=channels)
    def announce_something_that_is_no_message(self, channel: str) -> None:
        self.number += 1
        self.lanes[channel].put(WIRE.encode(Occupancy(channel=channel, count=self.number)), None)
        self.owed_others[channel].append(self.number)

    @rule()
    def answer_privately(self) -> None:
        self.number += 1
        self.outbox.send(Pong(id=self.number))
        self.owed_private.append(self.number)

    @rule(channel=channels, policy=policies)
    def change_the_rules(self, channel: str, policy: SlowPolicy) -> None:
        self.lanes[channel].spill()
        self.lanes[channel].policy = policy

    @rule(channel=channels)
    def leave_and_join_again(self, channel: str) -> None:
        self.lanes[channel].remove(self.outbox)
        if not self.outbox.closed:
            self.lanes[channel].add(self.outbox)

    @rule(channel=channels, policy=policies)
    def all_leave_and_come_back_under_other_rules(self, channel: str, policy: SlowPolicy) -> None:
        readers = list(self.lanes[channel].outboxes)
        for outbox in readers:
            self.lanes[channel].remove(outbox)
        self.lanes[channel] = a_lane(self.turn, *readers, name=channel, policy=policy)

    def leave_everything(self) -> None:
        """As a session does whose connection ends."""
        for lane in self.lanes.values():
            lane.remove(self.outbox)

    @rule()
    def end_the_turn(self) -> None:
        self.clock.run_soon()

    @rule()
    def stall(self) -> None:
        self.transport.fills_up = True
        self.outbox.pause()

    @rule()
    def read_a_little(self) -> None:
        self.outbox.resume()

    @rule()
    def read_everything(self) -> None:
        self.transport.fills_up = False
        self.outbox.resume()

    # --- what must hold whatever happened ----------------------------------------------------------

    @invariant()
    def is_bounded(self) -> None:
        if not hasattr(self, "outbox"):
            return
        assert self.outbox.backlog_bytes <= LIMIT_BYTES
        backlog = self.outbox._backlog
        if backlog is None:
            assert self.memory.used_bytes == 0
            return
        assert self.memory.used_bytes == backlog._held_bytes
        waiting = [entry for entry in backlog._line if not entry.is_gone]
        assert len(waiting) == len(backlog)
        assert self.outbox.backlog_bytes == sum(len(entry.item[0]) for entry in waiting)
        for line in (backlog._line, backlog._by_age, backlog._superseded):
            assert len(line) <= 2 * len(backlog) + 65

    @invariant()
    def is_honest_and_in_order(self) -> None:
        if hasattr(self, "outbox"):
            self.check()

    def check(self) -> None:
        """Read on from where the last check stopped."""
        fresh = self.transport.data[self.checked_bytes :]
        self.checked_bytes += len(fresh)
        for event in split(fresh):
            if isinstance(event, Gap):
                # A client takes its place from a marker as it does from a message.
                assert event.after.offset >= self.place[event.channel]
                assert event.after < event.upto
                self.told[event.channel].append(event)
                self.place[event.channel] = event.upto.offset
            elif isinstance(event, Publication):
                self.check_publication(event.message.channel, event.message.offset)
            elif isinstance(event, Pong):
                assert event.id == self.owed_private[self.private_seen]
                self.private_seen += 1

    def check_publication(self, channel: str, offset: int) -> None:
        told = self.told[channel]
        assert offset > self.place[channel], "a message a client would refuse as old"
        for missing in self.owed[channel]:
            if self.place[channel] < missing < offset:
                raise AssertionError("a message is missing without a marker")
        self.place[channel] = offset
        self.seen[channel].append(offset)
        assert not any(_covers(gap, offset) for gap in told)

    def teardown(self) -> None:
        if not hasattr(self, "outbox"):
            return
        self.clock.run_soon()
        self.read_everything()
        self.clock.run_soon()
        calm = split(self.calm.data)
        assert not [event for event in calm if isinstance(event, Gap)]
        for channel in CHANNELS:
            read = [e.message.offset for e in calm if _is_of(e, channel)]  # type: ignore[union-attr]
            assert read == self.owed_calm[channel]
        if self.transport.closed_with is not None:
            assert self.transport.closed_with is Code.SLOW_CONSUMER
            return
        self.check()
        assert self.private_seen == len(self.owed_private)
        events = split(self.transport.data)
        for channel in CHANNELS:
            others = [e.count for e in events if isinstance(e, Occupancy) and e.channel == channel]
            assert others == self.owed_others[channel]
            for offset in set(self.owed[channel]) - set(self.seen[channel]):
                assert any(_covers(gap, offset) for gap in self.told[channel])


def _is_of(event: Event, channel: str) -> bool:
    return isinstance(event, Publication) and event.message.channel == channel


def _covers(gap: Gap, offset: int) -> bool:
    return gap.after.offset < offset <= gap.upto.offset


TestOutboxUnderPressure = OutboxUnderPressure.TestCase
TestOutboxUnderPressure.settings = settings(max_examples=300, stateful_step_count=20)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def stalled(
    clock: FakeClock, policy: SlowPolicy, limit_bytes: int = LIMIT_BYTES
) -> tuple[Lane, Outbox, Transport]:
    turn = Turn(clock)
    outbox, transport = an_outbox(turn, limit_bytes)
    lane = a_lane(turn, outbox, policy=policy)
    outbox.pause()
    return lane, outbox, transport


def offsets_of(transport: Transport) -> list[int]:
    return [e.message.offset for e in split(transport.data) if isinstance(e, Publication)]


def test_the_disconnect_policy_ends_a_connection_that_does_not_keep_up(clock: FakeClock) -> None:
    lane, outbox, transport = stalled(clock, SlowPolicy.DISCONNECT)
    for offset in range(1, 10):
        put(lane, offset)
        clock.run_soon()
    assert transport.closed_with is Code.SLOW_CONSUMER
    assert outbox.closed
    assert outbox.backlog_bytes == 0


def test_the_drop_oldest_policy_keeps_the_newest_and_says_what_is_missing(
    clock: FakeClock,
) -> None:
    lane, outbox, transport = stalled(clock, SlowPolicy.DROP_OLDEST)
    for offset in range(1, 21):
        put(lane, offset)
        clock.run_soon()
    outbox.resume()
    gap, first = split(transport.data)[:2]
    assert isinstance(gap, Gap)
    assert isinstance(first, Publication)
    assert (gap.after, gap.upto) == (Serial(2, 0), Serial(2, first.message.offset - 1))
    assert offsets_of(transport)[-1] == 20
    assert offsets_of(transport) == list(range(first.message.offset, 21))


def test_the_keep_latest_policy_keeps_the_last_message_of_each_key(clock: FakeClock) -> None:
    lane, outbox, transport = stalled(clock, SlowPolicy.KEEP_LATEST)
    for offset in range(1, 31):
        put(lane, offset, key="abc"[offset % 3])
        clock.run_soon()
    outbox.resume()
    events = split(transport.data)
    assert isinstance(events[0], Gap)
    assert offsets_of(transport)[-3:] == [28, 29, 30]


def test_a_message_larger_than_the_whole_bound_is_dropped_and_told(clock: FakeClock) -> None:
    lane, outbox, transport = stalled(clock, SlowPolicy.DROP_OLDEST)
    put(lane, 1, LIMIT_BYTES * 2)
    clock.run_soon()
    assert outbox.backlog_bytes == 0
    outbox.resume()
    [gap] = split(transport.data)
    assert isinstance(gap, Gap)
    assert (gap.after.offset, gap.upto.offset) == (0, 1)


def test_private_answers_are_never_dropped_only_the_connection_is(clock: FakeClock) -> None:
    _, outbox, transport = stalled(clock, SlowPolicy.DROP_OLDEST)
    for number in range(200):
        outbox.send(Pong(id=number))
    clock.run_soon()
    assert transport.closed_with is Code.SLOW_CONSUMER


def test_a_marker_does_not_overtake_messages_that_are_older_than_the_gap(clock: FakeClock) -> None:
    """A client takes its place from a marker, and would refuse what comes after it as old."""
    turn = Turn(clock)
    outbox, transport = an_outbox(turn)
    outbox.pause()
    strict = a_lane(turn, outbox, policy=SlowPolicy.DISCONNECT)
    for offset in (1, 2):
        put(strict, offset, 150)
        clock.run_soon()
    strict.remove(outbox)
    lax = a_lane(turn, outbox, policy=SlowPolicy.DROP_OLDEST)
    for offset in range(3, 8):
        put(lax, offset, 150)
        clock.run_soon()
    outbox.resume()
    events = split(transport.data)
    assert [type(event) for event in events] == [Publication, Publication, Gap, Publication]
    assert offsets_of(transport) == [1, 2, 7]


def test_gap_markers_are_bounded_too(clock: FakeClock) -> None:
    """One reader of a pattern may be owed a marker for every channel of its hub (T14)."""
    turn = Turn(clock)
    outbox, transport = an_outbox(turn, 10_000)
    outbox.pause()
    for number in range(10_000):
        lane = a_lane(turn, outbox, name=f"channel:{number}", policy=SlowPolicy.DROP_OLDEST)
        put(lane, 1, 9_000)
        clock.run_soon()
        if transport.closed_with is not None:
            break
    assert transport.closed_with is Code.SLOW_CONSUMER
    assert number < 500


@pytest.mark.parametrize("also_private", [False, True])
def test_a_write_that_fails_costs_its_own_connection_only(
    clock: FakeClock, also_private: bool
) -> None:
    turn = Turn(clock)
    readers = [an_outbox(turn) for _ in range(5)]
    lane = a_lane(turn, *(outbox for outbox, _ in readers), policy=SlowPolicy.DISCONNECT)
    readers[2][1].breaks = True
    for offset in (1, 2):
        put(lane, offset)
        if also_private:
            readers[4][0].send(Pong(id=offset))
        clock.run_soon()
    read = [offsets_of(transport) for _, transport in readers]
    assert read == [[1, 2], [1, 2], [], [1, 2], [1, 2]]
    assert readers[2][1].closed_with is Code.SERVER_ERROR


def test_everything_of_one_turn_is_one_write(clock: FakeClock) -> None:
    turn = Turn(clock)
    outbox, _ = an_outbox(turn)
    writes: list[bytes] = []
    outbox.write = writes.append  # type: ignore[assignment]
    lane = a_lane(turn, outbox, policy=SlowPolicy.DISCONNECT)
    for offset in range(1, 50):
        put(lane, offset, 1)
        outbox.send(Pong(id=offset))
    clock.run_soon()
    assert len(writes) == 1
    assert len(split(writes[0])) == 98


def test_a_newcomer_gets_nothing_from_before_and_a_leaver_all_until_then(clock: FakeClock) -> None:
    turn = Turn(clock)
    (early, early_transport), (late, late_transport) = an_outbox(turn), an_outbox(turn)
    lane = a_lane(turn, early, policy=SlowPolicy.DISCONNECT)
    put(lane, 1)
    lane.add(late)
    put(lane, 2)
    lane.remove(early)
    put(lane, 3)
    clock.run_soon()
    assert offsets_of(early_transport) == [1, 2]
    assert offsets_of(late_transport) == [2, 3]


def test_a_closed_outbox_takes_nothing_and_holds_nothing(clock: FakeClock) -> None:
    turn = Turn(clock)
    outbox, transport = an_outbox(turn)
    lane = a_lane(turn, outbox, policy=SlowPolicy.DISCONNECT)
    put(lane, 1)
    outbox.close()
    put(lane, 2)
    outbox.send(Pong(id=1))
    clock.run_soon()
    outbox.resume()
    assert transport.data == b""
    assert outbox.pending == []


def test_keep_latest_lets_superseded_messages_go_before_any_other_and_then_the_oldest(
    clock: FakeClock,
) -> None:
    """Seen: everything of the channel was joined to one item, which then went as a whole."""
    lane, outbox, transport = stalled(clock, SlowPolicy.KEEP_LATEST)
    for offset in range(1, 31):
        put(lane, offset, key=f"k{offset}" if offset != 2 else "k1")
        clock.run_soon()
    outbox.resume()
    kept = offsets_of(transport)
    assert len(kept) > 3
    assert kept == list(range(31 - len(kept), 31))


def test_a_message_that_never_fits_does_not_take_the_others_with_it(clock: FakeClock) -> None:
    lane, outbox, transport = stalled(clock, SlowPolicy.DROP_OLDEST)
    for offset, size_bytes in ((1, 100), (2, LIMIT_BYTES * 2), (3, 100)):
        put(lane, offset, size_bytes)
        clock.run_soon()
    outbox.resume()
    assert offsets_of(transport) == [1, 3]


@pytest.mark.parametrize("policy", [SlowPolicy.DROP_OLDEST, SlowPolicy.KEEP_LATEST])
def test_what_stands_before_them_does_not_keep_dropped_messages_in_memory(
    clock: FakeClock, policy: SlowPolicy
) -> None:
    lane, outbox, _ = stalled(clock, policy)
    outbox.send(Pong(id=1))
    for offset in range(1, 1_000):
        put(lane, offset)
        clock.run_soon()
    backlog = outbox._backlog
    assert backlog is not None
    assert len(backlog._line) < 100
