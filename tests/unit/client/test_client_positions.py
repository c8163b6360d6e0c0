"""A subscription's places: what is new, what to ask for, what was lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arauto.client.positions import Positions, item_bytes, merge_gaps
from arauto.codec.events import Gap, SubscribeItem, SubscribeResult
from arauto.model import Message, Serial
from tests.unit.client.fake_node import EPOCH, message

ROOM = 10**6


def _own(_channel: str, place: Serial) -> Serial:
    return place


def _at(offset: int, epoch: int = EPOCH) -> Serial:
    return Serial(epoch, offset)


def _attached(channel: str = "c", at: int = 0) -> Positions:
    positions = Positions(channel)
    assert positions.attached(SubscribeResult(channel=channel, serial=_at(at))) == []
    return positions


def _ask(positions: Positions) -> SubscribeItem:
    return positions.item(ROOM, _own)


def test_the_first_time_no_recovery_is_asked_for() -> None:
    assert _ask(Positions("c")) == SubscribeItem(channel="c")


def test_recovery_starts_where_the_node_said_it_stood_even_if_nothing_was_delivered() -> None:
    assert _ask(_attached(at=5)) == SubscribeItem(channel="c", since=_at(5))


def test_recovery_starts_after_the_last_message_seen() -> None:
    positions = _attached(at=5)
    assert positions.admit(message("c", 6))
    assert positions.admit(message("c", 9))
    assert _ask(positions).since == _at(9)


def test_a_place_from_an_earlier_run_is_asked_for_the_first_time() -> None:
    assert _ask(Positions("c", {"c": _at(3)})).since == _at(3)


def test_what_was_seen_is_not_seen_again() -> None:
    positions = _attached()
    assert positions.admit(message("c", 1))
    assert not positions.admit(message("c", 1))
    assert positions.admit(message("c", 2))
    assert not positions.admit(message("c", 1))


def test_a_new_epoch_is_new() -> None:
    positions = _attached(at=50)
    assert positions.admit(message("c", 1, epoch=EPOCH + 2))
    assert not positions.admit(message("c", 99))


def test_a_retained_message_is_welcome_once_though_it_is_old() -> None:
    positions = _attached(at=9)
    assert not positions.admit(message("c", 4))
    assert positions.admit(message("c", 4, retain=True))
    assert not positions.admit(message("c", 4, retain=True))
    assert _ask(positions).since == _at(9)


def test_a_retained_message_that_was_seen_live_is_not_seen_again() -> None:
    positions = _attached(at=3)
    assert positions.admit(message("c", 4, retain=True))
    assert not positions.admit(message("c", 4, retain=True))


def test_a_retained_message_is_welcome_also_behind_one_that_came_live_before_it() -> None:
    positions = _attached(at=9)
    assert positions.admit(message("c", 10))
    assert positions.admit(message("c", 4, retain=True))
    assert not positions.admit(message("c", 4, retain=True))


def _continued(since: Serial, now: Serial) -> Positions:
    """A start from a place the node could not recover from."""
    positions = Positions("c", {"c": since})
    [gap] = positions.attached(SubscribeResult(channel="c", serial=now))
    positions.skip(gap)
    return positions


@pytest.mark.parametrize("since", [_at(0), _at(7), _at(3, EPOCH - 2)])
def test_who_starts_from_a_place_that_is_not_recovered_gets_the_retained_message_once(
    since: Serial,
) -> None:
    positions = _continued(since, _at(0, EPOCH + 2))
    assert not positions.admit(message("c", 1))
    assert positions.admit(message("c", 1, retain=True))
    assert not positions.admit(message("c", 1, retain=True))
    assert _ask(positions).since == _at(0, EPOCH + 2)


def test_who_starts_from_a_place_that_is_recovered_gets_no_retained_message_again() -> None:
    positions = Positions("c", {"c": _at(5)})
    assert positions.attached(SubscribeResult(channel="c", serial=_at(6), recovered=True)) == []
    assert not positions.admit(message("c", 4, retain=True))


def test_a_message_retained_while_the_client_was_away_is_new_after_a_reconnect_that_lost_it() -> (
    None
):
    positions = _attached()
    assert positions.admit(message("c", 4, retain=True))
    [gap] = positions.attached(SubscribeResult(channel="c", serial=_at(0, EPOCH + 2)))
    positions.skip(gap)
    assert not positions.admit(message("c", 4, retain=True))
    assert positions.admit(message("c", 6, retain=True))
    assert not positions.admit(message("c", 6, retain=True))


def test_a_retained_message_not_seen_yet_stays_welcome_over_reconnects() -> None:
    positions = _continued(_at(7), _at(0, EPOCH + 2))
    [gap] = positions.attached(SubscribeResult(channel="c", serial=_at(0, EPOCH + 4)))
    positions.skip(gap)
    assert positions.admit(message("c", 1, retain=True))


def test_recovery_that_succeeded_leaves_no_gap() -> None:
    positions = _attached(at=5)
    result = SubscribeResult(channel="c", serial=_at(9), recovered=True)
    assert positions.attached(result) == []
    assert [positions.admit(message("c", offset)) for offset in (6, 7, 8, 9)] == [True] * 4


def test_recovery_that_failed_leaves_a_gap_up_to_where_the_channel_is() -> None:
    positions = _attached(at=5)
    [gap] = positions.attached(SubscribeResult(channel="c", serial=_at(9), recovered=False))
    assert (gap.channel, gap.after, gap.upto) == ("c", _at(5), _at(9))
    assert positions.place("c") == _at(5)
    positions.skip(gap)
    assert positions.place("c") == _at(9)


def test_a_node_that_lost_its_state_and_counts_from_less_is_followed() -> None:
    positions = _attached(at=50)
    [gap] = positions.attached(SubscribeResult(channel="c", serial=_at(2), recovered=False))
    positions.skip(gap)
    assert positions.admit(message("c", 3))


def test_a_pattern_remembers_a_place_per_channel() -> None:
    positions = Positions("stock:*")
    first = SubscribeResult(channel="stock:*", positions={"stock:1": _at(4)})
    assert positions.attached(first) == []
    assert positions.admit(message("stock:2", 1))
    asked = _ask(positions)
    assert asked.since is None
    assert asked.positions == {"stock:1": _at(4), "stock:2": _at(1)}


def test_a_pattern_that_saw_nothing_still_asks_for_recovery() -> None:
    positions = Positions("stock:*")
    positions.attached(SubscribeResult(channel="stock:*", positions={}))
    assert _ask(positions).positions == {}


@pytest.mark.parametrize("name", ["stock:*", "/stock", "a:#:b"])
def test_only_the_channels_that_could_not_be_recovered_have_gaps(name: str) -> None:
    positions = Positions(name)
    positions.attached(SubscribeResult(channel=name, positions={"a": _at(1), "b": _at(1)}))
    again = SubscribeResult(
        channel=name, positions={"a": _at(5), "b": _at(6), "new": _at(2)}, unrecovered=("b",)
    )
    [gap] = positions.attached(again)
    assert (gap.channel, gap.after, gap.upto) == ("b", _at(1), _at(6))
    assert positions.admit(message("a", 2))
    assert positions.admit(message("new", 1))


def test_a_channel_that_closed_meanwhile_has_a_gap_and_then_starts_afresh() -> None:
    positions = Positions("stock:*")
    positions.attached(SubscribeResult(channel="stock:*", positions={"a": _at(9)}))
    [gap] = positions.attached(SubscribeResult(channel="stock:*", positions={}, unrecovered=("a",)))
    assert gap.channel == "a"
    positions.skip(gap)
    assert _ask(positions).positions == {}
    assert positions.admit(message("a", 1))


def test_a_pattern_too_wide_to_be_listed_has_a_gap_of_its_own_name_and_loses_no_place() -> None:
    positions = Positions("stock:*")
    positions.attached(SubscribeResult(channel="stock:*", positions={"a": _at(9)}))
    [gap] = positions.attached(SubscribeResult(channel="stock:*", positions={"a": _at(20)}))
    assert gap.channel == "stock:*"
    positions.skip(gap)
    assert positions.admit(message("a", 10))


def test_a_pattern_forgets_the_longest_unheard_of_when_it_knows_too_many() -> None:
    positions = Positions("stock:*", places_max=3)
    positions.attached(SubscribeResult(channel="stock:*", positions={}))
    for name in ("a", "b", "c"):
        assert positions.admit(message(name, 1))
    assert positions.admit(message("a", 2))
    assert positions.admit(message("d", 1))
    assert positions.count == 3
    assert set(_ask(positions).positions or ()) == {"a", "c", "d"}


def test_places_that_do_not_fit_in_a_request_are_left_out_oldest_first() -> None:
    positions = Positions("stock:*")
    positions.attached(SubscribeResult(channel="stock:*", positions={}))
    for index in range(100):
        positions.admit(message(f"stock:{index:03}", 1))
    asked = positions.item(1_000, _own)
    assert asked.positions is not None
    assert 0 < len(asked.positions) < 100
    assert "stock:099" in asked.positions
    assert "stock:000" not in asked.positions
    assert item_bytes(asked) <= 1_000 + 100


def test_recovery_starts_at_the_lowest_place_of_all_who_cover_a_channel() -> None:
    positions = _attached(at=9)
    asked = positions.item(ROOM, lambda channel, place: min(place, _at(4)))
    assert asked.since == _at(4)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_merged_gaps_span_all_of_them(spans: list[tuple[int, int]]) -> None:
    merged: Gap | None = None
    for low, length in spans:
        gap = Gap(channel="c", after=_at(low), upto=_at(low + length), reason="r")
        merged = merge_gaps(merged, gap)
    assert merged is not None
    assert merged.after == min(_at(low) for low, _ in spans)
    assert merged.upto == max(_at(low + length) for low, length in spans)


class RecoveryMachine(RuleBasedStateMachine):
    """A channel and one subscriber over a connection that breaks anywhere, with a short live history.

    The law: the subscriber sees every message once and in order, or is told of the gap it fell into.
    """

    HISTORY = 5

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Message] = []
        self.wire: list[Message] = []
        self.connected = False
        self.positions = Positions("c")
        self.seen: list[int] = []
        self.gaps: list[Gap] = []
        self.start = 0

    @rule()
    def publish(self) -> None:
        self.log.append(message("c", len(self.log) + 1))
        if self.connected:
            self.wire.append(self.log[-1])

    @rule(count=st.integers(1, 4))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            if self.wire:
                arrived = self.wire.pop(0)
                if self.positions.admit(arrived):
                    self.seen.append(arrived.offset)

    @rule()
    def lose(self) -> None:
        self.connected = False
        self.wire.clear()

    @rule()
    def connect(self) -> None:
        if self.connected:
            return
        self.connected = True
        now = len(self.log)
        since = _ask(self.positions).since
        recovered = since is not None and now - since.offset <= self.HISTORY
        if since is None:
            self.start = now
        elif recovered:
            self.wire += self.log[since.offset :]
        for gap in self.positions.attached(
            SubscribeResult(channel="c", serial=_at(now), recovered=recovered)
        ):
            self.gaps.append(gap)
            self.positions.skip(gap)

    @invariant()
    def nothing_twice_and_no_silent_hole(self) -> None:
        assert self.seen == sorted(set(self.seen))
        place = self.positions.place("c")
        if place is None:
            return
        announced = {
            n for gap in self.gaps for n in range(gap.after.offset + 1, gap.upto.offset + 1)
        }
        expected = set(range(self.start + 1, place.offset + 1))
        assert set(self.seen) | announced == expected
        assert not set(self.seen) & announced


TestRecovery = RecoveryMachine.TestCase
