"""Versions, durability in two steps, and rebuilding a document after a crash."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.encode import dump_change, seal
from arauto.features.document.patch import Document
from arauto.features.document.state import DocumentState
from arauto.features.document.value import Limits, clone
from arauto.storage.base import Snapshot
from tests.unit.document.cases import add, batches_for, remove, replace, same, test_


def _changed(*batches: list[Operation]) -> tuple[DocumentState, list[bytes]]:
    """A document after these requests, all durable, and its operation log."""
    state, log = DocumentState(), []
    for batch in batches:
        change = state.change(batch)
        log.append(change.data)
        state.confirm(change.version)
    return state, log


def _corrupt(snapshot: Snapshot | None, log: list[bytes]) -> StorageError:
    with pytest.raises(StorageError) as caught:
        DocumentState.restore(snapshot, log)
    assert caught.value.code is Code.STORAGE_CORRUPT
    return caught.value


def test_a_new_document_is_an_empty_object_at_version_zero() -> None:
    state = DocumentState()
    assert (state.value, state.version, state.confirmed_version) == ({}, 0, 0)


def test_each_request_is_one_version_however_many_operations_it_has() -> None:
    state, _ = _changed([add("a", 1)], [add("b", 1), add("c", 1), remove("a")], [test_("/b", 1)])
    assert state.version == 3
    assert state.value == {"b": 1, "c": 1}


def test_a_refused_request_costs_no_version() -> None:
    state, _ = _changed([add("a", 1)])
    for batch, code in (
        ([replace("/a", 2), test_("/a", 1)], Code.TEST_FAILED),
        ([replace("/a", 2), remove("/b")], Code.BAD_OPERATION),
        ([], Code.BAD_FIELD),
    ):
        with pytest.raises(ArautoError) as caught:
            state.change(batch)
        assert caught.value.code is code
        assert caught.value.field.startswith("operations")
    assert (state.value, state.version) == ({"a": 1}, 1)


def test_a_change_can_demand_a_version() -> None:
    state, _ = _changed([add("a", 1)])
    assert state.change([add("a", 2)], if_version=1).version == 2
    for other in (0, 1, 3):
        with pytest.raises(ArautoError) as caught:
            state.change([add("a", 3)], if_version=other)
        assert (caught.value.code, caught.value.field) == (Code.VERSION_MISMATCH, "if_version")
        assert "version 2" in caught.value.message
    assert state.change([add("a", 3)], if_version=-1).version == 3


def test_version_zero_can_be_demanded_to_create_a_document_once() -> None:
    state = DocumentState()
    assert state.change([add("a", 1)], if_version=0).version == 1
    with pytest.raises(ArautoError) as caught:
        state.change([add("a", 1)], if_version=0)
    assert caught.value.code is Code.VERSION_MISMATCH


def test_mode_and_limits_are_those_of_the_request() -> None:
    state = DocumentState()
    with pytest.raises(ArautoError):
        state.change([add("/a/b", 1)], strict=True)
    with pytest.raises(ArautoError) as caught:
        state.change([add("/a/b", [1] * 9)], limits=Limits(nodes_max=9))
    assert caught.value.code is Code.DOCUMENT_TOO_LARGE
    assert state.change([add("/a/b", 1)]).operations == (add("/a", {}), add("/a/b", 1))


def test_a_change_that_cannot_be_written_to_the_log_leaves_no_trace() -> None:
    state = DocumentState()
    limits = Limits(text_bytes_max=2**26, size_bytes_max=2**26)
    huge = "x" * (2**25)
    with pytest.raises(ArautoError) as caught:
        state.change([add("/a", huge)] * 3, limits=limits)
    assert caught.value.code is Code.BATCH_TOO_LARGE
    assert (state.value, state.version) == ({}, 0)


def test_a_change_that_could_not_be_stored_is_undone_with_all_later_ones() -> None:
    state, _ = _changed([add("a", 1)])
    for value in (2, 3, 4):
        state.change([replace("/a", value)])
    assert (state.version, state.confirmed_version) == (4, 1)
    state.confirm(2)
    assert state.confirmed_version == 2
    state.revert(3)
    assert (state.value, state.version, state.confirmed_version) == ({"a": 2}, 2, 2)
    state.revert(2)
    state.revert(3)
    state.confirm(1)
    assert (state.value, state.version, state.confirmed_version) == ({"a": 2}, 2, 2)


@pytest.mark.parametrize(
    "take", [DocumentState.snapshot, DocumentState.export_state, DocumentState.pack]
)
def test_no_picture_is_taken_of_what_is_not_durable(
    take: Callable[[DocumentState], object],
) -> None:
    state = DocumentState()
    change = state.change([add("a", 1)])
    with pytest.raises(ArautoError) as caught:
        take(state)
    assert caught.value.code is Code.CONFLICT
    state.confirm(change.version)
    assert take(state)


def test_a_snapshot_packed_and_sealed_in_two_steps_is_the_same() -> None:
    state, _ = _changed([add("a", ["x"] * 500)])
    packed = state.pack()
    state.change([replace("/a", 0)])
    restored = DocumentState.restore(Snapshot(1, seal(packed)), [])
    assert restored.value == {"a": ["x"] * 500}


def test_a_document_comes_back_from_its_log_alone() -> None:
    state, log = _changed(
        [add("a/b/-", 1)], [add("a/b/-", 2)], [replace("", [b"x"])], [add("-", 1)]
    )
    restored = DocumentState.restore(None, log)
    assert (restored.value, restored.version) == ([b"x", 1], 4)
    assert (restored.nodes, restored.size_bytes) == (state.nodes, state.size_bytes)
    assert restored.confirmed_version == 4


def test_entries_the_snapshot_covers_are_skipped() -> None:
    state, log = _changed(*[[add(f"k{index}", index)] for index in range(5)])
    early = DocumentState.restore(None, log[:3]).snapshot()
    for snapshot, entries in (
        (early, log),
        (early, log[3:]),
        (early, log[1:]),
        (state.snapshot(), log),
        (state.snapshot(), []),
    ):
        restored = DocumentState.restore(snapshot, entries)
        assert (restored.value, restored.version) == (state.value, 5)


def test_a_change_that_took_the_place_of_a_failed_one_wins() -> None:
    """The push of version 2 failed, yet reached the log; the next change became version 2 as well."""
    state, log = _changed([add("a", 1)])
    for value in ("lost", "lost too"):
        log.append(state.change([replace("/a", value)]).data)
    state.revert(2)
    for value in ("kept", "last"):
        change = state.change([replace("/a", value)])
        log.append(change.data)
        state.confirm(change.version)
    restored = DocumentState.restore(None, log)
    assert (restored.value, restored.version) == ({"a": "last"}, 3)
    repeated = DocumentState.restore(None, [log[0], log[0], *log[3:], log[-1]])
    assert (repeated.value, repeated.version) == ({"a": "last"}, 3)


def test_a_missing_version_is_corruption() -> None:
    state, log = _changed(*[[add(f"k{index}", index)] for index in range(5)])
    assert "version 3" in _corrupt(None, [*log[:2], *log[3:]]).message
    assert "version 1" in _corrupt(None, log[1:]).message
    late = Snapshot(1, DocumentState.restore(None, log[:1]).snapshot().data)
    assert "version 2" in _corrupt(late, log[2:]).message
    assert state.version == 5


def test_what_cannot_be_read_or_applied_is_corruption() -> None:
    _, log = _changed([add("a", 1)])
    _corrupt(None, [*log, b"noise"])
    _corrupt(Snapshot(1, b"noise"), [])
    _corrupt(Snapshot(2, _changed([add("a", 1)])[0].snapshot().data), [])
    _corrupt(None, [*log, dump_change(2, [remove("/missing")])])
    _corrupt(None, [dump_change(1, [add("not/plain", 1)])])


def test_limits_that_were_lowered_since_do_not_lose_a_document() -> None:
    state = DocumentState()
    change = state.change([add("a", [0] * 150_000)], limits=Limits(nodes_max=200_000))
    state.confirm(change.version)
    for snapshot in (state.snapshot(), None):
        restored = DocumentState.restore(snapshot, [change.data])
        assert restored.nodes == 150_002
    assert restored.change([remove("/a")], limits=Limits(nodes_max=10)).version == 2


def test_a_state_moves_to_another_node_as_bytes() -> None:
    state, _ = _changed([add("a", {"b": [b"\x00", None, 1.5]})])
    other = DocumentState()
    other.import_state(state.export_state())
    assert same(other.value, state.value)
    assert (other.version, other.confirmed_version) == (1, 1)
    assert (other.nodes, other.size_bytes) == (state.nodes, state.size_bytes)
    with pytest.raises(StorageError):
        other.import_state(b"noise")
    assert other.version == 1


class Life(RuleBasedStateMachine):
    """A document that is changed, stored, not stored, snapshotted and killed at any moment."""

    @initialize()
    def begin(self) -> None:
        self.state = DocumentState()
        self.acknowledged: Any = {}
        self.unsure: list[Any] = []
        """What a crash would bring back instead: a refused change that reached the log all the same."""
        self.snapshot: Snapshot | None = None
        self.log: list[bytes] = []

    @rule(
        data=st.data(), strict=st.booleans(), stored=st.sampled_from(["yes", "yes", "no", "unsure"])
    )
    def change(self, data: st.DataObject, strict: bool, stored: str) -> None:
        try:
            change = self.state.change(
                data.draw(batches_for(self.acknowledged, max_size=2)), strict=strict
            )
        except ArautoError:
            return
        after = clone(self.state.value)
        if stored == "yes":
            self.log.append(change.data)
            self.state.confirm(change.version)
            self.acknowledged, self.unsure = after, []
            return
        if stored == "unsure":
            self.log.append(change.data)
            self.unsure = [after]
        self.state.revert(change.version)

    @rule(drop=st.booleans())
    def take_snapshot(self, drop: bool) -> None:
        self.snapshot = self.state.snapshot()
        if drop:
            self.log.clear()
            self.unsure = []

    @rule()
    def crash(self) -> None:
        self.state = DocumentState.restore(self.snapshot, self.log)
        if self.unsure:
            self.acknowledged = self.unsure.pop()

    @rule()
    def hand_over(self) -> None:
        other = DocumentState()
        other.import_state(self.state.export_state())
        self.state = other

    @invariant()
    def everything_acknowledged_is_there_and_nothing_refused_shows(self) -> None:
        assert same(self.state.value, self.acknowledged)
        assert self.state.confirmed_version == self.state.version
        fresh = Document(clone(self.state.value))
        assert (self.state.nodes, self.state.size_bytes) == (fresh.nodes, fresh.size_bytes)


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=15)


@given(st.data())
def test_subscribers_who_apply_plain_operations_stay_in_step(data: st.DataObject) -> None:
    server, subscriber = DocumentState(), DocumentState()
    for _ in range(data.draw(st.integers(1, 6))):
        try:
            change = server.change(data.draw(batches_for(clone(server.value))))
        except ArautoError:
            continue
        server.confirm(change.version)
        seen = subscriber.change(change.operations, if_version=change.version - 1, strict=True)
        assert seen.version == change.version
        assert same(subscriber.value, server.value)
