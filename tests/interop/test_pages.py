"""What the first pages tell a reader to type works as it stands, but for the ports."""

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx

from arauto.client import Client
from arauto.errors import ArautoError, Code
from tests.integration.conftest import RunningNode, StartNode, start_node
from tests.services.programs import find_program

__all__ = ["start_node"]

_ROOT = Path(__file__).parents[2]
_README = _ROOT / "README.md"
_RULES = _ROOT / "docs" / "topics" / "channels-and-rules.md"
_TIMEOUT_S = 30.0


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


async def run(*command: str, **environment: str) -> str:
    """Run a program to its end and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, err.decode()) == (0, "")
    return out.decode()


async def test_the_readmes_program_publishes_and_prints_the_next_order(
    start_node: StartNode,
) -> None:
    node = await start_node()
    [program] = blocks(_README, "python")
    program = program.replace("ws://127.0.0.1:8080", node.url)
    async with Client(node.url, hub="shop") as shop:
        stock = await shop.subscribe("stock:porto:mug").ready()
        running = asyncio.create_task(run(sys.executable, "-W", "error", "-c", program))
        level = await anext(aiter(stock))
        await shop.publish("/orders/pt/porto", {"order": "PO-1"})
        printed = await running
    assert level.data == {"name": "Blue mug", "level": 12}
    assert printed == "/orders/pt/porto 1 {'order': 'PO-1'}\n"


async def test_the_readmes_curl_publishes_and_prints_a_serial(start_node: StartNode) -> None:
    node = await start_node()
    curl = find_program("curl", "curl")
    [line] = re.findall(r"^\$ curl (.*/v1/publish.*)$", _README.read_text(), re.MULTILINE)
    line = line.replace("http://127.0.0.1:8080", node.http_url)
    printed = await run("bash", "-c", f"{curl} -s {line}")
    assert re.fullmatch(
        r'\{"results":\[\{"serial":\{"epoch":"[0-9a-f]{16}","offset":1\}\}\]\}', printed
    )


async def test_the_readmes_stream_is_one(start_node: StartNode) -> None:
    node = await start_node()
    [url] = re.findall(r"curl -N '(http\S+)'$", _README.read_text(), re.MULTILINE)[:1]
    url = url.replace("http://127.0.0.1:8080", node.http_url)
    async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert await anext(response.aiter_lines()) == "event: session_info"


async def publish(node: RunningNode, channel: str) -> Code | None:
    """Publish as a stranger; return why not."""
    async with Client(node.url, hub="shop") as stranger:
        try:
            await stranger.publish(channel, 1)
        except ArautoError as error:
            return error.code
    return None


async def test_the_rules_page_opens_a_namespace_and_nothing_else(start_node: StartNode) -> None:
    node = await start_node(hub={"defaults": {}, "defaultRules": {}})
    curl = find_program("curl", "curl")
    assert await publish(node, "stock:42") is Code.PUBLISH_DENIED
    [script] = blocks(_RULES, "sh")
    script = script.replace("127.0.0.1:4040", f"127.0.0.1:{node.node.admin_port.port}")
    script = re.sub(r"^curl ", f"{curl} -sS --fail ", script, flags=re.MULTILINE)
    await run("bash", "-e", "-c", script, ARAUTO_ADMIN_TOKEN=node.node.admin_token)
    assert await publish(node, "stock:42") is None
    assert await publish(node, "stock:43") is None
    assert await publish(node, "prices:42") is Code.PUBLISH_DENIED
