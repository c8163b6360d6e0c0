"""From a real node's journal to an answer: what it wrote is what the audit reads."""

import asyncio
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from arauto.codec.events import (
    Ack,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.node import Node
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.audit.questions import Question, about_channel, about_message
from arauto.pipeline.check import check_lake, journal_places
from arauto.pipeline.feed import journal_url
from arauto.pipeline.lake.table import Lake
from arauto.storage.export import export
from tests.integration.conftest import RunningNode, make_config
from tests.integration.wire import connect
from tests.pipeline.archive.support import take_segments


def _config(data_dir: Path) -> Any:
    rules = {"clientPublish": True, "store": "all"}
    return make_config(
        storage={"kind": "sqlite", "dataDir": str(data_dir)},
        hub={"defaults": {"defaultPublic": True}, "defaultRules": rules},
    )


async def _talk(config: Any) -> None:
    """One listens to a pattern, one speaks, and the listener leaves before the last word."""
    node = Node(config)
    await node.start()
    try:
        url = RunningNode(node).url
        listener, speaker = await connect(url), await connect(url)
        wanted = SubscribeRequest(id=1, items=(SubscribeItem(channel="stock:*"),))
        await listener.ask(wanted, SubscribeReply)
        for number, name in ((1, "first"), (2, "second")):
            item = PublishItem(channel="stock:1", payload=name.encode(), key=name)
            await speaker.ask(PublishRequest(id=number, items=(item,)), Ack)
            if number == 1:
                await listener.next(Publication)
                await listener.ask(
                    UnsubscribeRequest(id=2, channels=("stock:*",)), UnsubscribeReply
                )
        await node.storage.journal.flush()
    finally:
        await node.stop()


def test_what_a_node_wrote_is_found_with_sender_and_recipients(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = _config(tmp_path / "data")
    asyncio.run(_talk(config))
    url, segments = journal_url(config), tmp_path / "segments"
    (name,) = journal_places(url) or {}
    export(url, name, segments, 10**6, 10**9)
    lake = Lake(spark, tmp_path / "lake")
    take_segments(lake, segments)
    for each in DERIVED:
        follow(lake, each)

    report = check_lake(lake, segments, lambda: journal_places(url))
    assert (report.problems, report.quarantine) == ([], {})
    listed = about_channel(lake, Question(), "stock:1").collect()
    assert [row.what for row in listed] == ["subscribed", "message", "unsubscribed", "message"]
    assert [row.detail.rpartition(", ")[2] for row in listed[1::2]] == ["first", "second"]
    assert ["to 1 sessions" in row.detail for row in listed[1::2]] == [True, False]
    assert {(row.transport, row.address) for row in listed[1::2]} == {("websocket", "127.0.0.1")}
    sent, went = about_message(lake, Question(), f"{name}:{listed[1].seq}").collect()
    assert (went.what, went.session) == ("went to", listed[0].session)
    assert sent.session == listed[1].session != went.session
