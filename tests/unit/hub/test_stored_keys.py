"""Idempotency keys of stored messages outlive a restart, whatever the rules say of storing since."""

import msgspec
import pytest

from arauto.errors import Code, StorageError
from arauto.hub import stored_keys
from arauto.hub.channel import Channel
from arauto.model import Message, When
from arauto.settings import Rules
from arauto.storage.base import HistoryQuery, LastPlace
from arauto.storage.memory import MemoryJournal
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import LIMITS, Outcome, World

ALL = Rules(public=True, client_publish=True, store=When.ALL)
MARKED = Rules(public=True, client_publish=True, store=When.MARKED)
NEVER = Rules(public=True, client_publish=True, store=When.NEVER)


class CountingJournal(MemoryJournal):
    """Counts the questions to the store."""

    asked = 0
    looked = 0
    fails = False

    async def places(
        self, hub: str, names: tuple[str, str], after_ms: int, *, scan_len: int
    ) -> dict[str, LastPlace] | None:
        self.looked += 1
        if self.fails:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the store is away")
        return await super().places(hub, names, after_ms, scan_len=scan_len)

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        self.asked += 1
        return await super().last(hub, channel)

    async def history(self, query: HistoryQuery) -> list[Message]:
        self.asked += 1
        return await super().history(query)


def retry(world: World, channel: Channel, key: str = "k") -> Outcome:
    [outcome] = world.publish(channel, b"x", idempotency_key=key, store=True)
    return outcome


@pytest.mark.parametrize("rules", [ALL, MARKED])
@pytest.mark.parametrize("live", [False, True], ids=["restart", "live, then restart"])
async def test_keys_hold_under_rules_that_do_not_store(rules: Rules, live: bool) -> None:
    world = World(rules=rules)
    hub = world.hub()
    channel = await hub.open_channel("c")
    first = retry(world, channel)
    await world.settle()
    world.rules = NEVER
    if live:
        await hub.apply(world.state())
        await world.settle()
        assert retry(world, channel).answers == [(first.serial, True, None)]
    again = await world.channel("c", await world.reopened())
    assert retry(world, again).answers == [(first.serial, True, None)]
    assert not retry(world, again, "another").answers[0][1]


async def test_keys_hold_where_storing_is_switched_on_again_while_the_channel_is_open() -> None:
    world = World(rules=ALL)
    first = retry(world, await world.channel())
    await world.settle()
    world.rules = NEVER
    hub = await world.reopened()
    channel = await world.channel("c", hub)
    world.rules = ALL
    await hub.apply(world.state())
    await world.settle()
    assert retry(world, channel).answers == [(first.serial, True, None)]


async def test_keys_hold_in_a_hub_that_was_closed_and_made_anew() -> None:
    world = World(rules=ALL)
    hub = world.hub()
    first = retry(world, await hub.open_channel("c"))
    await world.settle()
    await hub.close()
    world.rules = NEVER
    again = await world.channel("c", await world.reopened())
    assert retry(world, again).answers == [(first.serial, True, None)]


async def test_a_channel_that_was_never_stored_to_opens_without_a_question() -> None:
    clock = FakeClock()
    journal = CountingJournal(clock)
    world = World(rules=ALL, clock=clock, journal=journal)
    retry(world, await world.channel("stored"))
    await world.settle()
    world.rules = NEVER
    hub = await world.reopened()
    journal.asked = 0
    for n in range(100):
        assert hub.channel(f"c:{n}") is not None
    assert journal.asked == 0
    assert hub.channel("stored") is None
    await hub.open_channel("stored")
    assert journal.asked == 1


async def test_once_all_keys_are_over_no_channel_asks_for_them() -> None:
    world = World(rules=MARKED)
    retry(world, await world.channel())
    await world.settle()
    world.rules = Rules(public=True, client_publish=True, idempotency_s=10)
    world.clock.advance(9)
    hub = await world.reopened()
    assert hub.channel("c") is None
    world.clock.advance(10)
    assert hub.channel("c") is not None


def lasting(rules: Rules, seconds: float) -> Rules:
    return msgspec.structs.replace(rules, idempotency_s=seconds)


async def test_keys_hold_for_longer_as_soon_as_rules_say_so() -> None:
    """Seen: the hub knew only the channels that were stored to within what the rules said when it opened."""
    world = World(rules=lasting(ALL, 3))
    first = retry(world, await world.channel())
    await world.settle()
    world.clock.advance(4)
    hub = await world.reopened()
    for rules in (lasting(ALL, 300), lasting(NEVER, 300)):
        world.rules = rules
        await hub.apply(world.state())
    channel = await hub.open_channel("c")
    assert retry(world, channel).answers == [(first.serial, True, None)]


async def test_keys_hold_for_longer_of_what_was_stored_since_the_hub_opened() -> None:
    """By rules under which keys were forgotten soon, beside others with the longest time there is."""
    world = World(rules=lasting(ALL, 3))
    others = {"others": lasting(NEVER, 300)}
    hub = await world.reopened()
    await hub.apply(world.state(rules=others))
    first = retry(world, await hub.open_channel("c"))
    await world.settle()
    world.clock.advance(LIMITS.channel_close_s + 4)
    await hub.close_idle_channels()
    assert "c" not in hub.channels
    world.rules = lasting(NEVER, 300)
    await hub.apply(world.state(rules=others))
    channel = await hub.open_channel("c")
    assert retry(world, channel).answers == [(first.serial, True, None)]


async def test_settings_by_which_keys_hold_no_longer_than_before_ask_nothing() -> None:
    clock = FakeClock()
    journal = CountingJournal(clock)
    world = World(rules=ALL, clock=clock, journal=journal)
    hub = await world.reopened()
    journal.looked = 0
    for rules in ({}, {"same": ALL}, {"shorter": lasting(ALL, 10)}):
        await hub.apply(world.state(rules=rules))
    assert journal.looked == 0
    await hub.apply(world.state(rules={"longer": lasting(ALL, 600)}))
    assert journal.looked == 1


async def test_settings_that_need_keys_which_cannot_be_read_are_not_taken_yet() -> None:
    clock = FakeClock()
    journal = CountingJournal(clock)
    world = World(rules=lasting(ALL, 3), clock=clock, journal=journal)
    hub = await world.reopened()
    before, noted = hub.state, hub.continuity.keeping
    journal.fails = True
    clock.advance(1)
    with pytest.raises(StorageError):
        await hub.apply(world.state(builtin=lasting(NEVER, 300)))
    assert (hub.state, hub.continuity.keeping) == (before, noted)


async def test_where_too_many_were_stored_to_each_channel_asks_within_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_keys, "_CHANNELS_MAX", 3)
    world = World(rules=ALL)
    hub = world.hub()
    firsts = {}
    for n in range(5):
        firsts[n] = retry(world, await hub.open_channel(f"c:{n}"))
    await world.settle()
    world.rules = NEVER
    hub = await world.reopened()
    assert hub.channel("never seen") is None
    for n in range(5):
        again = await hub.open_channel(f"c:{n}")
        assert retry(world, again).answers == [(firsts[n].serial, True, None)]
    world.clock.advance(NEVER.idempotency_s)
    assert hub.channel("never seen") is not None
