"""Idempotency keys are bounded in bytes, per hub and per node: those go early that would be first to go."""

from dataclasses import replace

import msgspec
import pytest

from arauto.errors import Code, StorageError
from arauto.hub.channel import Channel
from arauto.hub.continuity import Continuity
from arauto.hub.holdings import Pools
from arauto.hub.hub import Hub
from arauto.hub.idempotency import KEY_BYTES
from arauto.hub.share import Pool
from arauto.model import When
from arauto.settings import HubSettings, Quotas, Rules
from tests.unit.hub.world import SlowDisk, World

STORED = Rules(public=True, store=When.ALL)


def small_world(*, hub_keys: int = 0, node_keys: int = 0, rules: Rules | None = None) -> World:
    quotas = Quotas(idempotency_bytes_max=hub_keys * KEY_BYTES)
    world = World(settings=HubSettings(quotas=quotas), rules=rules or Rules(public=True))
    world.env = replace(world.env, pools=Pools(idempotency=Pool(node_keys * KEY_BYTES)))
    return world


def publish(world: World, channel: Channel, *keys: str) -> None:
    for key in keys:
        world.clock.advance(0.001)
        world.publish(channel, b"x", idempotency_key=key)


def known(world: World, channel: Channel, *keys: str) -> list[str]:
    """Those that a retry would still find; asking publishes nothing else, where all are known."""
    window = channel._keys
    now_ms = world.clock.wall_ms()
    return [key for key in keys if window is not None and window.find("", key, now_ms) is not None]


def held_len(hub: Hub) -> int:
    """The keys that all channels hold, by looking at everything."""
    return sum(len(channel._keys or ()) for channel in hub.channels.values())


async def test_a_hub_over_its_bytes_forgets_its_oldest_keys_whatever_their_channel() -> None:
    world = small_world(hub_keys=20)
    hub = world.hub()
    old, busy = await hub.open_channel("old"), await hub.open_channel("busy")
    publish(world, old, "a", "b")
    publish(world, busy, *[f"k{n}" for n in range(18)])
    assert known(world, old, "a", "b") == ["a", "b"]
    publish(world, busy, "k18")
    assert known(world, old, "a", "b") == ["b"]
    publish(world, busy, "k19", "k20")
    assert known(world, old, "a", "b") == []
    assert known(world, busy, "k0", "k1", "k20") == ["k1", "k20"]
    assert hub.counters.keys_evicted == 3
    assert held_len(hub) * KEY_BYTES == hub.holdings.idempotency.used_bytes == 20 * KEY_BYTES


async def test_keys_that_hold_longer_stay_where_others_are_over_sooner() -> None:
    world = small_world(hub_keys=10)
    hub = world.hub()
    alerts, chat = await hub.open_channel("alerts"), await hub.open_channel("chat")
    alerts.apply_rules(msgspec.structs.replace(alerts.rules, idempotency_s=86_400.0))
    publish(world, alerts, "first", "second")
    publish(world, chat, *[f"k{n}" for n in range(50)])
    assert known(world, alerts, "first", "second") == ["first", "second"]
    assert held_len(hub) == 10


async def test_where_the_node_is_full_the_hub_with_the_most_keys_gives() -> None:
    world = small_world(node_keys=1_000)
    large, small = world.hub("large"), world.hub("small")
    for number in range(9):
        channel = await large.open_channel(f"c{number}")
        publish(world, channel, *[f"k{n}" for n in range(110)])
    theirs = await small.open_channel("c")
    keys = [f"k{n}" for n in range(50)]
    publish(world, theirs, *keys)
    assert known(world, theirs, *keys) == keys
    assert (small.counters.keys_evicted, large.counters.keys_evicted > 0) == (0, True)
    assert held_len(large) + held_len(small) <= 1_000
    assert world.env.pools.idempotency.granted_bytes <= 1_000 * KEY_BYTES


async def test_a_publication_without_a_key_takes_none_of_it() -> None:
    world = small_world()
    hub = world.hub()
    channel = await hub.open_channel("c")
    world.publish(channel, b"x", b"x")
    assert (channel._keys, hub.holdings.idempotency.used_bytes) == (None, 0)


async def test_what_fails_is_over_or_closes_gives_its_bytes_back() -> None:
    world = small_world(rules=STORED)
    disk = SlowDisk(world.clock)
    world.env = replace(world.env, storage=replace(world.env.storage, journal=disk))
    hub = world.hub()
    memory = hub.holdings.idempotency
    channel = await hub.open_channel("c")
    publish(world, channel, "fails", "a", "b")
    assert memory.used_bytes == 3 * KEY_BYTES
    disk.commit(1, StorageError(Code.STORAGE_FULL, "the disk is full"))
    disk.commit(2)
    assert memory.used_bytes == 2 * KEY_BYTES
    world.clock.advance(301)
    publish(world, channel, "c")
    disk.commit()
    assert memory.used_bytes == held_len(hub) * KEY_BYTES == KEY_BYTES
    await channel.close()
    assert memory.used_bytes == 0
    await hub.close()
    pool = world.env.pools.idempotency
    assert (pool.granted_bytes, pool.shares) == (0, {})


async def test_keys_that_are_over_make_room_and_do_not_count_as_early() -> None:
    """On a channel where nothing happens, nobody has looked at them."""
    world = small_world(hub_keys=10)
    hub = world.hub()
    quiet, busy = await hub.open_channel("quiet"), await hub.open_channel("busy")
    publish(world, quiet, *[f"k{n}" for n in range(8)])
    world.clock.advance(301)
    publish(world, busy, *[f"k{n}" for n in range(10)])
    assert hub.counters.keys_evicted == 0
    assert known(world, busy, "k0", "k9") == ["k0", "k9"]


async def test_a_channel_that_opens_reads_back_no_more_keys_than_there_is_room_for() -> None:
    world = small_world(rules=STORED)
    publish(world, await world.channel(), *[f"k{n}" for n in range(100)])
    await world.settle()
    world.settings = HubSettings(quotas=Quotas(idempotency_bytes_max=10 * KEY_BYTES))
    hub = await world.reopened()
    channel = await hub.open_channel("c")
    assert known(world, channel, "k89", "k90", "k99") == ["k90", "k99"]
    assert hub.holdings.idempotency.used_bytes == 10 * KEY_BYTES


async def test_a_channel_that_cannot_open_gives_back_the_keys_it_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = small_world(rules=STORED)
    publish(world, await world.channel(), "a", "b")
    hub = await world.reopened()

    async def fail(*_: object) -> None:
        raise StorageError(Code.STORAGE_FULL, "the disk is full")

    monkeypatch.setattr(Continuity, "note", fail)
    with pytest.raises(StorageError):
        await hub.open_channel("c")
    assert hub.holdings.idempotency.used_bytes == 0


async def test_a_moved_channels_keys_count_where_it_goes() -> None:
    world = small_world()
    channel = await world.channel("c", world.hub())
    publish(world, channel, "a", "b")
    there = world.hub()
    moved = Channel(there, "c")
    moved.import_state(channel.export_state())
    assert known(world, moved, "a", "b") == ["a", "b"]
    assert there.holdings.idempotency.used_bytes == 2 * KEY_BYTES
