"""Taking up an earlier session: a key that works once, in its hub, for what is still allowed."""

import asyncio

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
from arauto.errors import Code
from arauto.model import Identity, Serial, When
from arauto.settings import HubSettings, NamespaceSettings, Rules
from arauto.storage.memory import MemoryKeyValueStore
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

    async def take(self, hub: str, key: str) -> bytes | None:
        value = await super().take(hub, key)
        if self.gate is not None:
            await self.gate.wait()
        return value


async def test_a_key_stays_used_if_the_lost_connection_is_noticed_meanwhile(
    make_desk: MakeDesk,
) -> None:
    """The old connection saves its state when it ends: that must not bring a used key back to life."""
    clock = FakeClock()
    desk = make_desk(clock=clock)
    keys = SlowKeys(clock)
    object.__setattr__(desk.storage, "kv", keys)
    desk.env.restorer._kv = keys
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
