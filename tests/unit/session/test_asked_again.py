"""What was allowed before a wait is asked again after it: much may change meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arauto.admin.operations.states import States
from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Occupancy,
    OccupancyRequest,
    Operation,
    Presence,
    PresenceRequest,
    Request,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeReply,
)
from arauto.errors import ArautoError, Code
from arauto.hub.directory import Directory
from arauto.hub.refusals import Asker
from arauto.hub.rules import HubState
from arauto.model import Identity, Message, When
from arauto.session.identify import enter, find_caller
from arauto.session.oneshot import Caller, publish_all
from arauto.settings import HubSettings, JwtSettings, NamespaceSettings, Rules
from arauto.storage.base import HistoryQuery, LastPlace, Snapshot
from arauto.storage.memory import MemoryDocumentStore, MemoryJournal, MemoryKeyValueStore
from arauto.tasks import at_once
from arauto.testing.clock import FakeClock
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish

STORED = Rules(client_publish=True, store=When.ALL, presence=True, occupancy=True)


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)


class Gate:
    """Holds back whoever comes, once it is shut, and says that somebody came."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()
        self.came.clear()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        self.came.set()
        await self._open.wait()


class GatedKeys(MemoryKeyValueStore):
    def __init__(self, clock: FakeClock, gate: Gate) -> None:
        super().__init__(clock)
        self._gate = gate

    async def take(self, hub: str, key: str) -> bytes | None:
        value = await super().take(hub, key)
        await self._gate.passed()
        return value


class GatedJournal(MemoryJournal):
    """Whatever is read waits at the gate: opening a stored channel, and a page of its history."""

    def __init__(self, clock: FakeClock, gate: Gate) -> None:
        super().__init__(clock)
        self._gate = gate

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        await self._gate.passed()
        return await super().last(hub, channel)

    async def history(self, query: HistoryQuery) -> list[Message]:
        await self._gate.passed()
        return await super().history(query)


class GatedDocuments(MemoryDocumentStore):
    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    async def load(self, hub: str, channel: str) -> Snapshot | None:
        await self._gate.passed()
        return await super().load(hub, channel)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def slow(make_desk: MakeDesk, gate: Gate) -> Desk:
    """A desk whose stores wait at the gate."""
    clock = FakeClock()
    desk = make_desk(rules=STORED, clock=clock, journal=GatedJournal(clock, gate))
    keys = GatedKeys(clock, gate)
    object.__setattr__(desk.storage, "kv", keys)
    object.__setattr__(desk.storage, "documents", GatedDocuments(gate))
    desk.env.restorer._kv = keys
    return desk


async def signed_in(desk: Desk, user: str = "ann", **fields: Any) -> Client:
    desk.doorman.know("shop", user.encode(), Identity(user, grants("*"), **fields))
    client = await desk.connect()
    assert (await client.ask(AuthRequest(id=1, credentials=user.encode()), AuthReply)).success
    return client


async def revoke(desk: Desk, user: str = "ann") -> None:
    """As an administrator does: first the tokens and keys, then the sessions that are there."""
    desk.doorman.revoked.add(("shop", user))
    hub = await desk.directory.get("shop")
    for subscriber in hub.sessions_of(user):
        subscriber.session.disconnect(Code.FORCED_LOGOUT, "withdrawn")
        subscriber.session.closed(Code.FORCED_LOGOUT)


async def restoring(desk: Desk, gate: Gate) -> tuple[Client, Client, str]:
    """Who restores a lost session, held while its key is being taken; a bystander; the session's id."""
    client = await signed_in(desk)
    await client.subscribe("room:1")
    key = client.take(RestoreKey).key
    await desk.advance(1)
    await client.drop()
    back, bystander = await desk.connect(), await desk.connect()
    gate.shut()
    back.send(RestoreRequest(id=5, key=key))
    await gate.came.wait()
    return back, bystander, client.session.id


async def test_who_is_revoked_while_the_key_is_taken_is_not_restored(
    slow: Desk, gate: Gate
) -> None:
    back, _, _ = await restoring(slow, gate)
    await revoke(slow)
    gate.open()
    await slow.settle()
    assert back.take_all(Restored) == []
    assert back.take(ErrorEvent).code == Code.AUTH_FAILED
    assert back.session.user == ""
    assert not back.session.subscriptions


async def test_who_is_revoked_while_channels_are_opened_again_is_sent_away(
    slow: Desk, gate: Gate
) -> None:
    back, _, _ = await restoring(slow, gate)
    hub = await slow.directory.get("shop")
    for channel in list(hub.channels.values()):
        await hub._close_channel(channel)
    gate.open()
    await asyncio.sleep(0)
    gate.shut()
    await gate.came.wait()
    assert back.session.user == "ann"
    slow.doorman.revoked.add(("shop", "ann"))
    gate.open()
    await slow.settle()
    assert back.take_all(Restored) == []
    assert back.closed_with is Code.FORCED_LOGOUT


async def test_of_two_that_restore_one_session_one_is_left(slow: Desk, gate: Gate) -> None:
    """The lost connection was noticed late and saved its key again: two connections could take it."""
    back, rival, lost_id = await restoring(slow, gate)
    rival.session.resume_as(lost_id, Identity("ann"))
    gate.open()
    await slow.settle()
    assert back.take(Restored).session == back.session.id == lost_id
    assert rival.closed_with is Code.SESSION_REPLACED
    hub = await slow.directory.get("shop")
    assert hub.sessions[lost_id] is back.session.subscriber
    assert hub.sessions_of("ann") == [back.session.subscriber]


async def test_a_restored_session_ends_with_its_authentication_even_while_it_is_restored(
    slow: Desk, gate: Gate
) -> None:
    client = await signed_in(slow, expires_ms=slow.clock.wall_ms() + 20_000)
    await client.subscribe("room:1")
    key = client.take(RestoreKey).key
    await slow.advance(1)
    await client.drop()
    back = await slow.connect()
    hub = await slow.directory.get("shop")
    for channel in list(hub.channels.values()):
        await hub._close_channel(channel)
    gate.shut()
    back.send(RestoreRequest(id=5, key=key))
    await gate.came.wait()  # the key is being taken
    gate.open()
    await asyncio.sleep(0)
    gate.shut()
    await gate.came.wait()  # the channels are being opened
    assert back.session.user == "ann"
    for _ in range(30):
        slow.clock.advance(1)
        await asyncio.sleep(0)
    assert back.session.user == ""
    gate.open()
    await slow.settle()


CHANGE = DocumentChangeRequest(
    id=7, channel="doc:1", operations=(Operation(op="add", path="/a", value=1),)
)

REQUESTS: list[tuple[Request, type[Any]]] = [
    (publish("room:1", b"late", id=7), Ack),
    (CHANGE, DocumentChangeReply),
    (DocumentGetRequest(id=7, channel="doc:1"), DocumentGetReply),
    (PresenceRequest(id=7, channel="room:1"), Presence),
    (OccupancyRequest(id=7, channel="room:1"), Occupancy),
    (HistoryRequest(id=7, channel="room:1"), HistoryReply),
]


@pytest.mark.parametrize(("request_", "reply"), REQUESTS, ids=lambda x: type(x).__name__)
async def test_a_request_that_waited_is_refused_if_the_rules_no_longer_allow_it(
    slow: Desk, gate: Gate, request_: Request, reply: type[Any]
) -> None:
    client = await slow.connect()
    gate.shut()
    client.send(request_)
    await gate.came.wait()
    closed = Rules(
        public=False, client_publish=False, store=When.ALL, presence=True, occupancy=True
    )
    await slow.storage.settings.put("rules", "shop", "closed", encoded(closed))
    for namespace in ("room", "doc"):
        bound = encoded(NamespaceSettings(rules="closed"))
        await slow.storage.settings.put("namespace", "shop", namespace, bound)
    await slow.directory.refresh("shop")
    gate.open()
    await slow.settle()
    found = client.take_all(reply)
    if reply is Ack:
        assert found[0].results[0].error.code == Code.PUBLISH_DENIED
    else:
        assert found == []
        denied = client.take(ErrorEvent).code
        assert denied in (Code.PUBLISH_DENIED, Code.SUBSCRIBE_DENIED)


async def test_what_a_revoked_user_sent_is_not_published_once_the_channel_is_open(
    slow: Desk, gate: Gate
) -> None:
    client = await signed_in(slow)
    gate.shut()
    client.send(publish("room:1", b"late", b"later"))
    await gate.came.wait()
    await revoke(slow)
    gate.open()
    await slow.settle()
    hub = await slow.directory.get("shop")
    assert hub.channels["room:1"].serial.offset == 0


async def test_what_somebody_sent_and_then_left_is_still_published(slow: Desk, gate: Gate) -> None:
    client = await signed_in(slow)
    gate.shut()
    client.send(publish("room:1", b"my last words"))
    await gate.came.wait()
    client.session.closed(Code.CONNECTION_LOST)
    gate.open()
    await slow.settle()
    hub = await slow.directory.get("shop")
    assert hub.channels["room:1"].serial.offset == 1


async def test_who_becomes_somebody_else_meanwhile_is_not_given_the_channel_of_who_they_were(
    slow: Desk, gate: Gate
) -> None:
    slow.doorman.know("shop", b"ann", Identity("ann"))
    client = await slow.connect()
    gate.shut()
    client.send(AuthRequest(id=1, credentials=b"ann"))
    await gate.came.wait()
    at_once(client.session.become(None))
    gate.open()
    await slow.settle()
    assert client.take_all(SubscribeReply) == []
    assert client.session.errors == 0


# --- one request over HTTP -----------------------------------------------------------------------------


async def outcome(desk: Desk, caller: Caller) -> int:
    hub = await desk.directory.get("shop")
    asker = Asker(user=caller.user, transport="http")
    items = publish("room:1", b"late").items
    [result] = await publish_all(hub, items, asker, caller, size_bytes=100)
    return result.error.code if result.error is not None else 0


@pytest.mark.parametrize("change", ["revoked", "closed"])
async def test_one_message_over_http_is_refused_if_what_allowed_it_is_gone_when_the_channel_is_open(
    slow: Desk, gate: Gate, change: str
) -> None:
    slow.doorman.know("shop", b"ann", Identity("ann", grants("room:*")))
    caller = await find_caller(slow.env, "shop", "ann", "")
    hub = await slow.directory.get("shop")
    gate.shut()
    publishing = asyncio.ensure_future(outcome(slow, caller))
    await gate.came.wait()
    if change == "revoked":
        await revoke(slow)
    else:
        caller.granted = None
        await slow.storage.settings.put(
            "hub", "shop", "", encoded(HubSettings(allow_anonymous=False))
        )
        await slow.directory.refresh("shop")
    gate.open()
    wanted = Code.AUTH_FAILED if change == "revoked" else Code.ANONYMOUS_DENIED
    assert await publishing == wanted
    assert hub.channels["room:1"].serial.offset == 0


async def while_authenticating(desk: Desk, meanwhile: Callable[[], Any]) -> int:
    """The error of a request during whose authentication something happens; 0 if it is let in."""
    desk.doorman.know("shop", b"ann", Identity("ann"))
    desk.doorman.gate = asyncio.Event()
    asking = asyncio.ensure_future(find_caller(desk.env, "shop", "ann", ""))
    await desk.doorman.asked.wait()
    await meanwhile()
    desk.doorman.gate.set()
    try:
        await asking
    except ArautoError as error:
        return error.code
    return 0


async def test_a_caller_who_is_revoked_while_the_hub_opens_again_is_not_let_in(desk: Desk) -> None:
    assert await while_authenticating(desk, lambda: revoke(desk)) == Code.AUTH_FAILED


async def test_a_caller_is_not_let_in_by_whom_the_hub_no_longer_asks(desk: Desk) -> None:
    other = HubSettings(jwt=JwtSettings(secret="a secret of at least 32 characters"))

    async def change() -> None:
        await desk.directory.close_hub("shop")
        await desk.storage.settings.put("hub", "shop", "", encoded(other))

    assert await while_authenticating(desk, change) == Code.AUTH_UNAVAILABLE


async def test_a_caller_whose_hub_closed_meanwhile_finds_it_again(desk: Desk) -> None:
    assert await while_authenticating(desk, lambda: desk.directory.close_hub("shop")) == 0


# --- a stream, and the administrator --------------------------------------------------------------------


async def test_who_is_revoked_while_the_hub_of_a_new_session_opens_does_not_enter_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_hub = Directory.get

    async def get(self: Directory, name: str, **options: Any) -> Any:
        hub = await open_hub(self, name, **options)
        monkeypatch.setattr(Directory, "get", open_hub)
        await revoke(desk)
        return hub

    desk.doorman.know("shop", b"ann", Identity("ann"))
    monkeypatch.setattr(Directory, "get", get)
    with pytest.raises(ArautoError) as refused:
        await enter(desk.env, "shop", "a-session", "ann", "10.0.0.1")
    assert refused.value.code == Code.AUTH_FAILED


async def test_a_user_who_connects_while_the_revocation_looks_for_the_hub_is_sent_away(
    desk: Desk,
) -> None:
    class Opening(Directory):
        async def read_state(self, name: str) -> HubState | None:
            if not self.hubs:
                self.hubs[name] = await desk.directory.get(name)
            return await super().read_state(name)

    options: dict[str, Any] = {"defaults": HubSettings(), "builtin_rules": Rules()}
    directory = Opening(desk.world.env, **options, allow_dynamic=True)
    states = States(directory, desk.storage.settings, **options, dynamic_hubs=True)
    assert await states.running("shop") is await desk.directory.get("shop")
