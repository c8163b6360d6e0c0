"""What tests say to a node most often."""

from typing import Any

from arauto.codec.events import (
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from tests.integration.wire import Wire

__all__ = ["FLAVOURS", "publish", "subscribed"]

FLAVOURS = ["arauto.v1.proto", "arauto.v1.json"]


def publish(channel: str, *payloads: bytes, id: int = 0, **options: Any) -> PublishRequest:
    items = tuple(PublishItem(channel=channel, payload=p, **options) for p in payloads)
    return PublishRequest(id=id, items=items)


async def subscribed(wire: Wire, *channels: str) -> SubscribeReply:
    items = tuple(SubscribeItem(channel=channel) for channel in channels)
    return await wire.ask(SubscribeRequest(id=900, items=items), SubscribeReply)
