"""Retained messages: the last one of each channel, bounded, never expired, and still there tomorrow."""

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.errors import Code, StorageError
from arauto.hub import retained as module
from arauto.hub.retained import Retained
from arauto.hub.rules import HubState
from arauto.hub.share import Pool, Share
from arauto.model import Message
from arauto.names import matches
from arauto.settings import HubSettings, Quotas
from arauto.storage.base import Pairs
from arauto.storage.memory import MemoryKeyValueStore
from tests.stored import stored
from tests.unit.hub.world import NoTasks, World, message

names = st.sampled_from(["a", "b:1", "b:2", "/t", "/t/u"])


class RetainedAgainstModel(RuleBasedStateMachine):
    @initialize(limit=st.integers(1, 4))
    def start(self, limit: int) -> None:
        self.world = World(tasks=NoTasks())
        self.retained = Retained("shop", self.world.env, limit)
        self.limit = limit
        self.model: dict[str, Message] = {}
        self.number = 0

    def live(self) -> dict[str, Message]:
        now_ms = self.world.clock.wall_ms()
        return {n: m for n, m in self.model.items() if not m.expires_ms or m.expires_ms > now_ms}

    @rule(
        name=names, payload=st.sampled_from([b"", b"x"]), ttl_ms=st.sampled_from([0, 500, 60_000])
    )
    def publish(self, name: str, payload: bytes, ttl_ms: int) -> None:
        self.number += 1
        expires_ms = self.world.clock.wall_ms() + ttl_ms if ttl_ms else 0
        sent = message(self.number, payload, name, expires_ms=expires_ms)
        refused = self.world.env.metrics.hub("shop").retained_refused
        self.retained.set(sent)
        if not payload:
            self.model.pop(name, None)
        elif self.world.env.metrics.hub("shop").retained_refused == refused:
            self.model[name] = sent
        else:
            assert len(self.model) >= self.limit, "there was room"

    @rule(seconds=st.sampled_from([0.1, 1, 11]))
    def wait(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @rule(name=names)
    def look(self, name: str) -> None:
        assert self.retained.get(name) == self.live().get(name)

    @rule(pattern=st.sampled_from(["*", "b:*", "b:#", "/", "/t", "a"]))
    def look_at_many(self, pattern: str) -> None:
        wanted = [m for n, m in sorted(self.live().items()) if matches(pattern, n)]
        assert self.retained.page(pattern, "", 1_000)[0] == wanted

    @invariant()
    def is_bounded(self) -> None:
        if hasattr(self, "retained"):
            assert len(self.retained) <= self.limit


TestRetainedAgainstModel = RetainedAgainstModel.TestCase


async def test_what_is_retained_is_written_within_a_second_and_read_back() -> None:
    world = World()
    retained = Retained("shop", world.env)
    for number in range(1, 6):
        retained.set(message(number, b"%d" % number, "room"))
    retained.set(message(6, b"gone", "hall"))
    retained.set(message(7, b"", "hall"))
    world.clock.advance(1.5)
    await world.settle()
    assert [key for key, _ in await stored(world.storage.kv, "shop", "", 10)] == ["retained:room"]
    again = Retained("shop", world.env)
    await again.load()
    found = again.get("room")
    assert found is not None
    assert found.payload == b"5"
    assert again.get("hall") is None


async def test_an_expired_message_makes_room_for_others() -> None:
    world = World()
    retained = Retained("shop", world.env, 3)
    expires_ms = world.clock.wall_ms() + 1_000
    for number in range(3):
        retained.set(message(1, b"x", f"old:{number}", expires_ms=expires_ms))
    retained.set(message(1, b"x", "new"))
    assert world.env.metrics.hub("shop").retained_refused == 1
    world.clock.advance(15)
    await world.settle()
    retained.set(message(2, b"x", "new"))
    assert retained.get("new") is not None
    assert len(retained) <= 2


async def test_the_bound_follows_the_hubs_channel_quota() -> None:
    world = World()
    retained = Retained("shop", world.env, 2)
    for number in range(5):
        retained.set(message(1, b"x", f"c:{number}"))
    assert (len(retained), world.env.metrics.hub("shop").retained_refused) == (2, 3)
    retained.set(message(2, b"newer", "c:0"))
    assert world.env.metrics.hub("shop").retained_refused == 3, (
        "a new value for a known channel always fits"
    )
    retained.set_limit(4)
    for number in range(5):
        retained.set(message(1, b"x", f"c:{number}"))
    assert len(retained) == 4
    retained.set_limit(0)
    assert retained._limit_len == module._MESSAGES_MAX


class Failing(MemoryKeyValueStore):
    fails = True
    fails_to_scan = False
    scans = 0

    async def scan(self, hub: str, prefix: str, limit: int) -> AsyncIterator[Pairs]:
        self.scans += 1
        if self.fails_to_scan:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the store is away")
        async for page in super().scan(hub, prefix, limit):
            yield page

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        if self.fails:
            raise StorageError(Code.STORAGE_FULL, "the disk is full")
        await super().put(hub, key, value, ttl_s)


@pytest.fixture
def failing() -> tuple[World, Failing]:
    world = World()
    store = Failing(world.clock)
    object.__setattr__(world.storage, "kv", store)
    return world, store


async def test_a_write_that_failed_is_tried_again(failing: tuple[World, Failing]) -> None:
    world, store = failing
    retained = Retained("shop", world.env)
    retained.set(message(1, b"x", "room"))
    world.clock.advance(3)
    await world.settle()
    assert world.env.metrics.hub("shop").retained_failures >= 1
    store.fails = False
    world.clock.advance(3)
    await world.settle()
    assert await store.get("shop", "retained:room") is not None


async def test_a_closed_hub_never_overwrites_what_the_next_one_wrote(
    failing: tuple[World, Failing],
) -> None:
    world, store = failing
    old = Retained("shop", world.env)
    old.set(message(1, b"old", "room"))
    await old.close()
    store.fails = False
    new = Retained("shop", world.env)
    new.set(message(2, b"new", "room"))
    await new.flush()
    for _ in range(5):
        world.clock.advance(2)
        await world.settle()
    kept = Retained("shop", world.env)
    await kept.load()
    found = kept.get("room")
    assert found is not None
    assert found.payload == b"new"


async def test_records_that_are_damaged_or_of_another_hub_or_channel_are_not_trusted() -> None:
    world = World()
    kv = world.storage.kv
    good = msgspec.msgpack.encode(message(1, b"good", "good"))
    await kv.put("shop", "retained:good", good)
    await kv.put("shop", "retained:other", good)
    await kv.put("shop", "retained:broken", b"\xc1")
    foreign = msgspec.structs.replace(message(1, b"x", "foreign"), hub="other")
    await kv.put("shop", "retained:foreign", msgspec.msgpack.encode(foreign))
    retained = Retained("shop", world.env)
    await retained.load()
    assert [m.channel for m in retained.page("*", "", 100)[0]] == ["good"]
    assert world.env.metrics.hub("shop").retained_failures == 3


def small_hub(*, hub_bytes: int = 0, node_bytes: int = 0, world: World | None = None) -> Retained:
    """Another hub of the world, or of a new one, whose retained messages are bounded in bytes."""
    world = world or World(tasks=NoTasks())
    if node_bytes:
        pools = replace(world.env.pools, retained=Pool(node_bytes, leaves_room=True))
        world.env = replace(world.env, pools=pools)
    share = Share(world.env.pools.retained, hub_bytes)
    return Retained("shop", world.env, 0, share)


def kib(number: int, channel: str, count: int = 1) -> Message:
    return message(number, b"x" * (1_024 * count), channel)


def held(retained: Retained) -> list[str]:
    return [each.channel for each in retained.page("*", "", 1_000)[0]]


def test_beyond_its_bytes_a_hub_retains_no_new_channels_message() -> None:
    retained = small_hub(hub_bytes=10 * 1_536)
    for number in range(12):
        retained.set(kib(1, f"c:{number:02}"))
    assert held(retained) == [f"c:{number:02}" for number in range(10)]
    assert retained._counters.retained_refused == 2
    assert retained._memory.used_bytes == 10 * 1_536
    retained.set(kib(2, "c:03"))
    retained.set(message(2, b"", "c:04"))
    retained.set(kib(1, "c:11"))
    assert "c:11" in held(retained), "what was cleared makes room"


def test_a_message_that_grows_beyond_the_bytes_takes_the_one_before_it_along() -> None:
    retained = small_hub(hub_bytes=2 * 1_536)
    retained.set(kib(1, "a"))
    retained.set(kib(1, "b"))
    retained.set(kib(2, "a", 2))
    assert held(retained) == ["b"], "an old message would pass for the last one"
    assert retained._counters.retained_refused == 1
    assert retained._memory.used_bytes == 1_536
    retained.set(message(2, b"small", "b"))
    retained.set(kib(3, "a"))
    assert held(retained) == ["a", "b"]


def test_expired_messages_give_their_bytes_back() -> None:
    world = World(tasks=NoTasks())
    retained = small_hub(hub_bytes=4 * 1_536, world=world)
    expires_ms = world.clock.wall_ms() + 1_000
    for number in range(4):
        old = msgspec.structs.replace(kib(1, f"old:{number}"), expires_ms=expires_ms)
        retained.set(old)
    world.clock.advance(15)
    retained.set(kib(1, "new"))
    assert held(retained) == ["new"]
    assert retained._memory.used_bytes == 1_536


def test_a_hub_that_retains_very_much_leaves_room_to_the_others() -> None:
    world = World(tasks=NoTasks())
    large = small_hub(node_bytes=400 * 1_536, world=world)
    for number in range(1_000):
        large.set(kib(1, f"c:{number}"))
    assert len(large) == 200
    small = small_hub(world=world)
    for number in range(50):
        small.set(kib(1, f"c:{number}"))
    assert len(small) == 50, "half of the pool is what others may have"
    assert world.env.pools.retained.granted_bytes <= 400 * 1_536


async def test_what_finds_no_room_at_the_opening_never_comes_back_as_the_newest() -> None:
    world = World()
    first = small_hub(world=world)
    for name in ("a", "b", "c"):
        first.set(kib(1, name))
    await first.close()
    second = small_hub(world=world, hub_bytes=2 * 1_536)
    await second.load()
    assert held(second) == ["a", "b"]
    assert second._counters.retained_refused == 1
    second.set(kib(2, "c"))
    assert held(second) == ["a", "b"]
    await second.close()
    third = small_hub(world=world)
    await third.load()
    assert held(third) == ["a", "b"]


async def test_what_found_no_room_at_the_opening_is_there_once_there_is_room() -> None:
    world = World()
    first = small_hub(world=world)
    for name in ("a", "b", "c"):
        first.set(kib(1, name))
    await first.close()
    second = small_hub(world=world, hub_bytes=2 * 1_536)
    await second.load()
    await second.close()
    third = small_hub(world=world)
    await third.load()
    assert held(third) == ["a", "b", "c"]


async def test_what_found_no_room_and_expires_takes_no_place_of_others() -> None:
    world = World(tasks=NoTasks())
    first = small_hub(world=world)
    for name in ("a", "b", "c"):
        first.set(msgspec.structs.replace(kib(1, name), expires_ms=world.clock.wall_ms() + 60_000))
    first.set(kib(1, "d"))
    await first.close()
    second = Retained("shop", world.env, 2, Share(Pool(), 1_536))
    await second.load()
    assert held(second) == ["a"]
    world.clock.advance(61)
    second.set(kib(1, "e"))
    assert (held(second), list(second._left_out)) == (["e"], ["d"])


async def test_what_has_expired_when_the_hub_opens_is_not_waited_for() -> None:
    world = World(tasks=NoTasks())
    first = small_hub(world=world)
    first.set(kib(1, "a"))
    await first.close()
    expired = msgspec.structs.replace(kib(1, "b"), expires_ms=world.clock.wall_ms() - 1)
    await world.storage.kv.put("shop", "retained:b", msgspec.msgpack.encode(expired))
    second = small_hub(world=world, hub_bytes=1_536)
    await second.load()
    assert (held(second), list(second._left_out)) == (["a"], [])


async def test_messages_read_back_share_their_names_with_what_holds_them() -> None:
    """A copy of both names for each message was more memory than is counted."""
    world = World(tasks=NoTasks())
    first = small_hub(world=world)
    first.set(kib(1, "a:long:name"))
    await first.close()
    second = small_hub(world=world)
    await second.load()
    [(name, held_message)] = second._messages.items()
    assert held_message == kib(1, "a:long:name")
    assert held_message.channel is name
    assert held_message.hub is second._hub


def quota(world: World, retained_bytes_max: int) -> HubState:
    quotas = Quotas(retained_bytes_max=retained_bytes_max)
    return world.state(settings=HubSettings(quotas=quotas))


async def test_what_found_no_room_is_there_as_soon_as_the_quota_has_room_for_it() -> None:
    world = World()
    first = world.hub()
    for name in ("a", "b", "c", "d", "e"):
        first.retained.set(kib(1, name))
    await first.close()
    world.settings = quota(world, 2 * 1_536).settings
    hub = await world.reopened()
    assert held(hub.retained) == ["a", "b"]
    hub.retained.set(message(1, b"", "c"))  # cleared meanwhile
    hub.retained.remove("a")
    hub.retained.set(kib(1, "d"))  # and replaced
    newest = hub.retained.get("d")
    await hub.apply(quota(world, 3 * 1_536))
    assert held(hub.retained) == ["b", "d", "e"]
    assert hub.retained.get("d") is newest
    assert not hub.retained._left_out
    await hub.apply(quota(world, 1_536))
    assert held(hub.retained) == ["b", "d", "e"], "what is held stays until the hub opens again"


async def test_a_hub_that_holds_all_it_has_asks_for_no_more_when_settings_change(
    failing: tuple[World, Failing],
) -> None:
    world, kv = failing
    hub = world.hub()
    hub.retained.set(kib(1, "a"))
    await hub.apply(quota(world, 10_000))
    assert kv.scans == 0


async def test_a_store_that_fails_to_answer_keeps_no_settings_from_being_applied(
    failing: tuple[World, Failing],
) -> None:
    world, kv = failing
    kv.fails = False
    first = world.hub()
    for name in ("a", "b"):
        first.retained.set(kib(1, name))
    await first.close()
    world.settings = quota(world, 1_536).settings
    hub = await world.reopened()
    kv.fails_to_scan = True
    await hub.apply(quota(world, 20_000))
    assert held(hub.retained) == ["a"]
    kv.fails_to_scan = False
    await hub.apply(quota(world, 30_000))
    assert held(hub.retained) == ["a", "b"]


def test_looking_for_expired_messages_costs_a_few_looks_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tasks=NoTasks())
    retained = Retained("shop", world.env, 3_000)
    for number in range(3_000):
        retained.set(message(1, b"x", f"c:{number}"))
    world.clock.advance(15)
    looked = 0
    live = Retained._live

    def counted(self: Retained, each: Message) -> bool:
        nonlocal looked
        looked += 1
        return live(self, each)

    monkeypatch.setattr(Retained, "_live", counted)
    retained.set(message(1, b"x", "new"))
    assert 0 < looked <= 110
    for _ in range(99):
        retained.set(message(1, b"x", "new"))
    assert 3_000 <= looked <= 100 * 110, "all have had their turn"


async def test_expired_messages_of_ever_new_channels_do_not_pile_up() -> None:
    """Seen: nothing but a look at the very channel, or a hundred thousand others, made one go."""
    world = World()
    retained = Retained("shop", world.env)
    for n in range(1_000):
        kept_ms = 10_000 if n % 10 else 60_000_000
        expires_ms = world.clock.wall_ms() + kept_ms
        retained.set(message(1, b"x", f"note:{n}", expires_ms=expires_ms))
        world.clock.advance(1)
        assert len(retained) <= 2 * (n // 10 + 11)
        await world.settle()
