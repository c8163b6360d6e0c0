"""A stopping node sends its clients away, whatever they are connected by."""

import asyncio

import httpx

from arauto.codec.events import ErrorEvent
from arauto.errors import Code
from tests.integration.conftest import StartNode
from tests.integration.wire import connect


async def test_streams_and_sockets_are_told_and_do_not_hold_up_the_stop(
    start_node: StartNode,
) -> None:
    """An open SSE stream once used up the whole grace time."""
    node = await start_node(node={"shutdownGraceS": 30})
    wire = await connect(node.url)
    lines: list[str] = []
    opened = asyncio.Event()

    async def read() -> None:
        url = f"{node.http_url}/v1/sse?hub=shop&channel=news"
        async with httpx.AsyncClient() as client, client.stream("GET", url) as stream:
            async for line in stream.aiter_lines():
                lines.append(line)
                opened.set()

    reading = asyncio.ensure_future(read())
    await opened.wait()
    async with asyncio.timeout(5):
        await node.node.stop()
        await reading
    assert any(f'"code":{int(Code.GOING_AWAY)}' in line for line in lines)
    assert (await wire.next(ErrorEvent)).code == Code.GOING_AWAY
