"""Taking up an earlier session: a key that works once, in its hub, for what is still allowed."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    CloseRequest,
    ErrorEvent,
    Leave,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeReply,
)
from arauto.errors import Code, StorageError
from arauto.features.presence import PresenceFeature
from arauto.model import Identity, Serial, When
from arauto.session.line import Line
from arauto.settings import HubSettings, NamespaceSettings, Rules
from arauto.storage.base import LastPlace
from arauto.storage.memory import MemoryJournal, MemoryKeyValueStore
from arauto.testing.clock import FakeClock
from tests.stored import stored
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe


async def signed_in(desk: Desk, user: str = "ann", hub: str = "shop") -> tuple[Client, str]:
    """A session with a key whose state is in the store."""
    desk.doorman.know(hub, user.encode(), Identity(user, grants("vip:*")))
    client = await desk.connect(hub)
    await client.ask(AuthRequest(id=1, credentials=user.encode()), AuthReply)
    key = client.take(RestoreKey).key
    await desk.advance(1)
    return client, key


async def restore(client: Client, key: str, **positions: Serial) -> Restored:
    places = {name.replace("_", ":"): serial for name, serial in positions.items()}
    return await client.ask(RestoreRequest(id=5, key=key, positions=places), Restored)


async def refused(client: Client, key: str) -> int:
    return (await client.ask(RestoreRequest(id=5, key=key), ErrorEvent)).code


async def test_identity_id_rights_and_subscriptions_come_back_and_nothing_was_missed(
    desk: Desk,
) -> None:
    publisher = await desk.connect()
    client, key = await signed_in(desk)
    await client.subscribe("room:1", "vip:1", "hall:*")
    await publisher.do(publish("room:1", b"seen"))
    await publisher.do(publish("hall:1", b"seen"))
    hub = await desk.directory.get("shop")
    places = {name: hub.channels[name].serial for name in ("room:1", "vip:1", "hall:1", "u:ann")}
    id = client.session.id
    await client.drop()
    await publisher.do(publish("room:1", b"missed"))
    await publisher.do(publish("hall:1", b"missed too"))
    hub.channels["u:ann"].publish(
        publish("u:ann", b"for you").items[0], client.session.sender, None
    )
    back = await desk.connect()
    restored = await back.ask(RestoreRequest(id=5, key=key, positions=places), Restored)
    assert (restored.session, restored.user, restored.grants) == (id, "ann", grants("vip:*"))
    assert back.session.id == id
    results = {result.channel: result for result in restored.results}
    assert sorted(results) == ["hall:*", "room:1", "u:ann", "vip:1"]
    assert all(result.error is None and result.recovered for result in results.values())
    assert sorted(back.payloads()) == [b"for you", b"missed", b"missed too"]
    await back.do(publish("vip:1", b"may still write"))
    assert back.payloads() == [b"may still write"]
    assert back.take(RestoreKey).key != key


async def test_a_key_works_once(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.drop()
    await restore(await desk.connect(), key)
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_of_two_connections_with_one_key_exactly_one_wins(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.drop()
    rivals = [await desk.connect() for _ in range(5)]
    for rival in rivals:
        rival.send(RestoreRequest(id=5, key=key))
    await desk.settle()
    won = [rival for rival in rivals if rival.take_all(Restored)]
    assert len(won) == 1
    lost = [rival.take(ErrorEvent).code for rival in rivals if rival is not won[0]]
    assert lost == [Code.BAD_RESTORE_KEY] * 4
    assert [rival.session.user for rival in rivals].count("ann") == 1


async def test_a_key_is_worth_nothing_in_another_hub(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.drop()
    assert await refused(await desk.connect("other"), key) == Code.BAD_RESTORE_KEY
    assert (await restore(await desk.connect(), key)).user == "ann"


@pytest.mark.parametrize("key", ["x", "restore:x", "../shop", "k" * 200])
async def test_a_made_up_key_is_refused(desk: Desk, key: str) -> None:
    await signed_in(desk)
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_after_a_polite_close_every_key_of_the_session_is_dead(desk: Desk) -> None:
    client, first = await signed_in(desk)
    await client.ask(AuthRequest(id=2, credentials=b"ann"), AuthReply)
    second = client.take(RestoreKey).key
    await desk.advance(1)
    await client.do(CloseRequest())
    assert client.closed_with is Code.CLOSED_BY_CLIENT
    for key in (first, second):
        assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_a_new_key_ends_the_one_before(desk: Desk) -> None:
    """Who re-authenticates as someone else leaves no way back to who they were."""
    client, first = await signed_in(desk)
    desk.doorman.know("shop", b"bob", Identity("bob"))
    await client.ask(AuthRequest(id=2, credentials=b"bob"), AuthReply)
    second = client.take(RestoreKey).key
    await client.drop()
    assert await refused(await desk.connect(), first) == Code.BAD_RESTORE_KEY
    assert (await restore(await desk.connect(), second)).user == "bob"


async def test_a_forced_logout_leaves_no_way_back(desk: Desk) -> None:
    client, key = await signed_in(desk)
    client.session.disconnect(Code.FORCED_LOGOUT, "an administrator ended the session")
    await desk.settle()
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_a_connection_that_has_not_noticed_its_loss_gives_way(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.subscribe("room:1")
    back = await desk.connect()
    restored = await restore(back, key)
    assert client.closed_with is Code.SESSION_REPLACED
    assert restored.session == client.session.id == back.session.id
    hub = await desk.directory.get("shop")
    assert list(hub.sessions.values()).count(back.session.subscriber) == 1
    assert client.session.subscriber not in hub.sessions.values()
    assert list(hub.channels["room:1"].subscribers) == [back.session.subscriber]


class SlowKeys(MemoryKeyValueStore):
    """Lets a test do something between the question and its answer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.gate: asyncio.Event | None = None
        self.fails = False
        self.keeps = False
        """Whether it refuses to forget."""
        self.calls: list[str] = []

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        self.calls.append("put")
        await super().put(hub, key, value, ttl_s)

    async def delete(self, hub: str, key: str) -> bool:
        self.calls.append("delete")
        if self.keeps:
            raise StorageError(Code.STORAGE_READ_ONLY, "the store cannot be written")
        return await super().delete(hub, key)

    async def take(self, hub: str, key: str) -> bytes | None:
        self.calls.append("take")
        value = None if self.fails else await super().take(hub, key)
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the store is away")
        return value


class SlowQuestions(MemoryJournal):
    """The same for the messages that are stored."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        if self.gate is not None:
            self.asked.set()
            await self.gate.wait()
        return await super().last(hub, channel)


def at_slow_keys(make_desk: MakeDesk) -> tuple[Desk, SlowKeys]:
    clock = FakeClock()
    desk = make_desk(clock=clock)
    keys = SlowKeys(clock)
    object.__setattr__(desk.storage, "kv", keys)
    desk.env.restorer._kv = keys
    return desk, keys


async def test_a_key_stays_used_if_the_lost_connection_is_noticed_meanwhile(
    make_desk: MakeDesk,
) -> None:
    """The old connection saves its state when it ends: that must not bring a used key back to life."""
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    client.session.closed(Code.CONNECTION_LOST)
    keys.gate.set()
    await desk.settle()
    assert back.take(Restored).user == "ann"
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_a_key_stays_used_if_the_loss_is_noticed_just_when_it_was_taken(
    make_desk: MakeDesk,
) -> None:
    """Seen: what the lost connection saved came after all that was done to keep the key used."""
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    keys.gate.set()
    client.session.closed(Code.CONNECTION_LOST)
    await desk.settle()
    assert back.take(Restored).user == "ann"
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_nobody_else_comes_in_while_a_key_is_being_used(make_desk: MakeDesk) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    back, other = await desk.connect(), await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    client.session.closed(Code.CONNECTION_LOST)
    await asyncio.sleep(0)
    other.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    keys.gate.set()
    await desk.settle()
    assert back.take(Restored).user == "ann"
    assert other.take(ErrorEvent).code == Code.BAD_RESTORE_KEY


async def test_a_key_stays_used_whatever_is_noticed_first_within_one_turn(desk: Desk) -> None:
    """The loss and the return may come in one batch of the loop, in either order."""
    for lost_first in (True, False):
        client, key = await signed_in(desk)
        back = await desk.connect()
        if lost_first:
            client.session.closed(Code.CONNECTION_LOST)
        back.send(RestoreRequest(id=5, key=key))
        client.session.closed(Code.CONNECTION_LOST)
        await desk.settle()
        assert back.take(Restored).user == "ann"
        assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


@pytest.mark.parametrize("code", [Code.FORCED_LOGOUT, Code.CLOSED_BY_CLIENT])
async def test_a_session_that_is_ended_while_its_key_is_being_used_does_not_come_back(
    make_desk: MakeDesk, code: Code
) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    client.session.disconnect(code, "it is over")
    keys.gate.set()
    await desk.settle()
    assert back.take(ErrorEvent).code == Code.BAD_RESTORE_KEY
    assert back.session.user == ""
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_a_key_works_again_if_the_connection_is_lost_before_its_client_was_told(
    make_desk: MakeDesk,
) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    await client.subscribe("room:1")
    await client.drop()
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    back.session.closed(Code.CONNECTION_LOST)
    keys.gate.set()
    await desk.settle()
    again = await desk.connect()
    assert (await restore(again, key)).user == "ann"
    assert sorted(again.session.subscriptions) == ["room:1", "u:ann"]


async def test_a_key_is_used_once_the_answer_was_written_whether_or_not_it_came_through(
    desk: Desk,
) -> None:
    """Nobody can know what of it was read: a key that worked again could be used twice."""
    client, key = await signed_in(desk)
    await client.drop()
    back = await desk.connect()
    back.send(RestoreRequest(id=5, key=key))
    await desk.settle()
    await back.drop()
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_a_key_works_again_if_the_connection_is_lost_while_channels_are_opened(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    journal = SlowQuestions(clock)
    desk = make_desk(rules=Rules(client_publish=True, store=When.ALL), clock=clock, journal=journal)
    client, key = await signed_in(desk)
    await client.subscribe("room:1", "room:2")
    id = client.session.id
    await client.drop()
    await desk.advance(70)  # the channels have closed
    journal.gate = asyncio.Event()
    back = await desk.connect()
    back.send(RestoreRequest(id=5, key=key))
    await journal.asked.wait()
    assert back.session.id == id
    assert await stored(desk.storage.kv, "shop", "restore:") == []
    back.session.closed(Code.CONNECTION_LOST)
    journal.gate.set()
    await desk.settle()
    again = await desk.connect()
    assert (await restore(again, key)).session == id
    assert sorted(again.session.subscriptions) == ["room:1", "room:2", "u:ann"]
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


@pytest.mark.parametrize("when", ["while the key is taken", "while channels are opened"])
async def test_a_key_works_again_where_it_takes_a_while_until_the_lost_connection_has_its_turn(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    clock = FakeClock()
    journal = SlowQuestions(clock)
    desk = make_desk(rules=Rules(client_publish=True, store=When.ALL), clock=clock, journal=journal)
    client, key = await signed_in(desk)
    await client.subscribe("room:1")
    await client.drop()
    await desk.advance(70)  # the channels have closed
    gone: list[Callable[[], None]] = []
    monkeypatch.setattr(Line, "add", lambda _, session, act: gone.append(act))
    journal.gate = asyncio.Event()
    back = await desk.connect()
    back.send(RestoreRequest(id=5, key=key))
    if when == "while channels are opened":
        await journal.asked.wait()
    back.session.lost(Code.CONNECTION_LOST)
    journal.gate.set()
    await desk.settle()
    for act in gone:
        act()
    await desk.settle()
    again = await desk.connect()
    assert (await restore(again, key)).user == "ann"
    assert sorted(again.session.subscriptions) == ["room:1", "u:ann"]


async def test_a_restore_writes_no_more_than_it_must(make_desk: MakeDesk) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    await client.drop()
    keys.calls.clear()
    await restore(await desk.connect(), key)
    await desk.advance(1)
    assert keys.calls == ["take", "put"]


async def test_a_key_whose_state_is_on_its_way_to_the_store_works_with_all_of_it(
    make_desk: MakeDesk,
) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    await client.subscribe("room:1")
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    client.session.closed(Code.CONNECTION_LOST)
    keys.gate.set()
    await desk.settle()
    assert sorted(back.session.subscriptions) == ["room:1", "u:ann"]


async def test_a_key_that_the_store_will_not_forget_is_worth_nothing_all_the_same(
    make_desk: MakeDesk,
) -> None:
    """Seen: it gave its holder the session that an administrator had ended, once the disk had room again."""
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    await desk.advance(1)  # it is saved
    keys.keeps = True
    client.session.closed(Code.FORCED_LOGOUT)
    await asyncio.sleep(0)
    await desk.world.settle()
    assert [type(failure) for failure in desk.world.failures] == [StorageError]
    desk.world.failures.clear()
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY
    keys.keeps = False
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY
    # The next that is written takes it along.
    other, _ = await signed_in(desk)
    await desk.advance(1)
    other.session.closed(Code.CLOSED_BY_CLIENT)
    await desk.settle()
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY
    assert not desk.env.restorer._dead
    assert [page async for page in keys.scan("shop", "restore:", 10)] in ([], [[]])


async def test_a_question_that_the_store_fails_to_answer_costs_no_state(
    make_desk: MakeDesk,
) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    back = await desk.connect()
    keys.gate, keys.fails = asyncio.Event(), True
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    client.session.closed(Code.CONNECTION_LOST)
    keys.gate.set()
    await desk.settle()
    assert back.take(ErrorEvent).code == Code.STORAGE_UNAVAILABLE
    keys.fails = False
    assert (await restore(back, key)).user == "ann"


async def test_rights_that_were_withdrawn_meanwhile_do_not_come_back(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.subscribe("room:1", "hall:1")
    await client.drop()
    await desk.set("rules", "shop", "closed", Rules(public=False))
    await desk.set("namespace", "shop", "room", NamespaceSettings(rules="closed"))
    restored = await restore(await desk.connect(), key)
    errors = {r.channel: r.error.code if r.error else 0 for r in restored.results}
    assert errors == {"u:ann": 0, "room:1": Code.SUBSCRIBE_DENIED, "hall:1": 0}


async def test_a_revoked_or_expired_identity_is_not_restored(desk: Desk) -> None:
    client, key = await signed_in(desk)
    await client.drop()
    desk.doorman.revoked.add(("shop", "ann"))
    assert await refused(await desk.connect(), key) == Code.AUTH_FAILED
    expires_ms = desk.clock.wall_ms() + 20_000
    desk.doorman.know("shop", b"eve", Identity("eve", expires_ms=expires_ms))
    other = await desk.connect(credentials=b"eve")
    second = other.take(RestoreKey).key
    await desk.advance(1)
    await other.drop()
    await desk.advance(30)
    assert await refused(await desk.connect(), second) == Code.TOKEN_EXPIRED


async def test_a_key_is_forgotten_after_its_time(make_desk: MakeDesk) -> None:
    desk = make_desk(restore_ttl_s=30)
    client, key = await signed_in(desk)
    await client.drop()
    await desk.advance(40)
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


async def test_where_restoring_is_off_no_key_is_given_and_nothing_is_kept(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(restore_ttl_s=0)
    desk.doorman.know("shop", b"ann", Identity("ann"))
    client = await desk.connect(credentials=b"ann")
    assert client.take_all(RestoreKey) == []
    await client.drop()
    assert await stored(desk.storage.kv, "shop", "restore:", 10) == []


async def test_the_store_holds_no_key_that_could_be_used(desk: Desk) -> None:
    _, key = await signed_in(desk)
    kept = await stored(desk.storage.kv, "shop", "", 100)
    assert kept
    assert not [1 for name, value in kept if key in name or key.encode() in (value or b"")]


async def test_an_anonymous_session_gets_no_key(desk: Desk) -> None:
    client = await desk.connect()
    await client.subscribe("room:1")
    await desk.advance(2)
    assert client.take_all(RestoreKey) == []


async def test_what_the_new_connection_held_is_replaced_by_what_is_restored(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(rules=Rules(presence=True, client_publish=True))
    witness = await desk.connect()
    await witness.subscribe("hall:1")
    client, key = await signed_in(desk)
    await client.subscribe("room:1")
    await client.drop()
    back = await desk.connect()
    await back.subscribe("hall:1")
    old_id = back.session.id
    await restore(back, key)
    assert sorted(back.session.subscriptions) == ["room:1", "u:ann"]
    assert witness.take(Leave).member.session == old_id


async def test_a_very_wide_pattern_that_the_new_connection_held_leaves_no_member_behind(
    make_desk: MakeDesk,
) -> None:
    """Seen: channels that were left a turn later knew it by the id it had before, and showed it for ever."""
    desk = make_desk(rules=Rules(presence=True, client_publish=True))
    client, key = await signed_in(desk)
    await client.drop()
    hub = await desk.directory.get("shop")
    channels = [await hub.open_channel(f"hall:{n:04}") for n in range(1_200)]
    back, witness = await desk.connect(), await desk.connect()
    old_id = back.session.id
    await back.subscribe("hall:*")
    await witness.subscribe(channels[-1].name)
    await restore(back, key)
    await desk.settle()
    assert witness.take(Leave).member.session == old_id
    features = [channel.feature(PresenceFeature.name) for channel in channels]
    totals = [each.snapshot().total for each in features if isinstance(each, PresenceFeature)]
    assert totals == [0] * 1_199 + [1]


async def test_stored_channels_are_recovered_from_the_store_too(make_desk: MakeDesk) -> None:
    rules = Rules(client_publish=True, store=When.ALL, live_history_len=0)
    desk = make_desk(rules=rules, settings=HubSettings(default_public=True))
    publisher = await desk.connect()
    client, key = await signed_in(desk)
    reply = await client.ask(subscribe("room:1"), SubscribeReply)
    place = reply.results[0].serial
    assert place is not None
    await client.drop()
    await publisher.do(publish("room:1", b"1", b"2"))
    back = await desk.connect()
    restored = await restore(back, key, room_1=place)
    assert {r.channel: r.recovered for r in restored.results}["room:1"]
    assert back.payloads() == [b"1", b"2"]


@pytest.mark.parametrize("path", [(), ("identity",), ("identity", "grants")])
async def test_a_state_that_says_more_than_is_known_here_is_not_taken_up(
    desk: Desk, path: tuple[str, ...]
) -> None:
    """A newer node wrote it before a roll-back: what it adds may restrict the session."""
    _, key = await signed_in(desk)
    ((name, value),) = await stored(desk.storage.kv, "shop", "restore:")
    state = part = msgspec.msgpack.decode(value or b"")
    for step in path:
        part = part[step]
    part["only_from"] = "10.0.0.0/8"
    await desk.storage.kv.put("shop", name, msgspec.msgpack.encode(state), 60)
    assert await refused(await desk.connect(), key) == Code.BAD_RESTORE_KEY


@pytest.mark.parametrize("is_all", [True, False])
async def test_a_session_that_is_ended_while_it_is_restored_from_the_store_does_not_come_back(
    make_desk: MakeDesk, is_all: bool
) -> None:
    desk, keys = at_slow_keys(make_desk)
    client, key = await signed_in(desk)
    await client.drop()
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await asyncio.sleep(0)
    await desk.env.restorer.end("other")
    await desk.env.restorer.end("shop", "" if is_all else client.session.id)
    keys.gate.set()
    await desk.settle()
    assert back.take(ErrorEvent).code == Code.BAD_RESTORE_KEY


async def test_a_hub_that_is_closed_takes_the_keys_of_its_sessions_along(
    make_desk: MakeDesk,
) -> None:
    desk, keys = at_slow_keys(make_desk)
    _, key = await signed_in(desk)
    other, used = await signed_in(desk, "bob")
    await other.drop()
    back = await desk.connect()
    keys.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=used))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(desk.directory.close_hub("shop"))
    await asyncio.sleep(0)
    keys.gate.set()
    await desk.settle()
    await closing
    for dead in (key, used):
        assert await refused(await desk.connect(), dead) == Code.BAD_RESTORE_KEY
