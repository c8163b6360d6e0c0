"""What subscribers see while stored messages are on their way to the disk."""

from typing import Any

import pytest

from arauto.codec.events import (
    Ack,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.storage.base import Done, JournalEntry, Kind
from tests.integration.conftest import StartNode
from tests.integration.wire import connect

STORED = {
    "defaults": {"defaultPublic": True},
    "defaultRules": {"clientPublish": True, "store": "all"},
}


async def test_a_subscriber_is_placed_before_messages_that_are_not_durable_yet(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place once included offsets nobody had been given, so clients took those messages for old."""
    node = await start_node(hub=STORED)
    journal: Any = node.node.storage.journal
    append = journal.append
    held: list[tuple[JournalEntry, Done]] = []

    def hold(entry: JournalEntry, done: Done) -> None:
        if entry.kind is Kind.MESSAGE:
            held.append((entry, done))
        else:
            append(entry, done)

    publisher, reader = await connect(node.url), await connect(node.url)
    first = PublishRequest(id=1, items=(PublishItem(channel="log", payload=b"0"),))
    shown = (await publisher.ask(first, Ack)).results[0].serial
    assert shown is not None
    monkeypatch.setattr(journal, "append", hold)
    items = tuple(PublishItem(channel="log", payload=b"%d" % n) for n in (1, 2))
    publisher.send(PublishRequest(id=2, items=items))
    while len(held) < 2:
        await publisher.ask(
            SubscribeRequest(id=3, items=(SubscribeItem(channel="x"),)), SubscribeReply
        )
    request = SubscribeRequest(id=1, items=(SubscribeItem(channel="log", since=shown),))
    result = (await reader.ask(request, SubscribeReply)).results[0]
    assert (result.serial, result.recovered) == (shown, True)
    for entry, done in held:
        append(entry, done)
    later = [(await reader.next(Publication)).message for _ in range(2)]
    assert [m.payload for m in later] == [b"1", b"2"]
    assert all(m.serial > shown for m in later)
