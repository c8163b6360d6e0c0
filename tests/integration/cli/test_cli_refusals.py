"""Each way to fail has its own exit code and one clear line: 1 refused, 2 wrong usage, 3 no connection."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.integration.cli.conftest import Run
from tests.integration.conftest import RunningNode, StartNode

_SECRET = "a-shared-key-of-at-least-32-bytes!!"


def token(**changes: Any) -> str:
    now_s = int(time.time())
    grants = {"channels": [{"channel": "stock:*", "publish": True, "subscribe": True}]}
    claims = {"sub": "ana", "aud": "shop", "iat": now_s, "exp": now_s + 600, "grants": grants}
    return jwt.encode({**claims, **changes}, _SECRET, algorithm="HS256")


@pytest.fixture
async def closed(start_node: StartNode) -> RunningNode:
    """A node whose hubs let in nobody without a grant."""
    defaults = {"defaultPublic": False, "jwt": {"algorithm": "HS256", "secret": _SECRET}}
    return await start_node(hub={"defaults": defaults})


@pytest.fixture
def deaf() -> Iterator[str]:
    """The URL of a port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"ws://127.0.0.1:{sock.getsockname()[1]}"


# --- 1: refused -----------------------------------------------------------------------------------------


async def test_a_refused_subscription_is_told_in_the_nodes_words(
    closed: RunningNode, run: Run
) -> None:
    sub = await run("sub", "stock:1", "--hub", "shop", "--url", closed.url)
    assert await sub.ended() == 1
    assert sub.out == []
    assert sub.err == [
        "refused: channel: no grant or rule lets this session subscribe to it (2005 SUBSCRIBE_DENIED)"
    ]


async def test_of_several_channels_the_refusal_names_the_one_it_is_about(
    closed: RunningNode, run: Run
) -> None:
    to = ("--token", token(), "--hub", "shop", "--url", closed.url)
    sub = await run("sub", "stock:1", "till:1", "stock:2", *to)
    assert await sub.ended() == 1
    assert sub.err == [
        "refused: till:1: no grant or rule lets this session subscribe to it (2005 SUBSCRIBE_DENIED)"
    ]


async def test_a_refused_message_is_told_in_the_nodes_words(closed: RunningNode, run: Run) -> None:
    pub = await run("pub", "stock:1", "x", "--json", "--hub", "shop", "--url", closed.url)
    assert await pub.ended() == 1
    [line] = pub.out
    assert json.loads(line)["error"]["code"] == 2006
    assert pub.err == [
        "refused: channel: no grant or rule lets this session publish to it (2006 PUBLISH_DENIED)"
    ]


@pytest.mark.parametrize("option", ["--token", "--credentials"])
@pytest.mark.parametrize("from_file", [False, True])
async def test_a_token_opens_what_it_grants(
    closed: RunningNode, run: Run, tmp_path: Path, option: str, from_file: bool
) -> None:
    secret = token()
    if from_file:
        (tmp_path / "token").write_text(secret + "\n")
        secret = "@token"
    to = (option, secret, "--hub", "shop", "--url", closed.url)
    sub = await run("sub", "stock:1", "-n", "1", "--json", *to)
    await sub.line("subscribed")
    pub = await run("pub", "stock:1", "1", *to)
    assert await pub.ended() == 0, pub
    assert await sub.ended() == 0, sub
    assert json.loads(sub.out[0])["user"] == "ana"


async def test_the_token_may_come_from_the_environment(closed: RunningNode, run: Run) -> None:
    environ = {"ARAUTO_TOKEN": token(), "ARAUTO_HUB": "shop", "ARAUTO_URL": closed.url}
    pub = await run("pub", "stock:1", "1", environ=environ)
    assert await pub.ended() == 0, pub


@pytest.mark.parametrize("bad", ["nonsense", token(exp=1_000_000_000, iat=999_999_999)])
async def test_a_bad_token_is_refused_and_not_shown(
    closed: RunningNode, run: Run, bad: str
) -> None:
    sub = await run("sub", "stock:1", "--token", bad, "--hub", "shop", "--url", closed.url)
    assert await sub.ended() == 1
    assert "TOKEN_" in str(sub)
    assert bad not in str(sub)
    assert len(sub.err) == 1, "a refusal is told once"


async def test_an_unknown_hub_is_refused(start_node: StartNode, run: Run) -> None:
    node = await start_node(engine={"allowDynamicHubs": False})
    sub = await run("sub", "a", "--hub", "nowhere", "--url", node.url)
    assert await sub.ended() == 1
    assert "1006 UNKNOWN_HUB" in str(sub)
    assert len(sub.err) == 1, "a refusal is told once"


async def test_a_message_over_the_limit_is_refused(node: RunningNode, run: Run) -> None:
    pub = await run("pub", "a", "-", "--url", node.url, stdin=asyncio.subprocess.PIPE)
    pub.write("x" * 70_000)
    pub.close_input()
    assert await pub.ended() == 1
    assert "at most 65536 bytes" in str(pub)


async def test_messages_that_got_through_are_told_from_those_that_did_not(
    start_node: StartNode, run: Run
) -> None:
    quotas = {"messagesPerS": 5}
    node = await start_node(hub={"defaults": {"defaultPublic": True, "quotas": quotas}})
    pub = await run("pub", "a", "x", "--repeat", "100", "--json", "--url", node.url)
    assert await pub.ended() == 1
    answers = [json.loads(line) for line in pub.out]
    assert len(answers) == 100
    taken = [answer for answer in answers if "serial" in answer]
    assert 0 < len(taken) < 100
    assert node.node.metrics.total().publishes == len(taken)
    assert "3005 HUB_RATE_LIMITED" in str(pub)


# --- 2: wrong usage -----------------------------------------------------------------------------------


async def test_a_bad_line_is_named_by_its_number(node: RunningNode, run: Run) -> None:
    pub = await run(
        "pub", "a", "-", "--json-data", "--url", node.url, stdin=asyncio.subprocess.PIPE
    )
    pub.write("1\n\nnot json\n")
    pub.close_input()
    assert await pub.ended() == 2
    assert "line 3: not JSON" in " ".join(pub.err)


# --- 3: no connection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("sub", "a"), ("pub", "a", "x")])
async def test_a_node_that_is_not_there_is_told_from_one_that_refuses(
    run: Run, deaf: str, arguments: tuple[str, ...]
) -> None:
    command = await run(*arguments, "--url", deaf, "--timeout", "0.2")
    assert await command.ended() == 3
    assert command.err == [
        f"could not connect to {deaf}: connection refused",
        "Is a node running there? `arauto demo` starts one to try things with.",
    ]


async def test_a_port_that_never_answers_is_given_up(run: Run) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        command = await run("sub", "a", "--url", f"ws://127.0.0.1:{port}", "--timeout", "0.3")
        assert await command.ended() == 3, command
