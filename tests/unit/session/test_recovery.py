"""Never a silent hole, never a duplicate: who comes back has what it missed, or was told of a hole.

A generator plays whole histories against a node from the sessions down: publishing, commits that come
late, changed rules, channels and hubs that close when idle, restarts, kills, lost connections and
returns. Every subscription, by name, by pattern and of the topic tree, is held to one law: unless it
was told of a hole, it has every acknowledged message since it began, in order, once."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arauto.codec.events import (
    Ack,
    Publication,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
)
from arauto.hub.environment import HubLimits
from arauto.model import Identity, Message, Serial, When
from arauto.names import ALL_CHANNELS, is_wide, matches
from arauto.settings import NamespaceSettings, Rules
from arauto.storage.memory import open_memory
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import SlowDisk
from tests.unit.session.desk import Client, Desk, grants, publish

#: Small, so that memory and the recovery limit run out all the time.
LIMITS = HubLimits(recovery_len_max=12, channel_close_s=20, hub_close_s=60)
CHANNELS = ("room:1", "room:2", "hall", "/t/1")
NAMES = ("room:1", "room:*", "*", "#", "/t", "/t/1")


def rules_of(store: When, history_len: int, history_s: float) -> Rules:
    return Rules(
        public=True,
        client_publish=True,
        store=store,
        retain=When.NEVER,
        live_history_len=history_len,
        live_history_s=history_s,
    )


all_rules = st.builds(
    rules_of, st.sampled_from(list(When)), st.sampled_from([0, 2, 6]), st.sampled_from([0, 5])
)


class Held:
    """One subscription as its client sees it, across all its connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[str, Serial] = {}
        self.began = False
        self.has: dict[bytes, None] = {}
        self.excused: set[bytes] = set()
        """What it need not have, and may have."""

    def item(self) -> SubscribeItem:
        if not self.began:
            return SubscribeItem(channel=self.name)
        if is_wide(self.name):
            return SubscribeItem(channel=self.name, positions=dict(self.places))
        return SubscribeItem(channel=self.name, since=self.places.get(self.name))

    def covers(self, channel: str) -> bool:
        return matches(self.name, channel)

    def take(self, message: Message) -> None:
        place = self.places.get(message.channel)
        if self.covers(message.channel) and (place is None or message.serial > place):
            assert message.payload not in self.has, f"{message.payload!r} twice for {self.name}"
            self.places[message.channel] = message.serial
            self.has[message.payload] = None

    def answered(self, result: SubscribeResult, known: dict[bytes, str]) -> bool:
        """Take the node's answer; whether it was recovered. `known` is all that was ever published."""
        assert result.error is None, result.error
        now = dict(result.positions or {})
        if result.serial is not None:
            now[self.name] = result.serial
        if self.began and not result.recovered:
            lost = result.unrecovered if is_wide(self.name) else (self.name,)
            if is_wide(self.name) and self.name in lost:
                lost = CHANNELS
        else:
            lost = () if self.began else tuple(CHANNELS)
        for channel in lost:
            self.excused |= {payload for payload, where in known.items() if where == channel}
            self.places.pop(channel, None)
            if channel in now:
                self.places[channel] = now[channel]
        self.places.pop(ALL_CHANNELS, None)
        if ALL_CHANNELS in now:
            self.places[ALL_CHANNELS] = now[ALL_CHANNELS]
        asked, self.began = self.began, True
        return asked and result.recovered


class Scene:
    """A node that is restarted, killed and reconfigured, and a client that comes and goes."""

    def __init__(self, rules: Rules, *names: str) -> None:
        self.clock = FakeClock()
        self.disk = SlowDisk(self.clock)
        self.storage = open_memory(self.clock)
        self.rules = rules
        self.room_rules: Rules | None = None
        self.boots = 0
        self.desk: Desk
        self.publisher: Client
        self.client: Client | None = None
        self.key = ""
        self.asked: dict[int, tuple[str, list[bytes]]] = {}
        self.published: dict[bytes, str] = {}
        self.accepted: dict[bytes, str] = {}
        """What there was to receive, by the answers to the publisher, and where."""
        self.held = [Held(name) for name in names]
        self.recoveries = {True: 0, False: 0}

    async def boot(self) -> None:
        self.boots += 1
        self.desk = Desk(
            rules=self.rules,
            hub_limits=LIMITS,
            clock=self.clock,
            storage=self.storage,
            journal=self.disk,
            seed=self.boots,
        )
        self.desk.doorman.know("shop", b"ann", Identity(user="ann", grants=grants("*")))
        self.publisher = await self.desk.connect()
        await self.commit(100)

    async def commit(self, count: int) -> None:
        self.disk.commit(count)
        await self.desk.settle()
        for ack in self.publisher.take_all(Ack):
            channel, payloads = self.asked[ack.id]
            for payload, item in zip(payloads, ack.results, strict=True):
                if item.serial is not None:
                    self.accepted[payload] = channel
        self.read()

    async def refuse(self, count: int) -> None:
        """The disk is full for a moment."""
        from tests.unit.hub.test_channel import FULL

        self.disk.commit(count, FULL)
        await self.commit(0)

    async def publish(self, channel: str, count: int, marked: bool) -> None:
        id = len(self.asked) + 1
        payloads = [b"%d.%d" % (id, n) for n in range(count)]
        self.asked[id] = (channel, payloads)
        self.published |= dict.fromkeys(payloads, channel)
        await self.publisher.do(publish(channel, *payloads, id=id, store=marked))
        await self.commit(0)

    async def wait(self, seconds: float) -> None:
        await self.desk.advance(seconds, step_s=seconds)
        await self.commit(0)

    async def change_rules(self, rules: Rules) -> None:
        await self.desk.set("rules", "shop", "r", rules)
        await self.desk.set("namespace", "shop", "room", NamespaceSettings(rules="r"))
        await self.commit(0)

    async def restart(self) -> None:
        await self.commit(1_000)
        await self.leave()
        await self.desk.close()
        self.clock.advance(1)
        await self.boot()

    async def kill(self) -> None:
        """The process is gone from one moment to the next, with all that was not on the disk."""
        self.disk.waiting.clear()
        self.client = None
        old = self.desk
        old.directory._closed = True
        old.env.wheel.stop()
        await old.world.tasks.close()
        self.clock.advance(1)
        await self.boot()

    # --- the client --------------------------------------------------------------------------------

    def read(self) -> None:
        if self.client is None:
            return
        for event in self.client.take_all(Publication):
            for held in self.held:
                if held.began:
                    held.take(event.message)
        for key in self.client.take_all(RestoreKey):
            self.key = key.key

    async def leave(self) -> None:
        await self.commit(0)
        if self.client is not None:
            await self.client.drop()
            self.client = None

    async def come_back(self, restored: bool = False) -> None:
        client = await self.desk.connect(credentials=b"" if restored else b"ann")
        if restored and self.key:
            places = {
                channel: at
                for held in reversed(self.held)
                for channel, at in held.places.items()
                if channel != ALL_CHANNELS
            }
            # As the client does: where several cover a channel, the lowest place.
            for held in self.held:
                for channel in held.places.keys() & places.keys():
                    places[channel] = min(places[channel], held.places[channel])
            await client.do(RestoreRequest(id=5, key=self.key, positions=places))
            found = client.take_all(Restored)
            results = {r.channel: r for r in found[0].results} if found else {}
        else:
            results = {}
        asked = [held for held in self.held if held.name not in results]
        if asked:
            items = tuple(held.item() for held in asked)
            await client.do(SubscribeRequest(id=6, items=items))
            reply = client.take(SubscribeReply, lambda reply: reply.id == 6)
            results |= {r.channel: r for r in reply.results}
        once = [event.message.payload for event in client.inbox if isinstance(event, Publication)]
        assert len(once) == len(set(once)), "a session was sent a message twice"
        for held in self.held:
            was_here = held.began
            recovered = held.answered(results[held.name], self.published)
            if was_here:
                self.recoveries[recovered] += 1
        self.client = client
        self.read()

    def check(self) -> None:
        for held in self.held:
            owed = {p for p, channel in self.accepted.items() if held.covers(channel)}
            missing = owed - set(held.has) - held.excused
            assert not missing, f"a silent hole for {held.name}: {sorted(missing)}"


Step = tuple[Any, ...]
"""The name of a method of `Scene`, and its arguments."""

steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(CHANNELS), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("publish"), st.just("room:1"), st.sampled_from([1, 5, 14]), st.booleans()),
    st.tuples(st.just("commit"), st.sampled_from([1, 3, 30])),
    st.tuples(st.just("refuse"), st.sampled_from([1, 2])),
    st.tuples(st.just("wait"), st.sampled_from([1, 6, 30, 30, 90])),
    st.tuples(st.just("change_rules"), all_rules),
    st.tuples(st.just("restart")),
    st.tuples(st.just("kill")),
)
episodes = st.lists(
    st.tuples(st.lists(steps, max_size=3), st.lists(steps, max_size=4), st.booleans()), max_size=5
)
Played = list[tuple[list[Step], list[Step], bool]]


async def play(scene: Scene, played: Played) -> None:
    await scene.boot()
    await scene.come_back()
    for present, absent, restored in played:
        for name, *arguments in present:
            await getattr(scene, name)(*arguments)
            if scene.client is None:  # the node went away under it
                await scene.come_back()
        await scene.leave()
        for name, *arguments in absent:
            await getattr(scene, name)(*arguments)
        await scene.come_back(restored)
        await scene.commit(1_000)
        scene.check()
    await scene.desk.close()


@settings(max_examples=500)
@given(all_rules, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), episodes)
def test_a_client_that_returns_has_everything_or_was_told(
    rules: Rules, names: list[str], played: Played
) -> None:
    asyncio.run(play(Scene(rules, *names), played))


async def test_a_short_absence_is_made_good_from_memory_and_from_the_store() -> None:
    for store, history_len in ((When.NEVER, 10), (When.ALL, 0), (When.ALL, 3)):
        for name in ("room:1", "room:*"):
            scene = Scene(rules_of(store, history_len, 300), name)
            absence: list[Step] = [("publish", "room:1", 6, False), ("commit", 1_000)]
            await play(scene, [([], absence, False), ([], absence, False)])
            assert scene.recoveries == {True: 2, False: 0}, (store, history_len, name)


async def test_a_restart_is_made_good_where_everything_is_stored_and_told_where_not() -> None:
    for store, whole in ((When.ALL, True), (When.MARKED, False), (When.NEVER, False)):
        for name in ("room:1", "room:*", "/t"):
            for end in ("restart", "kill"):
                scene = Scene(rules_of(store, 10, 300), name)
                here: list[Step] = [("publish", c, 1, True) for c in ("room:1", "/t/1")]
                absence: list[Step] = [
                    *[("publish", c, 3, True) for c in ("room:1", "room:2", "/t/1")],
                    ("commit", 100),
                    (end,),
                ]
                await play(scene, [([*here, ("commit", 9)], absence, False)])
                assert scene.recoveries[whole] == 1, (store, name, end)


async def test_a_pattern_recovers_channels_that_came_and_went_while_nobody_looked() -> None:
    for store, whole in ((When.ALL, True), (When.NEVER, False)):
        for end in (("wait", 30), ("restart",), ("kill",)):
            scene = Scene(rules_of(store, 10, 300), "room:*")
            absence: list[Step] = [("publish", "room:2", 3, False), ("commit", 100), end]
            await play(scene, [([], absence, False)])
            assert scene.recoveries[whole] == 1, (store, end)


async def test_a_pattern_is_told_of_messages_in_an_epoch_that_ended_while_its_channel_stayed_open() -> (
    None
):
    """Seen: stored, then not: the open channel's place was taken for the end of all it had."""
    never, stored = rules_of(When.NEVER, 2, 0), rules_of(When.ALL, 0, 0)
    for end in ((), (("wait", 30), ("publish", "room:1", 1, False))):
        scene = Scene(never, "room:*")
        absence: list[Step] = [
            ("change_rules", stored),
            ("publish", "room:1", 1, False),
            ("commit", 30),
            ("change_rules", never),
            *end,
        ]
        await play(scene, [([], absence, False)])
        assert scene.recoveries == {True: 0, False: 1}


async def test_a_pattern_recovers_nothing_and_says_so_if_nothing_came() -> None:
    for store in (When.ALL, When.NEVER):
        scene = Scene(rules_of(store, 10, 300), "room:*")
        absence: list[Step] = [("publish", "hall", 3, False), ("commit", 100), ("wait", 30)]
        await play(scene, [([], absence, False)])
        assert scene.recoveries == {True: 1, False: 0}


async def test_places_of_refused_messages_do_not_come_again_for_others() -> None:
    """Seen: refused writes took offsets, subscribers were told of them, and later other messages had them."""
    for name in ("room:1", "room:*"):
        scene = Scene(rules_of(When.ALL, 10, 300), name)
        refused: list[Step] = [
            ("publish", "room:1", 2, False),
            ("commit", 2),
            ("publish", "room:1", 3, False),
            ("refuse", 3),
        ]
        after: list[Step] = [("publish", "room:1", 4, False), ("commit", 9)]
        await play(scene, [(refused, [("restart",), *after], False), ([], after, False)])
        assert scene.recoveries == {True: 2, False: 0}
