"""Who is sent away: a client whose requests are refused in a row, with none that succeeds between them."""

import pytest

from arauto.codec.events import (
    AuthRequest,
    DocumentChangeRequest,
    DocumentGetRequest,
    HistoryRequest,
    OccupancyRequest,
    Operation,
    Ping,
    PresenceRequest,
    Request,
    UnsubscribeRequest,
)
from arauto.errors import Code
from arauto.model import Identity, When
from arauto.session.environment import SessionLimits
from arauto.settings import Rules
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import grants, publish, subscribe

RULES = Rules(public=True, client_publish=True, presence=True, occupancy=True, store=When.ALL)
ROUNDS = 6


def changed(op: str, path: str, id: int = 7) -> DocumentChangeRequest:
    operations = (Operation(op=op, path=path, value=1 if op == "add" else None),)
    return DocumentChangeRequest(id=id, channel="doc:1", operations=operations)


#: What a client does in one round between two refusals.
SUCCEEDS: dict[str, tuple[Request, ...]] = {
    "publish": (publish("room:1", b"x", id=7),),
    "publish without an answer": (publish("room:1", b"x", id=0),),
    "auth": (AuthRequest(id=7, credentials=b"ann"),),
    "subscribe": (subscribe("room:2", id=7), UnsubscribeRequest(id=7, channels=("room:2",))),
    "presence": (PresenceRequest(id=7, channel="room:1"),),
    "occupancy": (OccupancyRequest(id=7, channel="room:1"),),
    "history": (HistoryRequest(id=7, channel="room:1"),),
    "document_get": (DocumentGetRequest(id=7, channel="doc:1"),),
    "document_change": (changed("add", "/a"),),
    "document_change without an answer": (changed("add", "/a", id=0),),
}


@pytest.mark.parametrize("requests", SUCCEEDS.values(), ids=SUCCEEDS)
async def test_refusals_with_successes_between_them_are_not_in_a_row(
    make_desk: MakeDesk, requests: tuple[Request, ...]
) -> None:
    desk = make_desk(rules=RULES, limits=SessionLimits(errors_max=2))
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    client = await desk.connect()
    await client.subscribe("room:1")
    for _ in range(ROUNDS):
        await client.do(changed("remove", "/none"))
        for request in requests:
            await client.do(request)
        assert client.session.errors == 0
    assert client.is_connected()


async def test_one_that_succeeds_in_part_is_a_success(make_desk: MakeDesk) -> None:
    desk = make_desk(rules=RULES, limits=SessionLimits(errors_max=2))
    client = await desk.connect()
    for number in range(ROUNDS):
        await client.do(subscribe("a#b", f"room:{number}", "c#d", id=7))
        assert client.session.errors <= 1
    assert client.is_connected()


@pytest.mark.parametrize(
    "request_",
    [
        changed("remove", "/none"),
        AuthRequest(id=7, credentials=b"eve"),
        subscribe("a#b", id=7),
        subscribe("a#b", id=0),
        UnsubscribeRequest(id=7, channels=("none",)),
        HistoryRequest(id=7, channel="#"),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_heartbeats_between_refusals_change_nothing(
    make_desk: MakeDesk, request_: Request
) -> None:
    desk = make_desk(rules=RULES, limits=SessionLimits(errors_max=2))
    client = await desk.connect()
    for _ in range(3):
        assert client.is_connected()
        await client.do(request_)
        await client.do(Ping(id=9))
    assert client.closed_with is Code.TOO_MANY_ERRORS
