"""Live history is bounded in bytes, per hub and per node: the oldest goes, and recovery owns up to it."""

import sys
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.hub.channel import Channel
from arauto.hub.holdings import Pools
from arauto.hub.hub import Hub
from arauto.hub.recovery import Recovery
from arauto.hub.share import Pool, Share, size_of
from arauto.model import Message, Serial
from arauto.settings import HubSettings, Quotas
from tests.unit.hub.world import NoTasks, World, message

KIB = b"x" * 1_024
IMPOSSIBLE, FROM_MEMORY = Recovery.IMPOSSIBLE, Recovery.FROM_MEMORY


def small_world(*, hub_bytes: int = 0, node_bytes: int = 0) -> World:
    quotas = Quotas(live_history_bytes_max=hub_bytes)
    world = World(settings=HubSettings(quotas=quotas), tasks=NoTasks())
    world.env = replace(world.env, pools=Pools(live_history=Pool(node_bytes)))
    return world


def channel_of(hub: Hub, name: str) -> Channel:
    channel = hub.channel(name)
    assert channel is not None
    return channel


def held_bytes(hub: Hub) -> int:
    """What live history holds, by looking at everything."""
    return sum(size_of(m) for channel in hub.channels.values() for m in channel.recent_after(0))


def publish(world: World, channel: Channel, *payloads: bytes) -> None:
    world.clock.advance(0.001)
    world.publish(channel, *payloads)


def test_a_hub_over_its_bytes_forgets_its_oldest_messages_whatever_their_channel() -> None:
    world = small_world(hub_bytes=20 * 1_536)
    hub = world.hub()
    old, busy = channel_of(hub, "old"), channel_of(hub, "busy")
    publish(world, old, b"1" * 1_024, b"2" * 1_024)
    for _ in range(18):
        publish(world, busy, KIB)
    assert len(old.recent_after(0)) == 2
    publish(world, busy, KIB)
    assert [m.offset for m in old.recent_after(0)] == [2]
    for _ in range(3):
        publish(world, busy, KIB)
    assert list(old.recent_after(0)) == []
    assert [m.offset for m in busy.recent_after(0)] == list(range(3, 23))
    assert hub.counters.history_evicted == 4
    assert held_bytes(hub) == hub.holdings.live_history.used_bytes == 20 * 1_536


def test_recovery_knows_what_went_for_lack_of_bytes() -> None:
    world = small_world(hub_bytes=4 * 1_536)
    channel = channel_of(world.hub(), "c")
    publish(world, channel, *[KIB] * 10)
    assert channel.recent_floor == 6
    places = [Serial(channel.epoch, offset) for offset in (5, 6)]
    assert [channel.recovery_from(place) for place in places] == [IMPOSSIBLE, FROM_MEMORY]


def test_a_message_larger_than_the_quota_is_delivered_and_not_remembered() -> None:
    world = small_world(hub_bytes=2_000)
    hub = world.hub()
    channel = channel_of(hub, "c")
    outcome = world.publish(channel, b"x" * 5_000)[0]
    assert outcome.serial.offset == 1
    assert (list(channel.recent_after(0)), channel.recent_floor) == ([], 1)
    publish(world, channel, b"small")
    assert [m.offset for m in channel.recent_after(0)] == [2]


def test_where_the_node_is_full_the_hub_that_holds_the_most_gives() -> None:
    world = small_world(node_bytes=400 * 1_536)
    large, small = world.hub("large"), world.hub("small")
    for number in range(4):
        publish(world, channel_of(large, f"c{number}"), *[KIB] * 100)
    publish(world, channel_of(small, "c"), *[KIB] * 10)
    assert len(channel_of(small, "c").recent_after(0)) == 10
    assert (small.counters.history_evicted, large.counters.history_evicted > 0) == (0, True)
    assert held_bytes(large) + held_bytes(small) <= 400 * 1_536
    assert world.env.pools.live_history.granted_bytes <= 400 * 1_536


def test_headers_count() -> None:
    plain, headed = message(1), message(1, headers={"a": "x" * 1_000})
    assert size_of(headed) - size_of(plain) > 1_000


def memory_of(message: Message) -> int:
    """What Python takes for a message that has been encoded, each part rounded up."""
    msgspec.json.encode(message)
    headers = message.headers
    parts: list[object] = [
        message,
        message.payload,
        message.offset,
        message.ts_ms,
        message.expires_ms,
    ]
    parts += [
        text for text in (message.id, message.key, message.exclude, message.content_type) if text
    ]
    if headers is not None:
        parts += [headers, *headers, *headers.values()]
    return sum(-(-sys.getsizeof(part) // 16) * 16 for part in parts)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"content_type": "x" * 127, "expires_ms": 2**40}, id="a-long-content-type"),
        pytest.param({"id": "i" * 128, "key": "k" * 255}, id="long-keys"),
        pytest.param({"id": "\N{GRINNING FACE}" * 32}, id="an-id-of-emoji"),
        pytest.param({"key": "\N{GRINNING FACE}" + "k" * 251}, id="a-key-with-an-emoji"),
        pytest.param({"key": "é" * 127}, id="a-latin-key"),
        pytest.param({"exclude": "u:" + "\N{SNOWMAN}" * 85}, id="excluding-a-user"),
        pytest.param({"headers": {f"h{number}": "1" for number in range(32)}}, id="tiny-headers"),
        pytest.param(
            {"headers": {"a": "\N{GRINNING FACE}" * 2_000}, "content_type": "x" * 127},
            id="wide-header",
        ),
    ],
)
def test_a_message_is_counted_with_what_it_takes_or_more(fields: dict[str, Any]) -> None:
    held = message(2**29, **fields)
    assert memory_of(held) <= size_of(held) <= 2.5 * memory_of(held)


def test_messages_with_keys_that_come_and_go_leave_nothing_counted() -> None:
    world = small_world()
    hub = world.hub()
    channel = channel_of(hub, "a")
    channel.apply_rules(msgspec.structs.replace(channel.rules, live_history_len=3))
    for length in (0, 100, 7, 0, 50, 50, 3):
        world.clock.advance(0.001)
        world.publish(channel, b"x", key="é" * length, idempotency_key=f"{length}" * length)
        assert hub.holdings.live_history.used_bytes == held_bytes(hub)


async def test_what_closes_expires_or_is_lowered_gives_its_bytes_back() -> None:
    world = small_world(hub_bytes=1_000_000, node_bytes=2_000_000)
    hub = world.hub()
    share, pool = hub.holdings.live_history, world.env.pools.live_history
    for name in ("a", "b"):
        publish(world, channel_of(hub, name), *[KIB] * 50)
    before_bytes = share.used_bytes
    assert before_bytes == held_bytes(hub) > 0
    a = channel_of(hub, "a")
    a.apply_rules(msgspec.structs.replace(a.rules, live_history_len=10))
    assert share.used_bytes == held_bytes(hub) == 60 * 1_536
    world.clock.advance(301)
    assert channel_of(hub, "b").recent_floor == 50
    assert held_bytes(hub) == share.used_bytes == 0
    await hub.close()
    assert (share.used_bytes, pool.granted_bytes, pool.shares) == (0, 0, {})


def test_a_lowered_quota_is_reached_again() -> None:
    world = small_world(hub_bytes=0)
    hub = world.hub()
    channel = channel_of(hub, "c")
    publish(world, channel, *[KIB] * 50)
    hub.holdings.set_limits(Quotas(live_history_bytes_max=10 * 1_536))
    publish(world, channel, KIB)
    assert len(channel.recent_after(0)) == 10


def test_many_channels_cost_the_same_as_few_where_the_hub_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in messages that go: one for one, however many channels there are."""
    world = small_world(hub_bytes=3_000 * 1_536)
    hub = world.hub()
    for number in range(3_000):
        publish(world, channel_of(hub, f"c{number}"), KIB)
    looked = 0
    memory = hub.holdings.live_history
    fits = type(memory).fits

    def counted(self: Share) -> bool:
        nonlocal looked
        looked += 1
        return fits(self)

    monkeypatch.setattr(type(memory), "fits", counted)
    for _ in range(50):
        publish(world, channel_of(hub, "c0"), KIB)
    assert hub.counters.history_evicted == 50
    assert looked <= 50 * 3


def test_the_place_of_a_channel_that_closed_is_not_kept() -> None:
    world = small_world(hub_bytes=1_000_000)
    memory = world.hub().holdings.live_history
    for _ in range(1_000):
        recent = channel_of(world.hub(), "c").feature("live_history")
        memory.leave(memory.enter(recent, 1))  # type: ignore[arg-type]
    assert len(memory._heap) < 200


@given(st.lists(st.integers(-3_000, 3_000), max_size=200), st.integers(1, 40_000))
def test_a_pool_never_grants_more_than_it_has(changes: list[int], limit_bytes: int) -> None:
    pool = Pool(limit_bytes)
    shares = [Share(pool, 20_000), Share(pool)]
    for index, change in enumerate(changes):
        share = shares[index % 2]
        if change >= 0:
            share.take(change)
        else:
            share.give(min(-change, share.used_bytes))
        assert all(each.used_bytes <= each.granted_bytes for each in shares)
        assert pool.granted_bytes == sum(each.granted_bytes for each in shares) <= limit_bytes
        assert shares[0].granted_bytes <= 20_000
    for share in shares:
        share.close()
    assert (pool.granted_bytes, pool.shares) == (0, {})
