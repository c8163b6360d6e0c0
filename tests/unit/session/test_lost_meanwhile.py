"""What happens to sessions whose connections are gone while they wait to be let go: nothing that counts."""

import asyncio

from arauto.codec.events import AuthRequest, Restored, RestoreKey, RestoreRequest
from arauto.errors import Code
from arauto.model import Identity
from arauto.settings import HubSettings, Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish
from tests.unit.session.test_many_at_once import a_crowd

OPEN = Rules(public=True, client_publish=True)


async def signed_in(desk: Desk) -> tuple[Client, str]:
    desk.doorman.know("shop", b"ann", Identity("ann", grants("vip:*")))
    client = await desk.connect(credentials=b"ann")
    return client, client.take(RestoreKey).key


async def lost_behind_a_crowd(desk: Desk, client: Client) -> None:
    crowd = await a_crowd(desk)
    for each in (*crowd, client):
        each.session.lost(Code.CONNECTION_LOST)
    assert not client.session.has_ended()


async def test_rights_that_are_taken_meanwhile_are_told_to_who_comes_back(
    make_desk: MakeDesk,
) -> None:
    """Seen: the subscription was not among those that were checked again, and nobody said why."""
    desk = make_desk(settings=HubSettings(), rules=OPEN)
    client, key = await signed_in(desk)
    writer = await desk.connect()
    reply = await client.subscribe("room:1", "hall:1", "room:*")
    places = {r.channel: r.serial for r in reply.results if r.serial is not None}
    await lost_behind_a_crowd(desk, client)
    settings = desk.storage.settings
    await settings.put("rules", "shop", "closed", b'{"public": false}')
    await settings.put("namespace", "shop", "room", b'{"rules": "closed"}')
    writer.send(publish("room:1", b"missed"))
    await desk.directory.refresh("shop")
    assert not client.session.has_ended()
    back = await desk.connect()
    restored = await back.ask(RestoreRequest(id=5, key=key, positions=places), Restored)
    errors = {r.channel: r.error.code if r.error else 0 for r in restored.results}
    denied = Code.SUBSCRIBE_DENIED
    assert errors == {"u:ann": 0, "room:1": denied, "hall:1": 0, "room:*": denied}
    assert back.payloads() == []


async def test_an_authentication_that_comes_through_meanwhile_leaves_the_key_that_is_known(
    make_desk: MakeDesk,
) -> None:
    """Its client never heard of another."""
    desk = make_desk(settings=HubSettings(default_public=True), rules=OPEN)
    client, key = await signed_in(desk)
    crowd = await a_crowd(desk)
    desk.doorman.gate = asyncio.Event()
    client.send(AuthRequest(id=1, credentials=b"ann"))
    for each in (*crowd, client):
        each.session.lost(Code.CONNECTION_LOST)
    desk.doorman.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not client.session.has_ended()
    await desk.settle()
    desk.doorman.gate = None
    back = await desk.connect()
    assert (await back.ask(RestoreRequest(id=5, key=key), Restored)).user == "ann"
