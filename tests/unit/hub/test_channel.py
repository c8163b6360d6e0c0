"""One channel: serials that only grow, durable before delivered, and one outcome per idempotency key."""

import asyncio
import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arauto.codec.events import Echo, PublishItem
from arauto.errors import Code, StorageError
from arauto.hub.channel import Channel
from arauto.hub.environment import HubLimits
from arauto.hub.recovery import Recovery
from arauto.hub.refusals import Asker
from arauto.hub.sender import ADMINISTRATORS, Sender
from arauto.model import Serial, When
from arauto.settings import Rules
from arauto.storage.memory import MemoryKeyValueStore, open_memory
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import OTHER_FORMAT, NoTasks, Outcome, Reader, SlowDisk, World, join

STORED = Rules(public=True, store=When.ALL)
MARKED = Rules(public=True, store=When.MARKED)
PLAIN = Rules(public=True)
FULL = StorageError(Code.STORAGE_FULL, "the disk is full")


def a_stored_world(rules: Rules = STORED, **limits: int) -> tuple[World, SlowDisk]:
    clock = FakeClock()
    disk = SlowDisk(clock)
    return World(rules=rules, clock=clock, journal=disk, limits=HubLimits(**limits)), disk


class ChannelOnASlowDisk(RuleBasedStateMachine):
    """Publishing, marked and not, while commits finish or fail late and rules change."""

    @initialize(rules=st.sampled_from([STORED, MARKED, PLAIN]))
    def start(self, rules: Rules) -> None:
        self.clock = FakeClock()
        self.disk = SlowDisk(self.clock)
        self.world = World(rules=rules, clock=self.clock, journal=self.disk, tasks=NoTasks())
        hub = self.world.hub()
        self.channel = Channel(hub, "c")
        self.channel.open_now()
        self.channel.start_epoch()
        self.readers = [Reader(hub, "a"), Reader(hub, "b", format=OTHER_FORMAT)]
        join(self.channel, *self.readers)
        self.published: list[tuple[bytes, Outcome]] = []
        self.failed: set[bytes] = set()
        self.given: list[Serial] = []
        self.number = 0

    @rule(marked=st.booleans(), count=st.integers(1, 3))
    def publish(self, marked: bool, count: int) -> None:
        for _ in range(count):
            self.number += 1
            payload = b"%d" % self.number
            [outcome] = self.world.publish(self.channel, payload, store=marked)
            self.published.append((payload, outcome))
            serial = Serial(self.channel.epoch, self.channel.offset)
            # The place of a message that was refused may go to the next one; no other is given twice.
            kept = [s for (p, _), s in zip(self.published, self.given) if p not in self.failed]  # noqa: B905
            assert not kept or serial > kept[-1]
            self.given.append(serial)

    @rule(count=st.integers(1, 4))
    def the_disk_commits(self, count: int) -> None:
        self.disk.commit(count)

    @rule(count=st.integers(1, 2))
    def the_disk_refuses(self, count: int) -> None:
        for entry, _ in self.disk.waiting[:count]:
            self.failed.add(entry.payload)
        self.disk.commit(count, FULL)

    @precondition(lambda self: self.disk.waiting)
    @rule()
    def the_disk_refuses_the_newest_first(self) -> None:
        payload = self.disk.waiting[-1][0].payload
        self.failed.add(payload)
        self.disk.refuse_newest(FULL)
        assert self.published[int(payload) - 1][1].error is FULL, "nobody waits to hear bad news"

    @rule(rules=st.sampled_from([STORED, MARKED, PLAIN]))
    def the_rules_change(self, rules: Rules) -> None:
        before = self.channel.epoch
        flips = (self.channel.rules.store is When.ALL) != (rules.store is When.ALL)
        self.channel.apply_rules(rules)
        assert (self.channel.epoch > before) == flips
        assert bool(self.channel.epoch & 1) == (rules.store is When.ALL)

    @rule()
    def the_turn_ends(self) -> None:
        self.clock.run_soon()

    @rule(seconds=st.floats(0, 5))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(ms=st.integers(-5_000, 5_000))
    def the_wall_clock_is_set(self, ms: int) -> None:
        self.clock.jump_wall(ms)

    @invariant()
    def what_waits_for_the_disk_is_neither_answered_nor_delivered(self) -> None:
        if not hasattr(self, "disk"):
            return
        waiting = {entry.payload for entry, _ in self.disk.waiting}
        for payload, outcome in self.published:
            assert not (payload in waiting and outcome.is_in)
        assert not waiting.intersection(self.readers[0].payloads)

    @invariant()
    def the_place_of_the_channel_is_the_last_message_delivered(self) -> None:
        if not hasattr(self, "disk"):
            return
        for payload, outcome in self.published:
            if not outcome.is_in and payload not in self.failed:
                # Everything up to the channel's place is behind us; this one is not.
                serial = self.given[int(payload) - 1]
                assert serial > self.channel.serial

    def teardown(self) -> None:
        if not hasattr(self, "disk"):
            return
        self.disk.commit(len(self.disk.waiting))
        self.clock.run_soon()
        kept = [payload for payload, _ in self.published if payload not in self.failed]
        for reader in self.readers:
            assert reader.payloads == kept
            assert reader.serials == sorted(set(reader.serials))
        for (payload, outcome), serial in zip(self.published, self.given, strict=True):
            if payload in self.failed:
                assert outcome.error.code is Code.STORAGE_FULL
            else:
                assert outcome.serial == serial


TestChannelOnASlowDisk = ChannelOnASlowDisk.TestCase
TestChannelOnASlowDisk.settings = settings(max_examples=150, stateful_step_count=30)


async def test_a_message_that_could_not_be_stored_is_refused_and_never_delivered() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    outcomes = world.publish(channel, b"1", b"2", b"3")
    disk.commit(1)
    disk.commit(1, FULL)
    disk.commit(1)
    world.clock.run_soon()
    assert reader.payloads == [b"1", b"3"]
    assert outcomes[1].error is FULL
    assert outcomes[0].serial < outcomes[2].serial
    assert [m.payload for m in channel.recent_after(0)] == [b"1", b"3"]


async def test_messages_behind_one_that_is_being_stored_wait_for_it() -> None:
    world, disk = a_stored_world(MARKED)
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    [stored] = world.publish(channel, b"stored", store=True)
    [plain] = world.publish(channel, b"plain")
    world.clock.run_soon()
    assert reader.payloads == []
    assert not plain.is_in
    disk.commit()
    world.clock.run_soon()
    assert reader.payloads == [b"stored", b"plain"]
    assert stored.serial < plain.serial


async def test_what_waits_behind_a_slow_disk_is_bounded_marked_or_not() -> None:
    world, _ = a_stored_world(MARKED, stored_inflight_max=3)
    channel = await world.channel()
    world.publish(channel, b"stored", store=True)
    outcomes = world.publish(channel, *(b"plain" for _ in range(5)))
    assert [outcome.is_in for outcome in outcomes] == [False, False, True, True, True]
    assert outcomes[-1].error.code is Code.TOO_MANY_PENDING


async def test_what_is_refused_behind_a_commit_in_doubt_does_not_fill_the_queue() -> None:
    world, disk = a_stored_world(stored_inflight_max=3)
    channel = await world.channel()
    [in_doubt] = world.publish(channel, b"in doubt")
    for _ in range(10):
        [refused] = world.publish(channel, b"later")
        disk.refuse_newest(FULL)
        assert refused.error is FULL
    assert not in_doubt.is_in
    disk.commit()
    assert in_doubt.serial is not None


async def test_a_retry_while_the_first_attempt_is_on_its_way_shares_its_outcome() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    first, again = Outcome(), Outcome()
    draft = PublishItem(channel="c", payload=b"x", idempotency_key="k")
    for outcome in (first, again):
        channel.publish(draft, Sender(user="ann"), outcome)
    assert not first.is_in
    assert not again.is_in
    disk.commit()
    world.clock.run_soon()
    assert first.answers == [(first.serial, False, None)]
    assert again.answers == [(first.serial, True, None)]
    assert reader.payloads == [b"x"]


async def test_a_retry_after_a_failed_attempt_is_a_new_attempt() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    draft = PublishItem(channel="c", payload=b"x", idempotency_key="k")
    first, shared, later = Outcome(), Outcome(), Outcome()
    channel.publish(draft, Sender(user="ann"), first)
    channel.publish(draft, Sender(user="ann"), shared)
    disk.commit(1, FULL)
    assert first.error is FULL
    assert shared.error is FULL
    channel.publish(draft, Sender(user="ann"), later)
    disk.commit()
    world.clock.run_soon()
    assert later.answers == [(later.serial, False, None)]
    assert reader.payloads == [b"x"]


async def test_two_users_may_use_the_same_idempotency_key() -> None:
    world = World()
    channel = await world.channel()
    serials = []
    for user in ("ann", "bob", ""):
        [outcome] = world.publish(channel, b"x", sender=Sender(user=user), idempotency_key="k")
        serials.append(outcome.serial)
    assert len(set(serials)) == 3


ADMINISTRATOR = Sender(origin=Asker(transport=ADMINISTRATORS, address="10.0.0.7").origin)


@pytest.mark.parametrize("stranger", [Sender(session="s1"), Sender(origin="http 10.0.0.7")])
async def test_a_stranger_cannot_use_up_an_administrators_idempotency_key(stranger: Sender) -> None:
    world = World()
    channel = await world.channel()
    serials = []
    for sender in (stranger, ADMINISTRATOR):
        [outcome] = world.publish(channel, b"x", sender=sender, idempotency_key="alert-1")
        serials.append(outcome.serial)
    assert len(set(serials)) == 2
    elsewhere = Sender(origin=Asker(transport=ADMINISTRATORS, address="10.0.0.8").origin)
    [again] = world.publish(channel, b"x", sender=elsewhere, idempotency_key="alert-1")
    assert again.answers == [(serials[1], True, None)]


async def test_administrators_have_keys_of_their_own_after_a_restart_too() -> None:
    world = World(rules=STORED)
    hub = world.hub()
    channel = await hub.open_channel("c")
    [theirs] = world.publish(channel, b"x", sender=Sender(session="s1"), idempotency_key="theirs")
    [ours] = world.publish(channel, b"x", sender=ADMINISTRATOR, idempotency_key="ours")
    await world.settle()
    again = await world.channel("c", await world.reopened())
    assert ours.serial != theirs.serial
    for key, sender, first in (
        ("theirs", Sender(session="s2"), theirs),
        ("ours", ADMINISTRATOR, ours),
    ):
        [retry] = world.publish(again, b"x", sender=sender, idempotency_key=key)
        assert retry.answers == [(first.serial, True, None)]
    [new] = world.publish(again, b"x", sender=ADMINISTRATOR, idempotency_key="theirs")
    await world.settle()
    assert not new.answers[0][1]


async def test_an_administrators_publication_that_fails_frees_its_key() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    [first] = world.publish(channel, b"x", sender=ADMINISTRATOR, idempotency_key="k")
    disk.commit(1, FULL)
    assert first.error is FULL
    [again] = world.publish(channel, b"x", sender=ADMINISTRATOR, idempotency_key="k")
    disk.commit()
    assert again.answers == [(again.serial, False, None)]


async def test_a_key_is_forgotten_when_its_time_is_over() -> None:
    world = World(rules=Rules(idempotency_s=10))
    channel = await world.channel()
    [first] = world.publish(channel, b"x", idempotency_key="k")
    world.clock.advance(9.5)
    [again] = world.publish(channel, b"x", idempotency_key="k")
    assert again.answers == [(first.serial, True, None)]
    world.clock.advance(1)
    [later] = world.publish(channel, b"x", idempotency_key="k")
    assert later.serial > first.serial


async def test_a_stored_channel_goes_on_where_it_stopped_and_knows_its_keys() -> None:
    world = World(rules=STORED)
    hub = world.hub()
    channel = await hub.open_channel("c")
    outcomes = world.publish(channel, b"1", b"2", idempotency_key="")
    [keyed] = world.publish(channel, b"3", idempotency_key="k")
    again = await (await world.reopened()).open_channel("c")
    assert again.serial == keyed.serial
    assert [m.payload for m in again.recent_after(0)] == [b"1", b"2", b"3"]
    [retry] = world.publish(again, b"3", idempotency_key="k")
    assert retry.answers == [(keyed.serial, True, None)]
    [new] = world.publish(again, b"4")
    await world.settle()
    assert new.serial == Serial(outcomes[0].serial.epoch, 4)


async def test_a_stored_channel_that_nobody_published_to_keeps_its_place_as_well() -> None:
    """Who waits for the first message of a channel must not miss it for a restart."""
    world = World(rules=STORED)
    seen = (await world.hub().open_channel("c")).serial
    again = await (await world.reopened()).open_channel("c")
    assert again.serial == seen
    world.publish(again, b"1", b"2")
    await world.settle()
    assert again.serial == Serial(seen.epoch, 2)
    assert again.recovery_from(seen) is not Recovery.IMPOSSIBLE
    once_more = await (await world.reopened()).open_channel("c")
    assert once_more.serial == Serial(seen.epoch, 2)


async def test_an_empty_epoch_goes_on_behind_stored_ones_but_not_behind_what_was_not_stored() -> (
    None
):
    world = World(rules=STORED)
    channel = await world.hub().open_channel("c")
    world.publish(channel, b"1")
    await world.settle()
    channel.apply_rules(PLAIN)
    channel.apply_rules(STORED)
    await world.settle()
    empty = channel.serial
    again = await (await world.reopened()).open_channel("c")
    assert again.serial == empty
    again.apply_rules(PLAIN)
    await world.settle()
    [unseen] = world.publish(again, b"2")
    assert unseen.is_in
    world.rules = STORED
    world.clock.advance(1)
    last = await (await world.reopened()).open_channel("c")
    assert last.epoch > again.epoch
    assert last.recovery_from(empty) is Recovery.IMPOSSIBLE
    other = World(rules=STORED, storage=world.storage, clock=world.clock)
    other.rules = Rules(public=True, store=When.ALL, store_s=60)
    world.clock.advance(1)
    kept_for_a_time = await (await other.reopened()).open_channel("c")
    assert kept_for_a_time.epoch > last.epoch


async def test_a_partly_stored_channel_starts_a_new_epoch_when_it_opens_again() -> None:
    world = World(rules=MARKED)
    channel = await world.hub().open_channel("c")
    world.publish(channel, b"1", store=True)
    await world.settle()
    world.publish(channel, b"2")
    seen = channel.serial
    again = await (await world.reopened()).open_channel("c")
    assert again.epoch > seen.epoch
    assert again.recovery_from(seen) is Recovery.IMPOSSIBLE


async def test_an_epoch_never_goes_back_even_if_the_wall_clock_does() -> None:
    world = World(rules=STORED)
    channel = await world.hub().open_channel("c")
    world.publish(channel, b"1")
    await world.settle()
    world.clock.jump_wall(-3_600_000)
    channel.apply_rules(PLAIN)
    first = channel.epoch
    channel.apply_rules(STORED)
    assert channel.epoch > first
    world.publish(channel, b"2")
    await world.settle()
    world.clock.jump_wall(-3_600_000)
    again = await (await world.reopened()).open_channel("c")
    assert again.epoch == channel.epoch


@pytest.mark.parametrize("open_meanwhile", [True, False])
async def test_a_stored_epoch_does_not_go_on_if_another_one_lay_in_between(
    open_meanwhile: bool,
) -> None:
    """The store knows nothing of messages that were published while nothing was stored."""
    world = World(rules=STORED)
    channel = await world.hub().open_channel("c")
    [seen] = world.publish(channel, b"stored")
    await world.settle()
    world.rules = PLAIN
    world.clock.advance(1)
    if open_meanwhile:
        channel.apply_rules(PLAIN)
    else:
        channel = await (await world.reopened()).open_channel("c")
    world.publish(channel, b"not stored")
    await world.settle()
    world.clock.advance(1)
    world.rules = STORED
    again = await (await world.reopened()).open_channel("c")
    assert again.epoch > channel.epoch
    assert again.recovery_from(seen.serial) is Recovery.IMPOSSIBLE


async def test_the_time_of_messages_never_goes_back_within_a_channel() -> None:
    world = World()
    channel = await world.channel()
    world.publish(channel, b"1")
    world.clock.jump_wall(-60_000)
    world.publish(channel, b"2")
    first, second = channel.recent_after(0)
    assert second.ts_ms >= first.ts_ms


async def test_live_history_holds_one_epoch_only_also_when_old_messages_come_late() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    world.publish(channel, b"old")
    channel.apply_rules(PLAIN)
    world.publish(channel, b"new")
    disk.commit()
    await world.settle()
    assert [m.payload for m in channel.recent_after(0)] == [b"new"]
    assert channel.recovery_from(Serial(channel.epoch, 0)) is Recovery.FROM_MEMORY


async def test_nothing_is_promised_about_an_epoch_that_is_over() -> None:
    """Between two epochs the channel's place is still in the first, and memory holds none of it."""
    world, disk = a_stored_world()
    channel = await world.channel()
    world.publish(channel, b"1", b"2")
    disk.commit(2)
    seen = Serial(channel.epoch, 1)
    world.publish(channel, b"3")
    channel.apply_rules(PLAIN)
    assert channel.serial == Serial(seen.epoch, 2)
    assert channel.recovery_from(seen) is Recovery.IMPOSSIBLE


@pytest.mark.parametrize(
    ("echo", "receivers"),
    [
        (Echo.ALL, ["s1", "s2", "s3"]),
        (Echo.NOT_SESSION, ["s2", "s3"]),
        (Echo.NOT_USER, ["s3"]),
    ],
)
async def test_a_publisher_can_keep_a_message_from_itself(echo: Echo, receivers: list[str]) -> None:
    world = World()
    hub = world.hub()
    channel = await hub.open_channel("c")
    readers = {}
    for id, user in (("s1", "ann"), ("s2", "ann"), ("s3", "bob")):
        readers[id] = Reader(hub, id)
        readers[id].subscriber.user = user
        hub.add_session(readers[id].subscriber)
        hub.know_user(readers[id].subscriber)
    join(channel, *readers.values())
    world.publish(channel, b"x", sender=Sender("s1", "ann"), echo=echo)
    world.clock.run_soon()
    assert [id for id, reader in readers.items() if reader.payloads] == receivers
    late = {id: Reader(hub, id) for id in readers}
    for id, reader in late.items():
        reader.subscriber.user = readers[id].subscriber.user
        channel.replay(reader.subscriber, channel.recent_after(0))
    world.clock.run_soon()
    assert [id for id, reader in late.items() if reader.payloads] == receivers


async def test_what_ends_while_it_waits_for_the_disk_is_acknowledged_and_not_delivered() -> None:
    world, disk = a_stored_world()
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    outcomes = [
        *world.publish(channel, b"short", ttl_ms=200),
        *world.publish(channel, b"exact", ttl_ms=1_200),
        *world.publish(channel, b"long", ttl_ms=1_201),
        *world.publish(channel, b"for good"),
    ]
    world.clock.advance(1.2)
    disk.commit(4)
    world.clock.run_soon()
    assert [outcome.serial.offset for outcome in outcomes] == [1, 2, 3, 4]
    assert reader.payloads == [b"long", b"for good"]
    assert channel.hub.counters.stored == 4
    back = Reader(channel.hub, "back")
    place = Serial(channel.epoch, 0)
    assert channel.recovery_from(place) is Recovery.FROM_MEMORY
    channel.replay(back.subscriber, channel.recent_after(0))
    world.clock.run_soon()
    assert back.payloads == [b"long", b"for good"]


async def test_what_ends_while_it_waits_behind_the_disk_is_not_delivered_either() -> None:
    world, disk = a_stored_world(MARKED)
    channel = await world.channel()
    reader = Reader(channel.hub)
    join(channel, reader)
    world.publish(channel, b"stored", store=True)
    [outcome] = world.publish(channel, b"short", ttl_ms=200)
    world.clock.advance(1)
    disk.commit()
    world.clock.run_soon()
    assert (outcome.serial.offset, reader.payloads) == (2, [b"stored"])


async def test_what_ends_while_it_waits_for_the_disk_replaces_what_was_retained_before() -> None:
    world, disk = a_stored_world(Rules(public=True, store=When.ALL, retain=When.ALL))
    channel = await world.channel()
    retained = channel.hub.retained
    world.publish(channel, b"before")
    disk.commit()
    assert retained.get("c") is not None
    world.publish(channel, b"short", ttl_ms=200)
    world.clock.advance(1)
    disk.commit()
    assert retained.get("c") is None


async def test_keys_of_messages_that_expired_are_still_known_after_a_restart() -> None:
    """Seen: a retry was delivered again because its first attempt had outlived its time to live."""
    world = World(rules=STORED)
    channel = await world.hub().open_channel("c")
    [first] = world.publish(channel, b"1", idempotency_key="k", ttl_ms=500)
    world.publish(channel, *(b"%d" % n for n in range(600)))
    await world.settle()
    world.clock.advance(2)
    again = await (await world.reopened()).open_channel("c")
    [retry] = world.publish(again, b"1", idempotency_key="k", ttl_ms=500)
    await world.settle()
    assert retry.answers == [(first.serial, True, None)]


class _Reluctant(MemoryKeyValueStore):
    """Deletes nothing until it may."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.may: asyncio.Event | None = asyncio.Event()
        self.refusals = 0

    async def delete(self, hub: str, key: str) -> bool:
        if self.may is None:
            self.refusals += 1
            raise StorageError(Code.STORAGE_UNAVAILABLE, "gone")
        await self.may.wait()
        return await super().delete(hub, key)


def a_reluctant_world() -> tuple[World, _Reluctant]:
    clock = FakeClock()
    kv = _Reluctant(clock)
    kept = open_memory(clock)
    return World(rules=STORED, clock=clock, storage=dataclasses.replace(kept, kv=kv)), kv


async def test_nothing_unstored_is_seen_before_the_store_no_longer_promises_all() -> None:
    """Seen: a crash right behind a change of rules let the stored epoch go on over one that was not."""
    world, kv = a_reluctant_world()
    channel = await world.hub().open_channel("c")
    reader = Reader(channel.hub)
    join(channel, reader)
    world.publish(channel, b"stored")
    await world.settle()
    channel.apply_rules(PLAIN)
    [outcome] = world.publish(channel, b"not stored")
    for _ in range(10):
        world.clock.run_soon()
        await asyncio.sleep(0)
    assert (reader.payloads, outcome.is_in, channel.serial.offset) == ([b"stored"], False, 0)
    assert kv.may is not None
    kv.may.set()
    await world.settle()
    assert (reader.payloads, outcome.is_in) == ([b"stored", b"not stored"], True)


async def test_who_publishes_while_the_store_cannot_take_its_promise_back_is_refused() -> None:
    world, kv = a_reluctant_world()
    kv.may = None
    channel = await world.hub().open_channel("c")
    await world.settle()
    channel.apply_rules(PLAIN)
    [refused] = world.publish(channel, b"1")
    await world.settle()
    assert refused.error.code is Code.STORAGE_UNAVAILABLE
    [taken] = world.publish(channel, b"2")
    kv.may = asyncio.Event()
    kv.may.set()
    world.clock.advance(1.5)
    await world.settle()
    assert (taken.serial.offset, kv.refusals) == (1, 1)


async def test_a_channel_opens_unstored_only_once_the_store_has_taken_its_promise_back() -> None:
    world, kv = a_reluctant_world()
    await world.hub().open_channel("c")
    await world.settle()
    world.rules = PLAIN
    hub = await world.reopened()
    assert hub.channel("other") is not None, "who was never stored waits for nobody"
    assert hub.channel("c") is None
    kv.may = None
    with pytest.raises(StorageError):
        await hub.open_channel("c")
