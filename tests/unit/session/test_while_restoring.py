"""What happens while a session is being taken up again: its channels are opened, which may take a while."""

import asyncio

import msgspec
import pytest

from arauto.codec.events import (
    AuthReply,
    AuthRequest,
    ErrorEvent,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeReply,
)
from arauto.errors import Code
from arauto.features.presence import PresenceFeature
from arauto.hub.environment import HubLimits
from arauto.model import Identity, Serial, When
from arauto.settings import HubSettings, Quotas, Rules
from arauto.testing.clock import FakeClock
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Client, Desk, grants, publish
from tests.unit.session.test_restoring import SlowQuestions

STORED = Rules(client_publish=True, store=When.ALL, live_history_len=0)
LASTS_S = 100


def at_slow_channels(make_desk: MakeDesk) -> tuple[Desk, SlowQuestions]:
    clock = FakeClock()
    journal = SlowQuestions(clock)
    settings = HubSettings(default_public=True)
    return make_desk(rules=STORED, settings=settings, clock=clock, journal=journal), journal


async def gone(desk: Desk, *names: str) -> tuple[Client, str]:
    """A session that was lost so long ago that its channels have closed, and its key."""
    identity = Identity("ann", grants("*"), expires_ms=desk.clock.wall_ms() + LASTS_S * 1_000)
    desk.doorman.know("shop", b"ann", identity)
    client = await desk.connect(credentials=b"ann")
    key = client.take(RestoreKey).key
    await client.subscribe(*names)
    await client.drop()
    await desk.advance(70)
    return client, key


async def coming_back(
    desk: Desk, journal: SlowQuestions, key: str, places: dict[str, Serial] | None = None
) -> Client:
    """On another connection, whose channels are about to be opened."""
    client = await desk.connect()
    client.inbox.clear()
    journal.gate = asyncio.Event()
    client.send(RestoreRequest(id=5, key=key, positions=places or {}))
    await journal.asked.wait()
    return client


async def let_happen(desk: Desk, seconds: float = 0) -> None:
    """While a request waits."""
    desk.clock.advance(seconds)
    for _ in range(20):
        desk.clock.run_soon()
        await asyncio.sleep(0)


async def go_on(desk: Desk, journal: SlowQuestions) -> None:
    assert journal.gate is not None
    journal.gate.set()
    await desk.settle()


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not noticed yet"])
async def test_an_authentication_that_ends_meanwhile_is_not_restored(
    make_desk: MakeDesk, noticed: bool
) -> None:
    """Seen: the client was told who it was, with grants, for ever; and it was nobody."""
    desk, journal = at_slow_channels(make_desk)
    lost, key = await gone(desk, "room:1", "room:2")
    back = await coming_back(desk, journal, key)
    if noticed:
        await let_happen(desk, LASTS_S - 69)
        assert back.session.identity is None
    else:
        desk.clock.jump_wall(LASTS_S * 1_000)
    await go_on(desk, journal)
    assert back.take_all(Restored) == []
    refusal = back.take(ErrorEvent, lambda event: event.id == 5)
    assert refusal.code == Code.TOKEN_EXPIRED
    assert back.session.identity is None
    assert back.session.subscriptions == {}
    hub = await desk.directory.get("shop")
    assert list(hub.sessions.values()) == [back.session.subscriber]
    assert back.session.id != lost.session.id
    assert back.session.sender.user == ""
    assert hub.sessions_of("ann") == []


async def test_a_key_stays_used_though_the_session_had_something_to_save_before_it_was_restored(
    make_desk: MakeDesk,
) -> None:
    """Seen: what was about to be written for the session's own key was written under the one it had used."""
    desk, journal = at_slow_channels(make_desk)
    _, key = await gone(desk, "room:1")
    desk.doorman.know("shop", b"bob", Identity("bob", grants("*")))
    back = await desk.connect(credentials=b"bob")
    journal.gate = asyncio.Event()
    back.send(RestoreRequest(id=5, key=key))
    await journal.asked.wait()
    await let_happen(desk, desk.env.limits.restore_save_delay_s)
    await go_on(desk, journal)
    assert back.take(Restored).user == "ann"
    other = await desk.connect()
    await other.do(RestoreRequest(id=6, key=key))
    assert other.take(ErrorEvent).code == Code.BAD_RESTORE_KEY


async def test_whose_authentication_ended_meanwhile_can_authenticate_anew(
    make_desk: MakeDesk,
) -> None:
    desk, journal = at_slow_channels(make_desk)
    _, key = await gone(desk, "room:1")
    back = await coming_back(desk, journal, key)
    await let_happen(desk, LASTS_S - 69)
    await go_on(desk, journal)
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    assert (await back.ask(AuthRequest(id=6, credentials=b"ann"), AuthReply)).success
    assert list(back.session.subscriptions) == ["u:ann"]
    next_key = back.take(RestoreKey).key
    await back.drop()
    again = await desk.connect()
    assert (await again.ask(RestoreRequest(id=7, key=next_key), Restored)).user == "ann"


async def test_who_was_restored_in_part_when_it_expired_leaves_no_member_behind(
    make_desk: MakeDesk,
) -> None:
    clock = FakeClock()
    journal = SlowQuestions(clock)
    desk = make_desk(
        rules=msgspec.structs.replace(STORED, presence=True),
        settings=HubSettings(
            default_public=True, user_channel=False, quotas=Quotas(session_messages_per_s=0)
        ),
        hub_limits=HubLimits(pattern_positions_len_max=100),
        clock=clock,
        journal=journal,
    )
    lost, key = await gone(desk, "hall:*", "room:1")
    hub = await desk.directory.get("shop")
    channels = [await hub.open_channel(f"hall:{n:04}") for n in range(1_200)]
    back = await coming_back(desk, journal, key)
    assert all(channel.has(back.session.subscriber) for channel in channels)
    assert back.session.id == lost.session.id
    desk.clock.jump_wall(LASTS_S * 1_000)
    await go_on(desk, journal)
    assert back.take(ErrorEvent, lambda event: event.id == 5).code == Code.TOKEN_EXPIRED
    assert back.session.id != lost.session.id
    features = [channel.feature(PresenceFeature.name) for channel in channels]
    totals = [each.snapshot().total for each in features if isinstance(each, PresenceFeature)]
    assert totals == [0] * 1_200


async def test_a_user_channel_is_recovered_though_settings_change_meanwhile(
    make_desk: MakeDesk,
) -> None:
    """Seen: the new settings had it joined without what was missed, and restoring it failed then."""
    desk, journal = at_slow_channels(make_desk)
    _, key = await gone(desk, "room:1")
    desk.doorman.know("shop", b"root", Identity("root", grants("*")))
    writer = await desk.connect(credentials=b"root")
    hub = await desk.directory.get("shop")
    place = (await hub.open_channel("u:ann")).serial
    await writer.do(publish("u:ann", b"missed"))
    back = await coming_back(desk, journal, key, {"u:ann": place})
    await desk.storage.settings.put("rules", "shop", "other", b"{}")
    await desk.directory.refresh("shop")
    await let_happen(desk)
    assert back.take_all(SubscribeReply) == []
    await go_on(desk, journal)
    results = {result.channel: result for result in back.take(Restored).results}
    assert [result.error for result in results.values()] == [None, None]
    assert results["u:ann"].recovered
    assert back.payloads() == [b"missed"]
    assert sorted(back.session.subscriptions) == ["room:1", "u:ann"]


async def test_a_user_channel_that_was_about_to_be_joined_is_recovered_all_the_same(
    make_desk: MakeDesk,
) -> None:
    """Its client authenticates, and then restores."""
    desk, journal = at_slow_channels(make_desk)
    desk.doorman.know("shop", b"ann", Identity("ann", grants("*")))
    client = await desk.connect(credentials=b"ann")
    key = client.take(RestoreKey).key
    hub = await desk.directory.get("shop")
    place = hub.channels["u:ann"].serial
    await client.drop()
    desk.doorman.know("shop", b"root", Identity("root", grants("*")))
    writer = await desk.connect(credentials=b"root")
    await writer.do(publish("u:ann", b"missed"))
    await desk.advance(80)
    assert "u:ann" not in hub.channels
    back = await desk.connect()
    journal.gate = asyncio.Event()
    back.send(AuthRequest(id=4, credentials=b"ann"))
    await let_happen(desk)
    assert back.take(AuthReply).success
    back.send(RestoreRequest(id=5, key=key, positions={"u:ann": place}))
    await let_happen(desk)
    await go_on(desk, journal)
    [result] = back.take(Restored).results
    assert (result.error, result.recovered) == (None, True)
    assert back.payloads() == [b"missed"]
