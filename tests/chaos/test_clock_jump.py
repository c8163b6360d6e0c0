"""A node whose wall clock is moved by an hour, forth and back, while clients are connected."""

from pathlib import Path

import pytest

from arauto.clock import SystemClock
from arauto.codec.events import (
    Ack,
    Ping,
    Pong,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.model import Serial
from arauto.node import Node
from tests.chaos.conftest import Say
from tests.chaos.deadline import within
from tests.integration.conftest import make_config
from tests.integration.wire import Wire, connect

HOUR_MS = 3_600_000


class JumpingClock(SystemClock):
    """The real clock, except that the wall clock can be set."""

    __slots__ = ("offset_ms",)

    def __init__(self) -> None:
        super().__init__()
        self.offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms


async def start(tmp_path: Path, clock: JumpingClock) -> Node:
    rules = {"clientPublish": True, "store": "all"}
    config = make_config(
        storage={"kind": "sqlite", "dataDir": str(tmp_path)},
        hub={"defaults": {"defaultPublic": True}, "defaultRules": rules},
    )
    node = Node(config, clock=clock)
    await node.start()
    return node


async def publish(wire: Wire, payload: bytes) -> Serial:
    item = PublishItem(channel="orders", payload=payload, idempotency_key=payload.decode())
    ack = await wire.ask(PublishRequest(id=1, items=(item,)), Ack)
    assert ack.results[0].serial is not None
    return ack.results[0].serial


@within(60)
@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_clients_stay_connected_and_recover_over_a_jump_and_a_restart(
    tmp_path: Path, jump_ms: int, say: Say
) -> None:
    clock = JumpingClock()
    node = await start(tmp_path, clock)
    wire = await connect(f"ws://127.0.0.1:{node.port.port}")
    items = (SubscribeItem(channel="orders"),)
    await wire.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    serials = [await publish(wire, b"before")]
    clock.offset_ms += jump_ms
    serials.append(await publish(wire, b"after"))
    assert await wire.ask(Ping(id=3), Pong)
    assert await wire.messages(2) == [b"before", b"after"]
    assert not wire.closed.is_set()
    await node.stop()

    node = await start(tmp_path, clock)
    back = await connect(f"ws://127.0.0.1:{node.port.port}")
    items = (SubscribeItem(channel="orders", since=serials[0]),)
    reply = await back.ask(SubscribeRequest(id=2, items=items), SubscribeReply)
    assert reply.results[0].recovered
    assert await back.messages(1) == [b"after"]
    serials.append(await publish(back, b"more"))
    await back.close()
    await node.stop()
    assert [serial.offset for serial in serials] == [1, 2, 3]
    assert len({serial.epoch for serial in serials}) == 1
    say(f"wall clock {jump_ms // HOUR_MS:+d} h under a node: 3 ok, 0 lost, 0 duplicated")
