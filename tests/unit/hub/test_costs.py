"""What one more of anything costs when there are very many: operations are counted, not time.

Each case does the same thing in a small world and in a large one. What the thing does not concern must
not make it dearer: the steps may grow with the logarithm of the rest (order is kept in trees), not with
the rest."""

import asyncio
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from arauto.codec.events import Occupancy, Pong, PublishItem
from arauto.errors import ArautoError, Code
from arauto.features.presence import PresenceFeature
from arauto.hub import fanout
from arauto.hub.directory import Directory
from arauto.hub.environment import HubLimits
from arauto.hub.fanout import Turn
from arauto.hub.hub import Hub
from arauto.hub.matcher import Matcher
from arauto.hub.outbox import Outbox
from arauto.hub.retained import Retained
from arauto.model import Member, SlowPolicy, When
from arauto.names import check_pattern
from arauto.settings import Rules
from arauto.testing.clock import FakeClock
from tests.unit.hub.test_outbox import a_lane, an_outbox
from tests.unit.hub.world import NOBODY, WIRE, Reader, SlowDisk, World, join, message

SMALL, LARGE = 10, 10_000
#: How much dearer a thing may be with a thousand times as much around it.
FACTOR = 3


def count_steps(act: Callable[[], object]) -> int:
    """The instructions of the interpreter that something takes, and the C functions it calls."""
    steps = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "c_call"

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += 1
        return trace

    before = sys.gettrace()
    sys.setprofile(note)
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        sys.setprofile(None)
    return steps


def cover(hub: Hub, pattern: str, reader: Reader) -> None:
    hub.hold_pattern(check_pattern(pattern), reader.subscriber)
    for channel in hub.matching(pattern):
        channel.cover(reader.subscriber, (pattern,))


def say(hub: Hub, name: str) -> None:
    channel = hub.channel(name)
    assert channel is not None
    channel.publish(PublishItem(channel=name, payload=b"x"), NOBODY, None)


async def with_channels(count: int) -> Callable[[], object]:
    hub = World().hub()
    for n in range(count):
        hub.channel(f"room:{n}")
    hub.channel("hall:1")
    reader = Reader(hub)

    def act() -> None:
        cover(hub, "hall:*", reader)
        say(hub, "hall:1")
        hub.drop_pattern("hall:*", reader.subscriber)

    return act


async def with_patterns(count: int) -> Callable[[], object]:
    """Others' patterns: prefixes, whole segments, topics and globs with a beginning."""
    hub = World().hub()
    other = Reader(hub, "other")
    for n in range(count):
        cover(hub, (f"room{n}*", f"room:{n}:#", f"/room/{n}", f"room:{n}*x*y")[n % 4], other)
    reader = Reader(hub)

    def act() -> None:
        say(hub, "hall:1")
        cover(hub, "hall:*", reader)
        say(hub, "hall:1")
        say(hub, "hall:2")
        hub.drop_pattern("hall:*", reader.subscriber)

    return act


async def with_retained(count: int) -> Callable[[], object]:
    world = World()
    retained = Retained("shop", world.env)
    for n in range(count):
        retained.set(message(n + 1, b"x", f"room:{n}"))
    retained.set(message(1, b"x", "hall:1"))

    def act() -> None:
        page, _ = retained.page("hall:*", "", 100)
        assert [m.channel for m in page] == ["hall:1"]
        retained.set(message(2, b"y", "hall:1"))

    return act


async def with_departed(count: int) -> Callable[[], object]:
    hub = World().hub()
    for n in range(count):
        hub.departed.note(f"room:{n}", message(1).serial, 1, 1, stored=False)

    def act() -> None:
        place = hub.place()
        hub.departed.note("hall", message(1).serial, hub.ts_ms, hub.ts_ms, stored=False)
        assert [name for name, _ in hub.departed.closed_since(place.offset)] == ["hall"]

    return act


async def with_keys(count: int) -> Callable[[], object]:
    hub = World().hub()
    channel = await hub.open_channel("hall")
    for n in range(min(count, 9_000)):
        draft = PublishItem(channel="hall", payload=b"x", idempotency_key=f"k{n}")
        channel.publish(draft, NOBODY, None)

    def act() -> None:
        for _ in range(2):
            draft = PublishItem(channel="hall", payload=b"x", idempotency_key="k")
            channel.publish(draft, NOBODY, None)

    return act


async def with_waiting(count: int) -> Callable[[], object]:
    """Messages that wait for a slow disk, and the retry of one of them."""
    clock = FakeClock()
    rules = Rules(store=When.ALL, client_publish=True)
    world = World(rules=rules, clock=clock, journal=SlowDisk(clock))
    channel = await world.hub().open_channel("hall")
    drafts = [
        PublishItem(channel="hall", payload=b"x", idempotency_key=f"k{n}")
        for n in range(min(count, 5_000))
    ]
    for draft in drafts:
        channel.publish(draft, NOBODY, None)

    def act() -> None:
        channel.publish(drafts[-1], NOBODY, lambda serial, duplicate, error: None)

    return act


def a_stalled_reader(count: int, policy: SlowPolicy, *, keys: int) -> Callable[[], object]:
    """A full backlog of that many messages, and one more."""
    clock = FakeClock()
    turn = Turn(clock)
    size_bytes = len(WIRE.encode_message(message(1, b"x", "hall", key="k1")))
    outbox, _ = an_outbox(turn, count * (size_bytes + 8))
    lane = a_lane(turn, outbox, name="hall", policy=policy)
    outbox.pause()
    outbox.send(Pong(id=1))

    def put(offset: int) -> None:
        sent = message(offset, b"x", "hall", key=f"k{offset % keys}")
        lane.put(WIRE.encode_message(sent), sent)
        clock.run_soon()

    for offset in range(1, 2 * count):
        put(offset)

    def act() -> None:
        for offset in range(2 * count, 2 * count + 5):
            put(offset)

    return act


async def with_a_backlog_that_drops_the_oldest(count: int) -> Callable[[], object]:
    return a_stalled_reader(count, SlowPolicy.DROP_OLDEST, keys=1)


async def with_a_backlog_of_one_key(count: int) -> Callable[[], object]:
    return a_stalled_reader(count, SlowPolicy.KEEP_LATEST, keys=1)


async def with_a_backlog_of_many_keys(count: int) -> Callable[[], object]:
    return a_stalled_reader(count, SlowPolicy.KEEP_LATEST, keys=count * 4)


@pytest.mark.parametrize(
    "crowd",
    [
        with_channels,
        with_patterns,
        with_retained,
        with_departed,
        with_keys,
        with_waiting,
        with_a_backlog_that_drops_the_oldest,
        with_a_backlog_of_one_key,
        with_a_backlog_of_many_keys,
    ],
)
async def test_a_crowd_that_is_not_concerned_makes_nothing_dearer(
    crowd: Callable[[int], Awaitable[Callable[[], object]]],
) -> None:
    few = count_steps(await crowd(SMALL))
    many = count_steps(await crowd(LARGE))
    assert many <= few * FACTOR, f"{few} steps with {SMALL}, {many} with {LARGE}"


#: As long as names may be, and with `#` in any of the first nine places.
LONG_FORMS = [":".join(head) + ":b" * 110 + ":z" for head in product("#b", repeat=9)][:-1]
LONG_NAME = ":".join("b" * 120)


def test_patterns_of_very_many_segments_are_found_in_a_few_steps_for_each_form_of_theirs() -> None:
    """Seen: each branch was walked to its end, for most of a second when one request opened 20 channels."""
    matcher: Matcher[int] = Matcher()
    for n, pattern in enumerate(LONG_FORMS):
        for tail in ("", "y", "yy"):
            matcher.add(check_pattern(pattern + tail), n)
    assert matcher.forms_len == len(LONG_FORMS)
    assert count_steps(lambda: matcher.match(LONG_NAME)) < 150 * len(LONG_FORMS)
    before = matcher.effort
    assert len(matcher.match(LONG_NAME[:-1] + "z")) == len(LONG_FORMS)
    assert matcher.effort - before >= 5 * len(LONG_FORMS), "and that is told"


def test_patterns_of_very_many_segments_take_little_more_memory_than_their_names() -> None:
    patterns = [f"{n:03}" + ":#" * 16 + ":x" * 100 for n in range(1_000)]
    matcher: Matcher[None] = Matcher()
    tracemalloc.start()
    for pattern in patterns:
        matcher.add(check_pattern(pattern), None)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_bytes < 1_000 * 1_000


def test_what_trying_patterns_takes_is_told_by_their_length_and_that_of_the_name() -> None:
    matcher: Matcher[int] = Matcher()
    for n in range(100):
        matcher.add(f"a*{n}x", n)
    for name, steps in (("a" * 10, 100), ("a" * 250, 100), ("b", 0)):
        before = matcher.effort
        assert matcher.match(name) == []
        assert steps <= matcher.effort - before <= steps + 2
    matcher.add("a*" + "a" * 200 + "b*c", 0)
    matcher.add("a*" + "a" * 200 + ":#*c", 0)
    before = matcher.effort
    matcher.match("a" * 249 + "c")
    assert 150 <= matcher.effort - before < 250
    matcher.match("a" * 250)
    assert matcher.effort - before < 350, "it does not even end as they do"


class CountedDict(dict[str, Any]):
    """Counts what is looked at by who walks over it."""

    looked = 0

    def values(self) -> Any:
        for value in super().values():
            self.looked += 1
            yield value


async def test_who_joins_a_channel_with_very_many_members_pays_for_what_is_shown() -> None:
    rules = Rules(presence=True, public=True)
    channel = (
        await World(rules=rules, limits=HubLimits(presence_page_len=10)).hub().open_channel("c")
    )
    feature = channel.feature("presence")
    assert isinstance(feature, PresenceFeature)
    members = CountedDict((f"s{n}", Member(f"s{n}", "", 0)) for n in range(1_000))
    feature._members = members
    shown = feature.snapshot()
    assert (len(shown.members), shown.total) == (10, 1_000)
    assert members.looked <= 11


async def test_occupancy_that_begins_is_announced_once_to_all() -> None:
    world = World(rules=Rules(public=True))
    hub = world.hub()
    channel = await world.channel("c", hub)
    readers = [Reader(hub, f"s{n}") for n in range(50)]
    join(channel, *readers)
    with count_calls(Outbox, "send") as calls:
        channel.apply_rules(Rules(public=True, occupancy=True))
        await world.settle()
    assert [[each.count for each in reader.of(Occupancy)] for reader in readers] == [[50]] * 50
    assert not calls, "encoded for each"


@contextmanager
def count_calls(kind: type, name: str) -> Iterator[list[None]]:
    """A list that grows by one with each call of a method."""
    calls: list[None] = []
    method = getattr(kind, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return method(*args, **kwargs)

    setattr(kind, name, counted)
    try:
        yield calls
    finally:
        setattr(kind, name, method)


class Compared:
    """An outbox's stand-in that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Compared.compared += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def put_item(self, item: object) -> None:
        """Nobody reads it."""


@pytest.mark.skipif(
    Path(fanout.__file__).suffix != ".py", reason="compiled lanes take no stand-ins"
)
async def test_keeping_a_message_from_very_many_costs_a_step_for_each_that_gets_it() -> None:
    world = World()
    hub = world.hub()
    channel = await world.channel("c", hub)
    readers = [Reader(hub, f"s{n}") for n in range(10)]
    join(channel, *readers)
    for reader in readers:
        reader.subscriber.user = "u"
        hub.know_user(reader.subscriber)
    excluded = channel._excluded(message(1, exclude="u:u"))
    assert excluded == {reader.outbox for reader in readers}
    lane = a_lane(Turn(FakeClock()), policy=SlowPolicy.DISCONNECT)
    kind: Any = type(excluded)
    kept_from = kind(Compared() for _ in range(1_000))
    lane.outboxes = {Compared(): None for _ in range(1_000)}  # type: ignore[misc]
    Compared.compared = 0
    lane.put_except(b"x", None, kept_from)
    assert Compared.compared <= 2_000


@pytest.mark.parametrize(("sessions_len", "here_len"), [(LARGE, SMALL), (SMALL, LARGE)])
async def test_who_is_kept_from_a_message_is_found_by_the_smaller_of_users_sessions_and_readers(
    sessions_len: int, here_len: int
) -> None:
    world = World()
    hub = world.hub()
    channel = await world.channel("c", hub)
    sessions = [Reader(hub, f"s{n}") for n in range(sessions_len)]
    for reader in sessions:
        reader.subscriber.user = "u"
        hub.know_user(reader.subscriber)
    others = [Reader(hub, f"o{n}") for n in range(here_len - 1)]
    join(channel, sessions[0], *others)
    wanted = message(1, exclude="u:u")
    assert channel._excluded(wanted) == {sessions[0].outbox}
    assert count_steps(lambda: channel._excluded(wanted)) < 100 * SMALL


async def turns(work: Coroutine[Any, Any, object]) -> int:
    """How many turns of the loop something takes, in each of which others may run."""
    task = asyncio.ensure_future(work)
    count = 0
    while not task.done():
        count += 1
        await asyncio.sleep(0)
    await task
    return count


async def test_closing_very_many_channels_lets_others_have_their_turn() -> None:
    world = World()
    hub = world.hub()
    for n in range(3_000):
        hub.channel(f"c:{n}")
    world.clock.advance(3_600)
    assert await turns(hub.close_idle_channels()) >= 6
    assert not hub.channels


async def test_closing_a_very_large_hub_lets_others_have_their_turn() -> None:
    world = World()
    hub = world.hub()
    for n in range(3_000):
        hub.channel(f"c:{n}")
        hub.add_session(Reader(hub, f"s{n}").subscriber)
    open_channels = list(hub.channels.values())
    assert await turns(hub.close()) >= 12
    assert not any(channel.is_open for channel in open_channels)
    with pytest.raises(ArautoError) as refused:
        hub.add_session(Reader(hub, "late").subscriber)
    assert refused.value.code is Code.HUB_CLOSED


async def test_looking_after_very_many_hubs_lets_others_have_their_turn() -> None:
    world = World()
    directory = Directory(
        world.env, defaults=world.settings, builtin_rules=world.rules, allow_dynamic=True
    )
    directory.hubs.update({f"h{n}": world.hub(f"h{n}") for n in range(2_000)})
    assert await turns(directory._sweep()) >= 4
