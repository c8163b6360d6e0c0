"""Who makes room when connections hold too much of what has not arrived whole."""

from hypothesis import given
from hypothesis import strategies as st

from arauto.gateways.buffers import ReadBuffers


class Connection:
    def __init__(self, buffers: ReadBuffers, hub: str = "shop") -> None:
        self.buffers = buffers
        self.hub = hub
        self.held_bytes = 0
        self.ended: list[str] = []

    def take(self, size_bytes: int) -> bool:
        return self.buffers.take(self, size_bytes)

    def went_on(self, *, is_idle: bool) -> None:
        self.buffers.went_on(self, is_idle=is_idle)

    def shrink(self) -> None:
        self.ended.append("shrunk")

    def cut_off(self) -> None:
        self.ended.append("cut off")


def test_buffers_in_which_nothing_waits_give_room_before_anyone_is_cut_off() -> None:
    buffers = ReadBuffers(1_000)
    unfinished, idle, third = (Connection(buffers) for _ in range(3))
    assert unfinished.take(400)
    assert idle.take(400)
    idle.went_on(is_idle=True)
    assert third.take(400)
    assert (unfinished.ended, idle.ended, third.ended) == ([], ["shrunk"], [])
    assert idle.held_bytes == 0
    assert buffers.held_bytes == 800
    assert (buffers.shrunk, buffers.cut_off) == (1, 0)


def test_of_unfinished_messages_the_one_that_stands_still_for_longest_goes() -> None:
    buffers = ReadBuffers(1_000)
    slow, busy, third = (Connection(buffers) for _ in range(3))
    assert busy.take(400)
    assert slow.take(400)
    busy.went_on(is_idle=False)
    assert third.take(400)
    assert (slow.ended, busy.ended) == (["cut off"], [])
    assert (buffers.shrunk, buffers.cut_off) == (0, 1)


def test_the_hub_that_holds_the_most_gives_room() -> None:
    buffers = ReadBuffers(1_000)
    modest = Connection(buffers, "modest")
    assert modest.take(100)
    greedy = [Connection(buffers, "greedy") for _ in range(9)]
    assert all(connection.take(100) for connection in greedy)
    newcomer = Connection(buffers, "third")
    assert newcomer.take(200)
    assert modest.ended == []
    assert [connection.ended for connection in greedy] == [["cut off"]] * 2 + [[]] * 7


def test_a_hub_that_wants_to_be_the_greediest_makes_room_itself() -> None:
    buffers = ReadBuffers(1_000)
    victim, other, more = (Connection(buffers, hub) for hub in ("a", "b", "a"))
    assert victim.take(450)
    assert other.take(500)
    assert more.take(200)
    assert (victim.ended, other.ended) == (["cut off"], [])


def test_whoever_wants_more_than_there_is_gets_nothing() -> None:
    buffers = ReadBuffers(1_000)
    connection = Connection(buffers)
    assert connection.take(900)
    assert not connection.take(900)
    assert buffers.cut_off == 1
    assert connection.ended == [], "its caller ends it"
    buffers.give_all(connection)
    assert buffers.held_bytes == 0


def test_without_a_bound_everything_is_counted_and_nothing_refused() -> None:
    buffers = ReadBuffers()
    connection = Connection(buffers)
    assert connection.take(1 << 40)
    assert buffers.held_bytes == 1 << 40


STEPS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(1, 600), st.sampled_from(["take", "give", "idle", "go"])
    )
)


@given(STEPS)
def test_the_bound_holds_and_what_is_counted_is_what_is_held(
    steps: list[tuple[int, int, str]],
) -> None:
    buffers = ReadBuffers(1_000)
    connections = [Connection(buffers, f"h{i % 3}") for i in range(6)]
    for index, size_bytes, step in steps:
        connection = connections[index]
        if step == "take":
            if not connection.take(size_bytes):
                buffers.give_all(connection)
        elif connection.held_bytes and step == "give":
            buffers.give(connection, min(size_bytes, connection.held_bytes))
        elif connection.held_bytes:
            connection.went_on(is_idle=step == "idle")
        assert buffers.held_bytes == sum(each.held_bytes for each in connections) <= 1_000
