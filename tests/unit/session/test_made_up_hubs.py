"""What a stranger makes up is small, short-lived and bounded, until somebody known uses it."""

import asyncio
from typing import Any

import msgspec
import pytest

from arauto.codec.events import AuthRequest
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.continuity import Continuity
from arauto.hub.environment import HubLimits
from arauto.hub.hub import Hub
from arauto.hub.made_on_use import MadeOnUse, StrangerLimits
from arauto.model import Identity
from arauto.settings import HubSettings, Quotas
from tests.unit.session.conftest import MakeDesk
from tests.unit.session.desk import Desk, publish

ADDRESS = "203.0.113.7"
QUICK = HubLimits(hub_close_s=60, channel_close_s=20)
FEW = StrangerLimits(hubs_max=5, hubs_per_address_max=3, close_s=10, sessions_max=2)
PUBLIC = HubSettings(default_public=True)


async def code_of(desk: Desk, hub: str, stranger: str | None = ADDRESS) -> int:
    """What a visitor who does not stay is refused with; 0 = let in."""
    try:
        await desk.directory.get(hub, stranger=stranger)
    except ArautoError as error:
        return error.code
    return 0


async def test_a_strangers_hub_closes_soon_after_it_is_empty(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=QUICK, strangers=FEW)
    client = await desk.connect("made-up", stranger=ADDRESS)
    await desk.connect("known")
    await desk.advance(15)
    assert sorted(desk.directory.hubs) == ["known", "made-up"], "somebody is there"
    await client.drop()
    await desk.advance(9)
    assert "made-up" in desk.directory.hubs
    await desk.advance(3)
    assert list(desk.directory.hubs) == ["known"]


async def test_an_address_gets_its_room_back_when_its_hubs_close(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=QUICK, strangers=FEW)
    full = [0, 0, 0, Code.TOO_MANY_HUBS]
    assert [await code_of(desk, f"a-{n}") for n in range(4)] == full
    assert await code_of(desk, "a-1") == 0, "it is open: nothing is made"
    await desk.advance(15)
    assert desk.directory.hubs == {}
    assert [await code_of(desk, f"b-{n}") for n in range(4)] == full
    assert desk.directory.made_on_use.stranger_count == 3


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
        ("unix", "", False),
    ],
)
async def test_addresses_of_one_network_share_their_room(
    make_desk: MakeDesk, one: str, other: str, shared: bool
) -> None:
    desk = make_desk(strangers=StrangerLimits(hubs_per_address_max=1))
    assert await code_of(desk, "first", one) == 0
    assert await code_of(desk, "second", other) == (Code.TOO_MANY_HUBS if shared else 0)


async def test_strangers_of_many_addresses_leave_room_for_who_is_known(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(strangers=FEW, hubs_max=6)
    codes = [await code_of(desk, f"hub-{n}", f"198.51.100.{n}") for n in range(8)]
    assert codes == [0] * 5 + [Code.TOO_MANY_HUBS] * 3
    assert await code_of(desk, "known", None) == 0
    assert await code_of(desk, "one-too-many", None) == Code.OVERLOADED


async def test_a_hub_with_settings_always_has_a_place(make_desk: MakeDesk) -> None:
    desk = make_desk(strangers=FEW, hubs_max=1)
    assert await code_of(desk, "made-up") == 0
    for name in ("tenant-1", "tenant-2"):
        await desk.storage.settings.put("hub", name, "", msgspec.json.encode(PUBLIC))
        assert await code_of(desk, name) == 0, "whoever comes first"
    assert await code_of(desk, "another", None) == Code.OVERLOADED
    assert len(desk.directory.hubs) == 3


async def test_a_strangers_hub_is_small_until_somebody_known_uses_it(make_desk: MakeDesk) -> None:
    desk = make_desk(hub_limits=QUICK, strangers=FEW)
    for _ in range(2):
        await desk.connect("shop", stranger=ADDRESS)
    with pytest.raises(ArautoError) as caught:
        await desk.connect("shop", stranger=ADDRESS)
    assert caught.value.code is Code.TOO_MANY_SESSIONS
    desk.doorman.know("shop", b"ann", Identity("ann"))
    await desk.connect("shop", credentials=b"ann")
    hub = desk.directory.hubs["shop"]
    assert hub.quotas == PUBLIC.quotas
    assert desk.directory.made_on_use.stranger_count == 0
    for subscriber in list(hub.sessions.values()):
        subscriber.session.closed(Code.CONNECTION_LOST)
    await desk.advance(30)
    assert "shop" in desk.directory.hubs, "it stays as long as any other"


async def test_a_strangers_hub_holds_few_bytes_until_somebody_known_uses_it(
    make_desk: MakeDesk,
) -> None:
    few = StrangerLimits(
        live_history_bytes_max=10_000,
        idempotency_bytes_max=15_000,
        retained_bytes_max=20_000,
        backlogs_bytes_max=30_000,
        documents_bytes_max=40_000,
    )
    desk = make_desk(strangers=few)
    client = await desk.connect("shop", stranger=ADDRESS)
    for number in range(50):
        await client.do(publish(f"room:{number % 5}", b"x" * 1_000, id=number + 1))
    hub = desk.directory.hubs["shop"]
    assert hub.holdings.live_history.used_bytes <= 10_000
    assert hub.counters.history_evicted >= 40
    quotas = hub.quotas
    assert quotas.idempotency_bytes_max == 15_000
    assert (quotas.retained_bytes_max, quotas.backlogs_bytes_max, quotas.documents_bytes_max) == (
        20_000,
        30_000,
        40_000,
    )
    assert not hub.holdings.retained.take(20_001)
    assert not hub.holdings.backlogs.take(30_001)
    assert not hub.holdings.documents.take(40_001)
    await desk.directory.get("shop")
    assert hub.quotas == PUBLIC.quotas
    assert hub.holdings.retained.take(20_001)
    evicted = hub.counters.history_evicted
    await client.do(publish("room:1", b"x" * 9_000, b"x" * 9_000, id=99))
    assert hub.counters.history_evicted == evicted


def test_a_strangers_quota_is_never_above_the_configured_one_and_none_stays_none() -> None:
    made = MadeOnUse(0, StrangerLimits(retained_bytes_max=0, documents_bytes_max=500))
    made.enter("shop", ADDRESS)
    quotas = Quotas(retained_bytes_max=700, documents_bytes_max=300, live_history_bytes_max=0)
    found = made.settings("shop", HubSettings(quotas=quotas)).quotas
    assert (found.retained_bytes_max, found.documents_bytes_max) == (700, 300)
    assert found.live_history_bytes_max == StrangerLimits().live_history_bytes_max


async def test_a_stranger_who_authenticates_is_one_no_longer(make_desk: MakeDesk) -> None:
    desk = make_desk(strangers=FEW)
    client = await desk.connect("shop", stranger=ADDRESS)
    assert desk.directory.hubs["shop"].quotas.sessions_max == 2
    desk.doorman.know("shop", b"ann", Identity("ann"))
    await client.do(AuthRequest(id=1, credentials=b"ann"))
    await desk.settle()
    assert desk.directory.hubs["shop"].quotas == PUBLIC.quotas


async def test_settings_make_a_strangers_hub_a_tenants_and_back(make_desk: MakeDesk) -> None:
    desk = make_desk(strangers=FEW, hubs_max=2)
    await desk.connect("shop", stranger=ADDRESS)
    await desk.set("hub", "shop", "", HubSettings(quotas=Quotas(sessions_max=7)))
    assert desk.directory.hubs["shop"].quotas.sessions_max == 7
    assert desk.directory.made_on_use.stranger_count == 0
    assert [await code_of(desk, name, None) for name in "ab"] == [0, 0], "it no longer counts"
    await desk.storage.settings.delete("hub", "shop", "")
    await desk.directory.refresh("shop")
    assert desk.directory.hubs["shop"].quotas == PUBLIC.quotas
    assert await code_of(desk, "c", None) == Code.OVERLOADED, "it counts again"


async def test_somebody_known_is_not_refused_for_a_stranger_who_asked_first(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(strangers=StrangerLimits(hubs_max=1))
    await desk.connect("made-up", stranger=ADDRESS)
    outcomes = await asyncio.gather(code_of(desk, "shop"), code_of(desk, "shop", None))
    assert list(outcomes) == [Code.TOO_MANY_HUBS, 0]


async def test_a_hub_that_could_not_be_opened_takes_no_place(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(strangers=FEW, hubs_max=1)

    def fail(*_: object) -> None:
        raise StorageError(Code.STORAGE_UNAVAILABLE, "away")

    with monkeypatch.context() as broken:
        broken.setattr(desk.storage.kv, "scan", fail)
        assert await code_of(desk, "shop") == Code.STORAGE_UNAVAILABLE
    assert dict(desk.world.env.metrics.open_hubs) == {}
    assert await code_of(desk, "another") == 0


async def test_looking_at_a_hub_does_not_open_it(make_desk: MakeDesk) -> None:
    desk = make_desk()
    assert (await desk.directory.look("shop")).settings == PUBLIC
    await desk.storage.settings.put("hub", "shop", "", b'{"allowedOrigins": ["https://a.example"]}')
    assert (await desk.directory.look("shop")).settings.allowed_origins == ("https://a.example",)
    assert desk.directory.hubs == {}
    with pytest.raises(ArautoError) as caught:
        await make_desk(allow_dynamic=False).directory.look("nowhere")
    assert caught.value.code is Code.UNKNOWN_HUB


async def test_a_hub_that_closes_before_its_visitor_is_in_is_opened_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its opening and the visitor's next turn an administrator may close it."""
    note = Continuity.note_settings
    opened: list[Hub] = []

    async def noted(*args: Any) -> None:
        await note(*args)
        if not opened:
            # Runs right after the opening, before whoever waits for it.
            asyncio.get_running_loop().call_soon(close)

    def close() -> None:
        opened.append(desk.directory.hubs["shop"])
        desk.world.env.tasks.spawn(desk.directory.close_hub("shop"))

    monkeypatch.setattr(Continuity, "note_settings", noted)
    hub = await desk.directory.get("shop")
    assert opened != []
    assert hub is not opened[0]
    assert desk.directory.hubs["shop"] is hub


async def test_a_hub_that_opens_while_the_node_stops_does_not_stay(desk: Desk) -> None:
    visit = asyncio.ensure_future(desk.directory.get("shop"))
    await asyncio.sleep(0)
    await desk.directory.close()
    with pytest.raises(ArautoError) as caught:
        await visit
    assert caught.value.code is Code.GOING_AWAY
    assert desk.directory.hubs == {}
