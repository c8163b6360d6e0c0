"""Every channel type and every feature can leave a node as bytes and arrive whole on another one."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document.channel import DocumentChannel
from arauto.features.presence import PresenceFeature
from arauto.features.unavailable import UnavailableChannel
from arauto.hub.channel import Channel
from arauto.hub.hub import Hub
from arauto.hub.recovery import Recovery
from arauto.hub.sender import Sender
from arauto.model import When
from arauto.registry import CHANNEL_TYPES, FEATURES
from arauto.settings import Rules
from tests.unit.hub.world import Reader, World, join

#: One channel name per type; a new type needs a line here, and `content_of` below.
TYPES = {"room:1": Channel, "doc:1": DocumentChannel}

RULES = [
    Rules(
        public=True,
        store=store,
        live_history_len=history_len,
        retain=retain,
        presence=presence,
        occupancy=occupancy,
    )
    for store, history_len, retain, presence, occupancy in itertools.product(
        (When.NEVER, When.MARKED, When.ALL),
        (0, 3),
        (When.NEVER, When.ALL),
        (False, True),
        (False, True),
    )
]


def test_the_suite_covers_every_channel_type_and_every_feature() -> None:
    offered = {kind for kind in CHANNEL_TYPES.values() if kind is not UnavailableChannel}
    assert set(TYPES.values()) == offered | {Channel}
    for spec in FEATURES:
        assert {spec.wanted(rules) for rules in RULES} == {True, False}


async def filled(world: World, name: str) -> Channel:
    """A channel with a past: messages, keys, members, and whatever its type holds."""
    hub = world.hub()
    channel = await hub.open_channel(name)
    reader = Reader(hub, "session-1")
    reader.subscriber.user = "ann"
    reader.subscriber.extra = {"nick": "Ann"}
    join(channel, reader)
    world.publish(channel, *(b"%d" % n for n in range(6)), store=True, retain=True)
    world.publish(
        channel,
        b"keyed",
        sender=Sender("session-1", "ann"),
        idempotency_key="k",
        headers={"h": "v"},
        key="latest",
        content_type="text/plain",
    )
    if isinstance(channel, DocumentChannel):
        operations = [Operation(op="add", path="/a", value={"b": [1, b"\x00\xff", None, "é"]})]
        channel.change(operations, -1, Sender(), lambda version, error, visited: None)
    await world.settle()
    return channel


def fresh(rules: Rules, name: str, hub: str = "shop") -> tuple[World, Channel]:
    """The same channel on another node that knows nothing yet."""
    world = World(rules=rules, seed=2)
    kind: Callable[[Hub, str], Channel] = TYPES[name]
    return world, kind(world.hub(hub), name)


def content_of(channel: Channel) -> dict[str, object]:
    """All that others can see of a channel."""
    content: dict[str, object] = {
        "serial": channel.serial,
        "ts_ms": channel.ts_ms,
        "recent": list(channel.recent_after(0)),
        "floor": channel.recent_floor,
        "retained": channel.hub.retained.get(channel.name),
        "features": sorted(spec.name for spec in FEATURES if channel.feature(spec.name)),
    }
    presence = channel.feature("presence")
    if isinstance(presence, PresenceFeature):
        content["presence"] = presence.snapshot()
    if isinstance(channel, DocumentChannel):
        channel.look(lambda version, value: content.update(document=(version, value)))
    return content


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: _short(rules))
async def test_a_state_arrives_whole(rules: Rules, name: str) -> None:
    world = World(rules=rules)
    channel = await filled(world, name)
    state = channel.export_state()
    there, copy = fresh(rules, name)
    copy.import_state(state)
    assert content_of(copy) == content_of(channel)
    assert copy.export_state() == state
    # It goes on where the other one stopped.
    [again] = there.publish(copy, b"keyed", sender=Sender("s", "ann"), idempotency_key="k")
    assert again.answers == [(channel.serial, True, None)]
    [new] = there.publish(copy, b"next")
    await there.settle()
    assert new.serial > channel.serial
    assert new.serial.epoch == channel.epoch
    assert copy.recovery_from(new.serial) is Recovery.NOTHING_MISSED


@pytest.mark.parametrize("name", TYPES)
async def test_an_empty_channel_arrives_too(name: str) -> None:
    for rules in (RULES[0], RULES[-1]):
        world = World(rules=rules)
        channel = await world.channel(name)
        _, copy = fresh(rules, name)
        copy.import_state(channel.export_state())
        assert content_of(copy) == content_of(channel)


@pytest.mark.parametrize("name", TYPES)
async def test_a_state_for_another_channel_or_another_hub_is_refused(name: str) -> None:
    state = (await filled(World(rules=RULES[-1]), name)).export_state()
    for hub, other in (("shop2", name), ("shop", next(n for n in TYPES if n != name))):
        world, copy = fresh(RULES[-1], other, hub)
        with pytest.raises(ArautoError) as caught:
            copy.import_state(state)
        assert caught.value.code is Code.CONFLICT
        assert not copy.is_open
        assert len(world.hub(hub).retained) == 0
        assert copy.hub.retained.get(name) is None


@pytest.fixture(scope="module")
def states() -> dict[str, bytes]:
    async def make() -> dict[str, bytes]:
        return {n: (await filled(World(rules=RULES[-1]), n)).export_state() for n in TYPES}

    return asyncio.run(make())


@settings(max_examples=300)
@given(data=st.data(), name=st.sampled_from(sorted(TYPES)))
def test_a_damaged_state_is_refused_and_changes_nothing(
    states: dict[str, bytes], data: st.DataObject, name: str
) -> None:
    state = states[name]
    place = data.draw(st.integers(0, len(state) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                state[:place],
                state[:place]
                + bytes([state[place] ^ (1 << data.draw(st.integers(0, 7)))])
                + state[place + 1 :],
                state[:place] + state[place + 1 :],
                state + b"\x00",
                state + state,
            ]
        )
    )
    _, copy = fresh(RULES[-1], name)
    with pytest.raises(ArautoError):
        copy.import_state(damaged)
    assert not copy.is_open
    assert copy.hub.retained.get(name) is None


@settings(max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(sorted(TYPES)))
def test_garbage_is_refused(garbage: bytes, name: str) -> None:
    _, copy = fresh(RULES[-1], name)
    with pytest.raises(ArautoError):
        copy.import_state(garbage)


def _short(rules: Rules) -> str:
    features = [spec.name for spec in FEATURES if spec.wanted(rules)]
    return "+".join(features) + ("-all" if rules.store is When.ALL else "") or "none"
