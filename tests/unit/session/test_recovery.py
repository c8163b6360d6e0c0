"""Never a silent hole: a client that comes back has everything, or has been told that it may not."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arauto.codec.events import Ack, Publication, SubscribeItem, SubscribeReply, SubscribeRequest
from arauto.hub.environment import HubLimits
from arauto.model import Serial, When
from arauto.settings import NamespaceSettings, Rules
from arauto.storage.memory import open_memory
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import SlowDisk
from tests.unit.session.desk import Client, Desk, publish

#: Small, so that memory and the recovery limit run out all the time.
LIMITS = HubLimits(recovery_len_max=12, channel_close_s=20, hub_close_s=60)
ROOMS = ("room:1", "room:2")


def rules_of(store: When, history_len: int, history_s: float) -> Rules:
    return Rules(
        public=True,
        client_publish=True,
        store=store,
        live_history_len=history_len,
        live_history_s=history_s,
    )


all_rules = st.builds(
    rules_of, st.sampled_from(list(When)), st.sampled_from([0, 2, 6]), st.sampled_from([0, 5])
)


class Scene:
    """A node that is restarted and reconfigured, and a client that comes and goes."""

    def __init__(self, rules: Rules, name: str) -> None:
        self.clock = FakeClock()
        self.disk = SlowDisk(self.clock)
        self.storage = open_memory(self.clock)
        self.rules = rules
        self.name = name
        self.boots = 0
        self.desk: Desk
        self.publisher: Client
        self.client: Client | None = None
        self.asked: dict[int, str] = {}
        self.accepted: dict[str, list[Serial]] = {room: [] for room in ROOMS}
        """What there was to receive, by the answers to the publisher."""
        self.places: dict[str, Serial] | None = None
        self.certain: dict[str, list[Serial]] = {}
        """What the client has, from the last place on at which it was told that there may be a hole."""
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
        self.publisher = await self.desk.connect()
        await self.commit(100)

    async def commit(self, count: int) -> None:
        self.disk.commit(count)
        await self.desk.settle()
        for ack in self.publisher.take_all(Ack):
            room = self.asked[ack.id]
            self.accepted[room] += [item.serial for item in ack.results if item.serial is not None]
        self.read()

    async def publish(self, room: str, count: int, marked: bool) -> None:
        id = len(self.asked) + 1
        self.asked[id] = room
        await self.publisher.do(publish(room, *(b"x" for _ in range(count)), id=id, store=marked))
        await self.commit(0)

    async def wait(self, seconds: float) -> None:
        await self.desk.advance(seconds, step_s=seconds)
        await self.commit(0)

    async def change_rules(self, rules: Rules) -> None:
        self.rules = rules
        await self.desk.set("rules", "shop", "r", rules)
        await self.desk.set("namespace", "shop", "room", NamespaceSettings(rules="r"))

    async def restart(self) -> None:
        await self.commit(1_000)
        self.client = None
        await self.desk.close()
        self.clock.advance(1)
        await self.boot()

    # --- the client --------------------------------------------------------------------------------

    def read(self) -> None:
        if self.client is None or self.places is None:
            return
        for event in self.client.take_all(Publication):
            channel, serial = event.message.channel, event.message.serial
            place = self.places.get(channel)
            if place is None or serial > place:
                self.places[channel] = serial
                self.certain.setdefault(channel, []).append(serial)

    async def leave(self) -> None:
        if self.client is not None:
            await self.client.drop()
            self.client = None

    async def come_back(self) -> None:
        client = await self.desk.connect()
        item = SubscribeItem(channel=self.name)
        if self.places is not None and self.name == "room:*":
            item = SubscribeItem(channel=self.name, positions=dict(self.places))
        elif self.places is not None:
            item = SubscribeItem(channel=self.name, since=self.places.get(self.name))
        await client.do(SubscribeRequest(id=5, items=(item,)))
        [result] = client.take(SubscribeReply).results
        assert result.error is None
        now = dict(result.positions or {})
        if result.serial is not None:
            now[self.name] = result.serial
        asked = item.since is not None or item.positions is not None
        if asked:
            self.recoveries[result.recovered] += 1
        lost: list[str] = []
        if not asked:
            lost = list(ROOMS)
        elif not result.recovered:
            lost = list(result.unrecovered) or [self.name]
        self.places = self.places or {}
        for channel in lost:
            # From here on it counts again.
            self.places.pop(channel, None)
            self.certain.pop(channel, None)
            if channel in now:
                self.places[channel] = now[channel]
                self.certain[channel] = [now[channel]]
        self.client = client
        self.read()

    def check(self) -> None:
        for channel, certain in self.certain.items():
            first, last = certain[0], certain[-1]
            owed = [serial for serial in self.accepted[channel] if first < serial <= last]
            missing = sorted(set(owed) - set(certain))
            assert not missing, f"a silent hole in {channel}: {missing}"
            assert certain == sorted(set(certain))


Step = tuple[Any, ...]
"""The name of a method of `Scene`, and its arguments."""

steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(ROOMS), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("publish"), st.just("room:1"), st.sampled_from([1, 5, 14]), st.booleans()),
    st.tuples(st.just("commit"), st.sampled_from([1, 3, 30])),
    st.tuples(st.just("wait"), st.sampled_from([1, 6, 30])),
    st.tuples(st.just("change_rules"), all_rules),
    st.tuples(st.just("restart")),
)
episodes = st.lists(st.tuples(st.lists(steps, max_size=3), st.lists(steps, max_size=4)), max_size=5)


async def play(scene: Scene, played: list[tuple[list[Step], list[Step]]]) -> None:
    await scene.boot()
    await scene.come_back()
    for present, absent in played:
        for name, *arguments in present:
            await getattr(scene, name)(*arguments)
        await scene.leave()
        for name, *arguments in absent:
            await getattr(scene, name)(*arguments)
        await scene.come_back()
        # Whatever the client got afterwards shows whether something is missing before it.
        for room in ROOMS:
            await scene.publish(room, 1, marked=True)
        await scene.commit(1_000)
        scene.check()
    await scene.desk.close()


@settings(max_examples=500)
@given(all_rules, st.sampled_from(["room:1", "room:*"]), episodes)
def test_a_client_that_returns_has_everything_or_was_told(
    rules: Rules, name: str, played: list[tuple[list[Step], list[Step]]]
) -> None:
    asyncio.run(play(Scene(rules, name), played))


async def test_a_short_absence_is_made_good_from_memory_and_from_the_store() -> None:
    for store, history_len in ((When.NEVER, 10), (When.ALL, 0), (When.ALL, 3)):
        scene = Scene(rules_of(store, history_len, 300), "room:1")
        absence: list[Step] = [("publish", "room:1", 6, False), ("commit", 1_000)]
        await play(scene, [([], absence), ([], absence)])
        assert scene.recoveries == {True: 2, False: 0}


async def test_a_restart_is_made_good_where_everything_is_stored_and_told_where_not() -> None:
    for store, whole in ((When.ALL, True), (When.MARKED, False), (When.NEVER, False)):
        scene = Scene(rules_of(store, 10, 300), "room:1")
        absence: list[Step] = [("publish", "room:1", 3, True), ("restart",)]
        await play(scene, [([], absence)])
        assert scene.recoveries[whole] == 1
