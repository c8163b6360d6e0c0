"""The bounds of what waits for a store, and each hub's share in it."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from arauto.storage.base import StorageCounters, WriteLimits
from arauto.storage.waiting import Waiting

ROOM = 1_000


def of_bytes(bytes_max: int = ROOM, count_max: int = ROOM) -> tuple[Waiting, StorageCounters]:
    counters = StorageCounters()
    limits = WriteLimits(pending_entries_max=count_max, pending_bytes_max=bytes_max)
    return Waiting(limits, counters), counters


def let_in(waiting: Waiting, hub: str, size_bytes: int) -> int:
    """How many writes are let in before one is refused."""
    count = 0
    while waiting.enter(hub, size_bytes) is None:
        count += 1
    return count


def test_one_hub_alone_gets_half_and_two_get_a_third_each() -> None:
    waiting, _ = of_bytes(900)
    assert let_in(waiting, "a", 10) == 45
    waiting.leave("a", 45, 450)
    counts = {"a": 0, "b": 0}
    while (a := waiting.enter("a", 10)) is None and (b := waiting.enter("b", 10)) is None:
        counts["a"] += 1
        counts["b"] += 1
    assert counts["a"] == counts["b"] in (29, 30)
    assert (a or b).code is Code.STORAGE_SHARE_FULL  # type: ignore[union-attr]


def test_a_hub_with_nothing_waiting_is_let_in_while_there_is_room() -> None:
    waiting, counters = of_bytes(1_000)
    let_in(waiting, "a", 10)
    assert waiting.enter("b", 400) is None
    assert counters.refused_shares == 1


def test_what_belongs_to_no_hub_keeps_to_the_whole_alone() -> None:
    waiting, counters = of_bytes(1_000)
    let_in(waiting, "a", 10)
    assert let_in(waiting, "", 10) == 50
    assert (counters.refused, counters.refused_shares) == (2, 1)
    refusal = waiting.enter("b", 10)
    assert refusal is not None
    assert refusal.code is Code.STORAGE_UNAVAILABLE, "there is no room for anybody"


def test_hubs_that_have_nothing_waiting_leave_no_trace() -> None:
    waiting, _ = of_bytes()
    for i in range(100):
        assert waiting.enter(f"h{i}", 500) is None
        waiting.leave(f"h{i}", 1, 500)
    assert (waiting.count, waiting.size_bytes, waiting.hubs_len) == (0, 0, 0)


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 300), st.booleans()))
)
def test_the_whole_holds_and_each_hub_but_the_last_to_come_leaves_as_much_as_it_has(
    steps: list[tuple[str, int, bool]],
) -> None:
    waiting, counters = of_bytes(ROOM, 12)
    inside: list[tuple[str, int]] = []
    refused = 0
    for hub, size_bytes, leaves in steps:
        held = [size for name, size in inside if name == hub]
        if leaves and held:
            inside.remove((hub, held[0]))
            waiting.leave(hub, 1, held[0])
        elif waiting.enter(hub, size_bytes) is None:
            inside.append((hub, size_bytes))
            if hub and held:
                assert sum(held) + size_bytes <= ROOM - waiting.size_bytes
                assert len(held) + 1 <= 12 - waiting.count
        else:
            refused += 1
        assert waiting.size_bytes == sum(size for _, size in inside) <= ROOM
        assert waiting.count == len(inside) <= 12
    assert counters.refused == refused
