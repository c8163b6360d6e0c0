"""Two hubs with the same names for everything never meet (T1, T2)."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentUpdated,
    HistoryReply,
    HistoryRequest,
    Join,
    Leave,
    Operation,
    Presence,
    PresenceRequest,
    Publication,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeRequest,
)
from arauto.model import Identity, Message, Serial, When
from arauto.settings import Rules
from tests.unit.session.desk import Client, Desk, grants, publish, subscribe

HUBS = ("shop", "shop2")
RULES = Rules(
    client_publish=True, presence=True, occupancy=True, store=When.MARKED, retain=When.MARKED
)

channels = st.sampled_from(["room:1", "shop:1", "/t/a", "doc:1", "u:ann", "shop2", "stored:1"])
wide = st.sampled_from(["*", "room:*", "#:1", "/", "shop*", "shop2:*", "../*", "*:*"])
hubs = st.sampled_from(HUBS)
who = st.integers(0, 1)

steps = st.one_of(
    st.tuples(st.just("publish"), hubs, who, channels, st.booleans(), st.booleans()),
    st.tuples(st.just("publish_keyed"), hubs, who, channels, st.sampled_from(["k1", "k2"])),
    st.tuples(st.just("subscribe"), hubs, who, st.one_of(channels, wide)),
    st.tuples(st.just("recover"), hubs, who, st.one_of(channels, wide)),
    st.tuples(st.just("unsubscribe"), hubs, who),
    st.tuples(st.just("history"), hubs, who, channels),
    st.tuples(st.just("change"), hubs, who),
    st.tuples(st.just("authenticate"), hubs, who),
    st.tuples(st.just("break_and_restore"), hubs, who),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 30, 70])),
)


class Street:
    """Two hubs side by side, two clients in each, and everything they were ever sent."""

    def __init__(self) -> None:
        self.desk = Desk(rules=RULES)
        self.clients: dict[str, list[Client]] = {}
        self.keys: dict[str, dict[str, str]] = {hub: {} for hub in HUBS}
        self.sessions: dict[str, set[str]] = {hub: set() for hub in HUBS}
        self.restore_keys: dict[str, list[str]] = {hub: [] for hub in HUBS}
        self.places: dict[str, Serial] = {}
        self.id = 0

    async def open(self) -> None:
        for hub in HUBS:
            # The same user and the same credentials, with different rights.
            identity = Identity("ann", grants(f"{hub}-only:*"), {"hub": hub})
            self.desk.doorman.know(hub, b"secret", identity)
            self.clients[hub] = [await self.connect(hub) for _ in range(2)]

    async def connect(self, hub: str) -> Client:
        client = await self.desk.connect(hub)
        self.sessions[hub].add(client.session.id)
        return client

    async def do(self, hub: str, who: int, request: Any) -> Client:
        client = self.clients[hub][who]
        if client.closed_with is not None:
            client = self.clients[hub][who] = await self.connect(hub)
        await client.do(request)
        self.check()
        return client

    def next_id(self) -> int:
        self.id += 1
        return self.id

    # --- steps -------------------------------------------------------------------------------------

    async def publish(self, hub: str, who: int, channel: str, retain: bool, store: bool) -> None:
        request = publish(channel, hub.encode(), id=self.next_id(), retain=retain, store=store)
        client = await self.do(hub, who, request)
        for ack in client.take_all(Ack):
            if ack.results[0].serial is not None:
                self.places[channel] = ack.results[0].serial

    async def publish_keyed(self, hub: str, who: int, channel: str, key: str) -> None:
        request = publish(channel, hub.encode(), id=self.next_id(), idempotency_key=key)
        client = await self.do(hub, who, request)
        [result] = client.take(Ack).results
        if result.duplicate:
            # A key used in the other hub alone would be news here.
            assert result.serial is not None
            assert self.keys[hub].get(f"{client.session.user}/{channel}/{key}")
        if result.error is None:
            self.keys[hub][f"{client.session.user}/{channel}/{key}"] = "used"

    async def subscribe(self, hub: str, who: int, name: str) -> None:
        await self.do(hub, who, subscribe(name, id=self.next_id()))

    async def recover(self, hub: str, who: int, name: str) -> None:
        item = SubscribeItem(channel=name, positions=dict(self.places))
        if name in self.places:
            item = SubscribeItem(channel=name, since=self.places[name])
        client = await self.do(hub, who, SubscribeRequest(id=self.next_id(), items=(item,)))
        client.take(SubscribeReply)

    async def unsubscribe(self, hub: str, who: int) -> None:
        held = tuple(self.clients[hub][who].session.subscriptions)
        if held:
            await self.do(hub, who, UnsubscribeRequest(channels=held))

    async def history(self, hub: str, who: int, channel: str) -> None:
        await self.do(hub, who, HistoryRequest(id=self.next_id(), channel=channel))
        await self.do(hub, who, PresenceRequest(id=self.next_id(), channel=channel))

    async def change(self, hub: str, who: int) -> None:
        operation = Operation(op="add", path="/hub", value=hub)
        request = DocumentChangeRequest(id=self.next_id(), channel="doc:1", operations=(operation,))
        await self.do(hub, who, request)
        client = await self.do(hub, who, DocumentGetRequest(id=self.next_id(), channel="doc:1"))
        assert client.take(DocumentGetReply).value == {"hub": hub}

    async def authenticate(self, hub: str, who: int) -> None:
        request = AuthRequest(id=self.next_id(), credentials=b"secret")
        client = await self.do(hub, who, request)
        reply = client.take(AuthReply)
        assert reply.grants == grants(f"{hub}-only:*")
        self.restore_keys[hub].append(client.take(RestoreKey).key)
        await self.desk.advance(0.6)

    async def break_and_restore(self, hub: str, who: int) -> None:
        await self.clients[hub][who].drop()
        client = self.clients[hub][who] = await self.connect(hub)
        for origin in HUBS:
            for key in self.restore_keys[origin]:
                await client.do(RestoreRequest(id=self.next_id(), key=key))
                for restored in client.take_all(Restored):
                    assert origin == hub, "a key of another hub worked"
                    assert restored.extra == {"hub": hub}
                    assert restored.session in self.sessions[hub]
        self.check()

    async def wait(self, seconds: float) -> None:
        await self.desk.advance(seconds, step_s=seconds)
        self.check()

    # --- what must hold ----------------------------------------------------------------------------

    def check(self) -> None:
        for hub in HUBS:
            for client in self.clients[hub]:
                for event in client.inbox:
                    self.check_event(hub, event)
                keep = (Ack, AuthReply, RestoreKey, Restored, SubscribeReply, DocumentGetReply)
                client.inbox = [event for event in client.inbox if isinstance(event, keep)]

    def check_event(self, hub: str, event: object) -> None:
        messages: tuple[Message, ...] = ()
        sessions: list[str] = []
        match event:
            case Publication():
                messages = (event.message,)
            case HistoryReply():
                messages = event.messages
            case Presence():
                sessions = [member.session for member in event.members]
            case Join() | Leave():
                sessions = [event.member.session]
            case DocumentUpdated():
                assert all(operation.value == hub for operation in event.operations)
        for message in messages:
            assert message.payload == hub.encode(), "a message crossed over"
            sessions.append(message.session)
        assert self.sessions[hub].issuperset(filter(None, sessions))


async def play(played: list[tuple[Any, ...]]) -> None:
    street = Street()
    await street.open()
    for name, *arguments in played:
        await getattr(street, name)(*arguments)
    rows = await street.desk.storage.journal.read(0, 10_000)
    for _, entry in rows:
        assert not entry.session or entry.session in street.sessions[entry.hub]
    for hub in HUBS:
        found = street.desk.directory.hubs.get(hub)
        for name, channel in found.channels.items() if found is not None else ():
            others = street.clients[HUBS[1 - HUBS.index(hub)]]
            assert not any(channel.has(client.session.subscriber) for client in others), name
    await street.desk.close()


@settings(max_examples=120)
@given(st.lists(steps, min_size=5, max_size=40))
def test_whatever_is_done_in_two_hubs_they_never_meet(played: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(played))
