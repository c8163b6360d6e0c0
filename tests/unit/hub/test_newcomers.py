"""What newcomers are told, when one of them joins very many channels and when very many join one."""

from arauto.codec.events import Join, Leave, Occupancy, Presence, PublishItem
from arauto.hub.channel import Channel
from arauto.hub.fanout import Format
from arauto.hub.hub import Hub
from arauto.settings import Rules
from tests.unit.hub.test_costs import count_steps, cover, say
from tests.unit.hub.world import NOBODY, OTHER_FORMAT, WIRE, Reader, World, join

PRESENCE = Rules(public=True, client_publish=True, presence=True)
#: What one turn gives one connection, about: see `hub/owed.py`.
SLICE_BYTES = 65_536


class Encoded:
    """Counts what is encoded into a wire format of its own."""

    def __init__(self) -> None:
        self.format = Format("counting", WIRE.codec, self._frame)
        self.size_bytes = 0
        self.pictures = 0

    def _frame(self, data: bytes) -> bytes:
        self.pictures += isinstance(WIRE.codec.decode_event(data), Presence)
        framed = len(data).to_bytes(4, "big") + data
        self.size_bytes += len(framed)
        return framed


def crowded(hub: Hub, channels_len: int) -> list[Channel]:
    """Channels with a few members each, of long names."""
    crowd = [Reader(hub, f"{'m' * 100}{n}", format=OTHER_FORMAT) for n in range(20)]
    opened = []
    for n in range(channels_len):
        channel = hub.channel(f"room:{n}")
        assert channel is not None
        join(channel, *crowd)
        opened.append(channel)
    return opened


def stalled(hub: Hub, format: Format) -> Reader:
    reader = Reader(hub, "stalled", format=format)
    reader.outbox.pause()
    return reader


async def test_who_does_not_read_has_no_pictures_of_a_thousand_channels_made() -> None:
    world = World(rules=PRESENCE)
    hub, wire = world.hub(), Encoded()
    crowded(hub, 1_000)
    reader = stalled(hub, wire.format)
    cover(hub, "room:*", reader)
    for channel in hub.matching("room:*"):
        channel.welcome(reader.subscriber, (), recovered=True)
    world.clock.run_soon()
    assert wire.size_bytes == 0
    assert reader.outbox.backlog_bytes == 0


async def test_pictures_of_a_thousand_channels_come_slice_by_slice_and_all_of_them() -> None:
    world = World(rules=PRESENCE)
    hub, wire = world.hub(), Encoded()
    crowded(hub, 1_000)
    reader = Reader(hub, "reader", format=wire.format)
    sizes = []

    def write(data: bytes) -> None:
        sizes.append(len(data))
        reader.written.append(data)

    reader.outbox.write = write
    cover(hub, "room:*", reader)
    for channel in hub.matching("room:*"):
        channel.welcome(reader.subscriber, (), recovered=True)
    joined_bytes = wire.size_bytes
    assert joined_bytes < 2 * SLICE_BYTES
    world.clock.run_soon()
    assert max(sizes) < 2 * SLICE_BYTES
    pictures = reader.of(Presence)
    assert sorted(each.channel for each in pictures) == sorted(f"room:{n}" for n in range(1_000))
    assert {each.total for each in pictures} == {21}


async def test_a_reader_that_stalls_gets_the_rest_when_it_reads_again_with_what_came_meanwhile() -> (
    None
):
    world = World(rules=PRESENCE)
    hub = world.hub()
    [channel] = crowded(hub, 1)
    reader = stalled(hub, WIRE)
    join(channel, reader)
    late = Reader(hub, "late", format=OTHER_FORMAT)
    join(channel, late)
    world.clock.run_soon()
    reader.outbox.resume()
    world.clock.run_soon()
    # The join of the late one was told already, before the picture that has it.
    assert [type(event) for event in reader.events] == [Join, Presence]
    assert reader.of(Presence)[0].total == 22


async def test_a_picture_comes_after_what_its_turn_tells_of_the_same_members() -> None:
    world = World(rules=PRESENCE)
    hub = world.hub()
    channel, *_ = crowded(hub, 1)
    reader, other = stalled(hub, WIRE), Reader(hub, "other")
    join(channel, reader, other)
    world.clock.run_soon()
    channel.unsubscribe(other.subscriber)
    reader.outbox.resume()
    world.clock.run_soon()
    assert [type(event) for event in reader.events] == [Join, Leave, Presence]
    assert reader.of(Presence)[0].total == 21


async def test_who_left_meanwhile_or_whose_channel_has_no_presence_any_more_is_told_nothing() -> (
    None
):
    world = World(rules=PRESENCE)
    hub = world.hub()
    left, plain, closed = crowded(hub, 3)
    reader = stalled(hub, WIRE)
    join(left, reader)
    join(plain, reader)
    join(closed, reader)
    world.clock.run_soon()
    left.unsubscribe(reader.subscriber)
    plain.apply_rules(Rules(public=True))
    await closed.close()
    reader.outbox.resume()
    world.clock.run_soon()
    assert reader.events == []


async def test_those_who_join_in_one_turn_are_shown_one_picture_and_the_next_a_new_one() -> None:
    world = World(rules=PRESENCE)
    hub, wire = world.hub(), Encoded()
    [channel] = crowded(hub, 1)
    world.clock.run_soon()
    readers = [Reader(hub, f"s{n}", format=wire.format) for n in range(50)]
    join(channel, *readers)
    world.clock.run_soon()
    for reader in readers:
        [picture] = reader.of(Presence)
        assert picture.total == 70
    assert wire.pictures == 1
    channel.unsubscribe(readers[0].subscriber)
    join(channel, readers[0])
    world.clock.run_soon()
    late = readers[0].of(Presence)[-1]
    assert (wire.pictures, late.members[-1].session) == (2, "s0")
    await channel.close()
    assert world.env.encodings.size_bytes == 0


async def test_a_channel_joined_over_and_over_is_owed_one_picture() -> None:
    world = World(rules=Rules(public=True, presence=True, occupancy=True))
    hub = world.hub()
    [channel] = crowded(hub, 1)
    reader = stalled(hub, WIRE)
    for _ in range(100):
        join(channel, reader)
        channel.unsubscribe(reader.subscriber)
    join(channel, reader)
    world.clock.run_soon()
    reader.outbox.resume()
    world.clock.run_soon()
    assert len(reader.of(Presence)) == 1
    assert [each.count for each in reader.of(Occupancy)] == [21]


async def test_a_connection_that_ends_is_owed_nothing() -> None:
    world = World(rules=PRESENCE)
    hub = world.hub()
    [channel] = crowded(hub, 1)
    reader = stalled(hub, WIRE)
    join(channel, reader)
    reader.outbox.close()
    reader.outbox.resume()
    reader.outbox.owe(channel.feature("presence"))  # type: ignore[arg-type]
    world.clock.run_soon()
    assert reader.events == []


async def test_a_channel_that_opens_for_very_many_patterns_tells_nobody_of_each_of_the_others() -> (
    None
):
    steps: dict[int, int] = {}
    for count in (20, 200):
        world = World(rules=Rules(public=True, client_publish=True, presence=True, occupancy=True))
        hub = world.hub()
        readers = [Reader(hub, f"s{n}", format=(WIRE, OTHER_FORMAT)[n % 2]) for n in range(count)]
        for reader in readers:
            cover(hub, "room:*", reader)
        opened = hub.channel
        steps[count] = count_steps(lambda: opened("room:1"))  # noqa: B023
        say(hub, "room:1")
        steps[count] += count_steps(world.clock.run_soon)
        for reader in readers:
            [picture] = reader.of(Presence)
            assert {each.session for each in picture.members} == {f"s{n}" for n in range(count)}
            assert picture.total == count
            assert reader.of(Join) == []
            assert [each.count for each in reader.of(Occupancy)] == [count]
            assert reader.payloads == [b"x"]
    assert steps[200] <= steps[20] * 15, steps


async def test_who_was_there_gets_a_picture_when_very_many_come_at_once() -> None:
    """Rules begin to let the holders of a pattern read."""
    world = World(rules=PRESENCE)
    hub = world.hub()
    channel = hub.channel("room:1")
    assert channel is not None
    first = Reader(hub, "first")
    join(channel, first)
    waiting = [Reader(hub, f"s{n}") for n in range(3)]
    for reader in waiting:
        reader.forbidden.add("room:1")
        cover(hub, "room:*", reader)
    world.clock.run_soon()
    first.written.clear()
    for reader in waiting:
        reader.forbidden.clear()
    channel.rematch()
    channel.publish(PublishItem(channel="room:1", payload=b"x"), NOBODY, None)
    world.clock.run_soon()
    assert [type(event).__name__ for event in first.events] == ["Presence", "Publication"]
    assert [each.session for each in first.of(Presence)[0].members] == ["first", "s0", "s1", "s2"]
    assert all(len(reader.of(Presence)) == 1 for reader in waiting)


async def test_who_comes_with_others_is_told_how_many_are_there_though_as_many_have_just_left() -> (
    None
):
    """Seen: nobody else was told anew, since the number was the same, and so neither were they."""
    world = World(rules=Rules(public=True, occupancy=True))
    hub = world.hub()
    channel = hub.channel("room:1")
    assert channel is not None
    first = [Reader(hub, f"f{n}") for n in range(3)]
    join(channel, *first)
    await world.settle()
    world.clock.advance(1)
    later = [Reader(hub, f"l{n}") for n in range(2)]
    for reader in later:
        reader.forbidden.add("room:1")
        cover(hub, "room:*", reader)
        reader.forbidden.clear()
    for reader in first[1:]:
        channel.unsubscribe(reader.subscriber)
    channel.rematch()
    world.clock.run_soon()
    assert [[each.count for each in reader.of(Occupancy)] for reader in later] == [[3], [3]]
