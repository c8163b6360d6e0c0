"""The wall clock jumps, as time servers and operators make it: order, epochs and recovery do not care."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.events import Publication
from arauto.hub.recovery import Recovery
from arauto.model import Serial, When
from arauto.settings import Rules
from tests.unit.hub.world import Reader, World, join

HOUR_MS = 3_600_000
OPEN = Rules(public=True, client_publish=True)
STORED = Rules(public=True, client_publish=True, store=When.ALL)
MARKED = Rules(public=True, client_publish=True, store=When.MARKED)

jumps = st.lists(st.integers(-2 * HOUR_MS, 2 * HOUR_MS), min_size=1, max_size=8)


async def serials_over(world: World, steps: list[int]) -> tuple[list[Serial], list[int]]:
    """Publish once before each jump and once after the last; return serials and times as delivered."""
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    for jump_ms in [*steps, 0]:
        world.publish(channel, b"x")
        await world.settle()
        world.clock.jump_wall(jump_ms)
    return reader.serials, [event.message.ts_ms for event in reader.of(Publication)]


@pytest.mark.parametrize("rules", [OPEN, STORED, MARKED], ids=["open", "stored", "marked"])
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS, -24 * HOUR_MS])
async def test_serials_and_times_of_a_running_channel_never_go_back(
    rules: Rules, jump_ms: int
) -> None:
    serials, times = await serials_over(World(rules=rules), [jump_ms, 0, -jump_ms])
    assert [serial.offset for serial in serials] == [1, 2, 3, 4]
    assert len({serial.epoch for serial in serials}) == 1
    assert times == sorted(times)


@pytest.mark.parametrize("rules", [STORED, MARKED], ids=["stored", "marked"])
@given(steps=jumps)
async def test_serials_never_go_back_over_restarts_whatever_the_clock_says(
    rules: Rules, steps: list[int]
) -> None:
    world = World(rules=rules)
    given_out: list[Serial] = []
    for jump_ms in steps:
        hub = await world.reopened()
        channel = await world.channel(hub=hub)
        outcomes = world.publish(channel, b"x", b"y", store=True)
        await world.settle()
        given_out += [outcome.serial for outcome in outcomes]
        await hub.close()
        world.clock.jump_wall(jump_ms)
    assert given_out == sorted(set(given_out)), "no serial twice, and none below an earlier one"
    epochs = {serial.epoch for serial in given_out}
    assert len(epochs) == (1 if rules is STORED else len(steps))


async def test_a_message_that_expired_by_a_jump_is_not_handed_out() -> None:
    world = World()
    channel = await world.channel()
    world.publish(channel, b"short", ttl_ms=60_000, retain=True)
    await world.settle()
    world.clock.jump_wall(HOUR_MS)
    late = Reader(channel.hub)
    join(channel, late)
    await world.settle()
    assert late.payloads == []


async def test_live_history_that_aged_by_a_jump_is_a_hole_that_is_told() -> None:
    world = World()
    channel = await world.channel()
    outcomes = world.publish(channel, b"1", b"2", b"3")
    await world.settle()
    first = outcomes[0].serial
    assert channel.recovery_from(first) is Recovery.FROM_MEMORY
    world.clock.jump_wall(HOUR_MS)
    assert channel.recovery_from(first) is Recovery.IMPOSSIBLE
    assert channel.recovery_from(outcomes[2].serial) is Recovery.NOTHING_MISSED


async def test_a_jump_back_keeps_live_history_and_idempotency_keys() -> None:
    world = World()
    channel = await world.channel()
    [first, _] = world.publish(channel, b"1", b"2", idempotency_key="")
    [keyed] = world.publish(channel, b"3", idempotency_key="k")
    await world.settle()
    world.clock.jump_wall(-HOUR_MS)
    assert channel.recovery_from(first.serial) is Recovery.FROM_MEMORY
    [again] = world.publish(channel, b"3", idempotency_key="k")
    await world.settle()
    assert again.answers == [(keyed.serial, True, None)]
