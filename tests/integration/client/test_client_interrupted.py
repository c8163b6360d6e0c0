"""A program that uses the blocking client, as its user ends it: with Ctrl-C."""

import asyncio
import signal
import sys

from tests.integration.conftest import RunningNode

PROGRAM = """
import sys
from arauto.client.blocking import Client

try:
    with Client(sys.argv[1], hub="shop") as c, c.subscribe("c") as sub:
        print("ready", flush=True)
        for message in sub:
            print(message.data, flush=True)
except KeyboardInterrupt:
    print("interrupted", c.state, flush=True)
"""


async def test_ctrl_c_ends_a_waiting_program_at_once_and_politely(node: RunningNode) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        PROGRAM,
        node.url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (out, err, process.returncode) == (b"interrupted closed\n", b"", 0)
    assert not node.node.directory.hubs["shop"].sessions
