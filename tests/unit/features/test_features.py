"""The features of a channel, each on its own: what newcomers get, what others see, what is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.events import Join, Leave, Occupancy, Presence, Publication
from arauto.errors import ArautoError, Code
from arauto.features.history import LiveHistory
from arauto.features.presence import PresenceFeature
from arauto.hub.channel import Channel
from arauto.hub.environment import HubLimits
from arauto.model import Direction, When
from arauto.settings import Rules
from arauto.storage.base import HistoryQuery
from tests.unit.hub.world import OTHER_FORMAT, NoTasks, Reader, World, join


async def a_channel(rules: Rules, **limits: float) -> tuple[World, Channel]:
    world = World(rules=rules, limits=HubLimits(**limits))  # type: ignore[arg-type]
    return world, await world.channel()


def readers_of(channel: Channel, count: int) -> list[Reader]:
    formats = (OTHER_FORMAT, None)
    return [
        Reader(channel.hub, f"s{n}", **({"format": formats[0]} if n % 2 else {}))  # type: ignore[arg-type]
        for n in range(count)
    ]


# --- live history ------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.lists(st.sampled_from([0, 0, 0, 3, 10]), max_size=30))
def test_live_history_holds_the_last_messages_that_are_young_enough(
    length: int, pauses: list[int]
) -> None:
    rules = Rules(live_history_len=length, live_history_s=8)
    world = World(rules=rules, tasks=NoTasks())
    channel = Channel(world.hub(), "c")
    channel.open_now()
    times: list[int] = []
    for pause_s in pauses:
        world.clock.advance(pause_s)
        world.publish(channel, b"x")
        times.append(world.clock.wall_ms())
    oldest_ms = world.clock.wall_ms() - 8_000
    young = [n for n, ts_ms in enumerate(times, 1) if ts_ms >= oldest_ms][-length:]
    assert [m.offset for m in channel.recent_after(0)] == young
    assert channel.recent_floor == (young[0] - 1 if young else len(times))


def test_a_node_without_live_history_remembers_nothing_and_says_so() -> None:
    world = World(limits=HubLimits(live_history_len_max=0), tasks=NoTasks())
    channel = Channel(world.hub(), "c")
    channel.open_now()
    world.publish(channel, b"1", b"2")
    assert list(channel.recent_after(0)) == []
    assert channel.recent_floor == 2


def test_live_history_takes_memory_with_the_first_message_only() -> None:
    world = World(tasks=NoTasks())
    channel = Channel(world.hub(), "c")
    feature = channel.feature(LiveHistory.name)
    assert isinstance(feature, LiveHistory)
    assert feature._messages is None


# --- retain ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "marked", "kept"),
    [
        (When.NEVER, True, False),
        (When.MARKED, False, False),
        (When.MARKED, True, True),
        (When.ALL, False, True),
    ],
)
async def test_the_rules_say_which_messages_are_retained(
    when: When, marked: bool, kept: bool
) -> None:
    world, channel = await a_channel(Rules(retain=when))
    world.publish(channel, b"x", retain=marked)
    assert (channel.hub.retained.get("c") is not None) == kept
    await world.settle()


async def test_retained_messages_start_and_stop_with_the_rules() -> None:
    world, channel = await a_channel(Rules(retain=When.MARKED))
    world.publish(channel, b"unmarked")
    assert channel.hub.retained.get("c") is None
    channel.apply_rules(Rules(retain=When.ALL))
    world.publish(channel, b"kept")
    assert channel.hub.retained.get("c") is not None
    channel.apply_rules(Rules(retain=When.NEVER))
    late = Reader(channel.hub)
    join(channel, late)
    world.clock.run_soon()
    assert late.payloads == []


@pytest.mark.parametrize(
    ("retain_s", "ceiling_s", "ttl_ms", "lives_s"),
    [
        (10, 0, 0, 10),
        (10, 0, 5_000, 5),
        (0, 7, 0, 7),
        (10, 7, 0, 7),
        (0, 0, 3_000, 3),
        (5, 0, 9_000, 5),
    ],
)
async def test_a_retained_message_lives_as_long_as_the_shortest_limit(
    retain_s: float, ceiling_s: float, ttl_ms: int, lives_s: float
) -> None:
    world, channel = await a_channel(
        Rules(retain=When.ALL, retain_s=retain_s), retain_s_max=ceiling_s
    )
    world.publish(channel, b"x", ttl_ms=ttl_ms)
    world.clock.advance(lives_s - 0.5)
    assert channel.hub.retained.get("c") is not None
    world.clock.advance(1)
    assert channel.hub.retained.get("c") is None
    await world.settle()


async def test_an_empty_payload_clears_what_was_retained() -> None:
    world, channel = await a_channel(Rules(retain=When.MARKED))
    world.publish(channel, b"x", retain=True)
    world.publish(channel, b"", retain=True)
    assert channel.hub.retained.get("c") is None
    await world.settle()


# --- presence ----------------------------------------------------------------------------------------


async def test_who_joins_gets_a_picture_and_the_others_hear_of_it_once() -> None:
    world, channel = await a_channel(Rules(presence=True))
    readers = readers_of(channel, 4)
    for reader in readers:
        join(channel, reader)
        world.clock.run_soon()
    for number, reader in enumerate(readers):
        [picture] = reader.of(Presence)
        assert [member.session for member in picture.members] == [
            f"s{n}" for n in range(number + 1)
        ]
        joins = [event.member.session for event in reader.of(Join)]
        assert joins == [f"s{n}" for n in range(number + 1, 4)]
    channel.unsubscribe(readers[1].subscriber)
    world.clock.run_soon()
    leaves = [[event.member.session for event in reader.of(Leave)] for reader in readers]
    assert leaves == [["s1"], [], ["s1"], ["s1"]]


async def test_a_long_picture_is_cut_but_the_total_is_right() -> None:
    world, channel = await a_channel(Rules(presence=True), presence_page_len=3)
    join(channel, *readers_of(channel, 10))
    feature = channel.feature("presence")
    assert isinstance(feature, PresenceFeature)
    picture = feature.snapshot()
    assert (len(picture.members), picture.total) == (3, 10)
    world.clock.run_soon()


async def test_presence_turned_on_in_a_crowd_costs_one_picture_each_not_a_crowd_each() -> None:
    world, channel = await a_channel(Rules())
    readers = readers_of(channel, 60)
    join(channel, *readers)
    channel.apply_rules(Rules(presence=True))
    world.clock.run_soon()
    for reader in readers:
        assert [event.total for event in reader.of(Presence)] == [60]
        assert reader.of(Join) == []
    channel.apply_rules(Rules())
    channel.unsubscribe(readers[0].subscriber)
    world.clock.run_soon()
    assert readers[1].of(Leave) == []


# --- occupancy ---------------------------------------------------------------------------------------


async def test_many_arrivals_are_announced_together_and_no_change_is_no_news() -> None:
    world, channel = await a_channel(Rules(occupancy=True))
    first, *rest = readers_of(channel, 30)
    join(channel, first)
    world.clock.advance(1)
    before = len(first.of(Occupancy))
    join(channel, *rest)
    world.clock.advance(1)
    assert [event.count for event in first.of(Occupancy)][before:] == [30]
    channel.unsubscribe(rest[0].subscriber)
    join(channel, rest[0])
    world.clock.advance(1)
    assert [event.count for event in first.of(Occupancy)][before:] == [30]


async def test_occupancy_stops_with_the_channel() -> None:
    world, channel = await a_channel(Rules(occupancy=True))
    reader = Reader(channel.hub)
    join(channel, reader)
    world.clock.run_soon()
    await channel.close()
    assert world.clock.advance(5) == 0, "nothing is left to run"


# --- store -------------------------------------------------------------------------------------------


async def test_stored_messages_are_kept_as_long_as_the_rules_say() -> None:
    world, channel = await a_channel(Rules(store=When.ALL, store_s=60))
    world.publish(channel, b"short", ttl_ms=5_000)
    world.publish(channel, b"long")
    await world.settle()

    async def kept() -> list[bytes]:
        query = HistoryQuery(hub="shop", channel="c", now_ms=world.clock.wall_ms())
        return [found.payload for found in await world.storage.journal.history(query)]

    assert await kept() == [b"short", b"long"]
    world.clock.advance(10)
    assert await kept() == [b"long"]
    world.clock.advance(60)
    assert await kept() == []


async def test_only_marked_messages_are_stored_where_the_rules_say_marked() -> None:
    world, channel = await a_channel(Rules(store=When.MARKED))
    reader = Reader(channel.hub)
    join(channel, reader)
    world.publish(channel, b"no")
    world.publish(channel, b"yes", store=True)
    await world.settle()
    query = HistoryQuery(hub="shop", channel="c", now_ms=0, direction=Direction.FORWARD)
    assert [found.payload for found in await world.storage.journal.history(query)] == [b"yes"]
    assert [e.message.payload for e in reader.of(Publication)] == [b"no", b"yes"]


# --- together ----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.builds(
            Rules,
            store=st.sampled_from([When.NEVER]),
            retain=st.sampled_from(list(When)),
            presence=st.booleans(),
            occupancy=st.booleans(),
            live_history_len=st.integers(0, 3),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_features_come_and_go_freely_and_messages_never_notice(all_rules: list[Rules]) -> None:
    world = World(rules=all_rules[0], tasks=NoTasks())
    channel = Channel(world.hub(), "c")
    channel.open_now()
    readers = readers_of(channel, 3)
    join(channel, *readers)
    for number, rules in enumerate(all_rules):
        channel.apply_rules(rules)
        wanted = {spec.name for spec in world.env.features if spec.wanted(rules)}
        assert {s.name for s in world.env.features if channel.feature(s.name)} == wanted
        world.publish(channel, b"%d" % number, retain=True)
        world.clock.run_soon()
    for reader in readers:
        assert reader.payloads == [b"%d" % number for number in range(len(all_rules))]


async def test_a_channel_type_that_is_not_offered_cannot_be_opened() -> None:
    world = World()
    hub = world.hub()
    for _ in range(2):
        with pytest.raises(ArautoError) as caught:
            await hub.open_channel("notification:ann")
        assert caught.value.code is Code.NOT_AVAILABLE
    assert hub.channels == {}
