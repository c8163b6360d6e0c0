"""What has to be tried, grants and patterns, is tried some in a turn of the loop, whatever asks for it."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from arauto.codec.events import AuthReply, AuthRequest, SubscribeReply, SubscribeRequest
from arauto.errors import Code
from arauto.grants import GrantSet
from arauto.hub.environment import HubLimits
from arauto.model import Identity
from arauto.settings import HubSettings, Quotas
from arauto.tasks import Allowance
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, subscribe

UNLIMITED = HubSettings(quotas=Quotas(session_messages_per_s=0))
#: Each is tried for each name, and none of them helps but the last.
USELESS = (*(f"room:#:{n}" for n in range(500)), "room:*x")
#: Each takes some eight tokens to decide on.
NAMES = tuple(f"room:{'y' * 200}{n}x" for n in range(60))
TURN_EFFORT = 75 * 131_072


async def known(desk: Desk) -> Client:
    desk.doorman.know("shop", b"ann", Identity("ann", grants(*USELESS)))
    client = await desk.connect()
    await client.ask(AuthRequest(id=1, credentials=b"ann"), AuthReply)
    await client.subscribe("room:x", "room:xx*x")  # the grants are compiled, once per process
    client.inbox.clear()
    return client


def effort(client: Client) -> int:
    """Of deciding for the session, by the grants it has now."""
    return client.session.granted.effort if client.session.granted is not None else 0


async def steps(desk: Desk, measure: Callable[[], int]) -> list[int]:
    """What each turn of the loop takes, until nothing is left to do."""
    counts = [measure()]
    while len(desk.world.tasks):
        desk.clock.run_soon()
        await asyncio.sleep(0)
        counts.append(measure())
    return [after - before for before, after in pairwise(counts)]


@pytest.mark.parametrize("positions_len", [10_000, 20], ids=["joined", "slice by slice"])
async def test_the_channels_of_a_pattern_are_decided_on_some_in_a_turn(
    make_desk: MakeDesk, positions_len: int
) -> None:
    limits = HubLimits(pattern_positions_len_max=positions_len)
    desk = make_desk(settings=UNLIMITED, hub_limits=limits)
    client = await known(desk)
    for name in NAMES:
        client.session.hub.channel(name)
    granted = client.session.granted
    assert granted is not None
    before = granted.effort
    client.send(subscribe("room:y*x", id=1))
    by_turn = await steps(desk, lambda: effort(client))
    [reply] = client.take_all(SubscribeReply)
    assert reply.results[0].error is None
    assert granted.effort - before > 50 * 500 * 2_000
    assert max(by_turn) < TURN_EFFORT
    channels = client.session.hub.channels
    assert all(channels[name].has(client.session.subscriber) for name in NAMES)


async def test_what_a_session_holds_is_decided_on_some_in_a_turn_when_it_becomes_someone_else(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(settings=UNLIMITED)
    client = await known(desk)
    await client.subscribe(*NAMES)
    desk.doorman.know(
        "shop", b"other", Identity("ann", grants(*USELESS[:-1], "room:*:*", "room:y*1x"))
    )
    trying = desk.env.hub.trying
    spend = trying.spend
    spent: list[float] = []

    def note(_: Allowance, amount: float) -> None:
        spent.append(amount)
        spend(amount)

    monkeypatch.setattr(Allowance, "spend", note)
    client.send(AuthRequest(id=2, credentials=b"other"))
    by_turn = await steps(desk, lambda: int(sum(spent)))
    assert client.take(AuthReply).success
    assert sum(spent) > 60 * 7
    assert max(by_turn) < 75
    held = [name for name in client.session.subscriptions if name in NAMES]
    assert held == [name for name in NAMES if name.endswith("1x")]


async def test_who_was_revoked_while_it_was_decided_what_they_may_is_refused(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(settings=UNLIMITED)
    client = await known(desk)
    await client.subscribe(*NAMES)
    desk.doorman.know("shop", b"bob", Identity("bob", grants(*USELESS, "x")))
    client.send(AuthRequest(id=2, credentials=b"bob"))
    for _ in range(3):
        desk.clock.run_soon()
        await asyncio.sleep(0)
    assert client.session.user == "ann"
    desk.doorman.revoked.add(("shop", "bob"))
    await desk.settle()
    reply = client.take(AuthReply)
    assert reply.error is not None
    assert reply.error.code == Code.AUTH_FAILED
    assert client.session.user == "ann"


async def test_a_session_that_becomes_someone_else_looks_for_patterns_some_in_a_turn(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(
        settings=HubSettings(default_public=True, quotas=Quotas(session_messages_per_s=0))
    )
    other, client = await desk.connect(), await desk.connect()
    for n in range(0, 500, 100):
        await other.subscribe(*(f"b*{'b' * 100}{k:03}*c" for k in range(n, n + 100)), id=n + 1)
    names = [f"{'b' * 200}{n:03}c" for n in range(200)]
    request = SubscribeRequest(id=1, items=subscribe("b*", *names[:100]).items)
    for name in names:
        client.session.hub.channel(name)
    await client.do(request)
    matcher = client.session.hub.patterns
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    client.send(AuthRequest(id=2, credentials=b"ann"))
    before = matcher.effort
    by_turn = await steps(desk, lambda: matcher.effort)
    assert client.take(AuthReply).success
    assert matcher.effort - before > 200 * 500 * 5
    assert max(by_turn) < 75 * 200


def test_what_the_last_thousand_names_decided_is_not_decided_again() -> None:
    granted = GrantSet(grants("a:#:b"))
    names = [f"a:{n}:c" for n in range(1_900)]
    for name in names:
        assert not granted.may_subscribe(name)
    before = granted.effort
    for name in names[-1_000:]:
        assert not granted.may_subscribe(name)
    assert granted.effort == before
