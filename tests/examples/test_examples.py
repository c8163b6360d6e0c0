"""Every example runs as its reader would run it, ends by itself and prints what it promises."""

import asyncio
import os
import sys

import pytest

from tests.examples.conftest import EXAMPLES
from tests.integration.conftest import RunningNode

PROMISED = {
    "quickstart_async.py": ["published as number 3", "stock:42 now has 1"],
    "quickstart_blocking.py": [
        "application/json: {'id': 1, 'items': ['tea']}",
        "text/plain: closing time",
    ],
    "chat_with_presence.py": [
        "somebody joined, 2 are here",
        "ana hears: hello, I am Bob",
        "bob hears: welcome, Bob",
        "somebody left",
    ],
    "live_document.py": [
        "bob sees version 2",
        "ana was too late: VERSION_MISMATCH",
        "tea is done: True",
    ],
    "recover_after_drop.py": [
        "before the drop",
        "reader is waiting",
        "missed 1",
        "missed 2",
        "missed 3",
        "recovered: True",
    ],
    "wildcard_dashboard.py": ["braga      coffee       2", "porto      tea          2"],
}

#: Not clients: they are run by the tests of authentication and of the pipeline's sink.
_NOT_CLIENTS = {"auth_service.py", "pipeline_publish.py"}


def test_every_example_is_run_here() -> None:
    there = {path.name for path in EXAMPLES.glob("*.py")}
    assert there - _NOT_CLIENTS == set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
async def test_an_example_does_what_it_promises(node: RunningNode, name: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(EXAMPLES / name),
        env={**os.environ, "ARAUTO_URL": node.url, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(40):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = out.decode().splitlines()
    assert (process.returncode, err.decode()) == (0, "")
    for promise in PROMISED[name]:
        assert any(promise in line for line in lines), lines


@pytest.mark.slow
async def test_an_example_without_a_node_says_what_is_wrong() -> None:
    """The first thing many readers will see: no node is running."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / "quickstart_async.py"),
        env={**os.environ, "ARAUTO_URL": "ws://127.0.0.1:9"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(40):
        _, err = await process.communicate()
    assert process.returncode == 1
    assert "CONNECTION_LOST] the node cannot be reached" in err.decode().splitlines()[-1]
