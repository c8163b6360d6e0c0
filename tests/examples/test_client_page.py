"""The client's page tells the truth: its code parses, its names exist, its defaults are the defaults."""

import ast
import asyncio
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import arauto.client
import arauto.client.blocking
from arauto.client import Client, Received, Subscription, Tuning
from arauto.errors import ArautoError, Code
from tests.integration.conftest import RunningNode

PAGE = (Path(__file__).parents[2] / "docs" / "topics" / "python-client.md").read_text()
_IMPATIENT = Tuning(connect_timeout_s=0.05)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_piece_of_code_parses(block: str) -> None:
    compile(block, "python-client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_method_and_option_in_the_code_exists(block: str) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    tree = compile(block, "python-client.md", "exec", flags)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "c"
        ):
            assert hasattr(arauto.client.Client, node.attr), node.attr
        if isinstance(node, ast.ImportFrom):
            module = {
                "arauto.client": arauto.client,
                "arauto.client.blocking": arauto.client.blocking,
            }
            assert all(hasattr(module[node.module or ""], name.name) for name in node.names)


async def test_print_as_in_the_example_shows_each_change_of_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert any("on_state_change=print" in block for block in BLOCKS)
    example = PAGE.partition("prints lines such as `")[2].partition("`")[0]
    with pytest.raises(ArautoError):
        async with Client("ws://127.0.0.1:1", hub="shop", on_state_change=print, tuning=_IMPATIENT):
            pass
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == example
    assert lines[-1] == "closing closed"


def test_every_setting_is_listed_with_its_default() -> None:
    listed: dict[str, str] = {}
    for names, values in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", PAGE, re.MULTILINE):
        fields = re.findall(r"`(\w+)`", names)
        defaults = values.split(", ") if len(fields) > 1 else [values]
        listed.update(zip(fields, defaults, strict=False))
    for field in msgspec.structs.fields(Tuning):
        shown = listed[field.name].strip("` ")
        if field.name == "backoff":
            continue
        number = int(shown.split()[0]) * (1024 * 1024 if shown.endswith("MiB") else 1)
        assert number == field.default, field.name


def test_every_error_named_exists() -> None:
    for name in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", PAGE):
        assert name in Code.__members__, name
    for name in re.findall(r"`(\w+Error)`", PAGE):
        assert hasattr(arauto.client, name) or name in ("ArautoError", "TimeoutError"), name


def test_every_attribute_of_a_received_message_is_listed() -> None:
    table = PAGE.partition("A received message has:")[2].partition("**Places.**")[0]
    listed = {
        name for row in re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE) for name in _words(row)
    }
    assert listed == {name for name in dir(Received) if not name.startswith("_")}


def _words(row: str) -> list[str]:
    return re.findall(r"`(\w+)`", row)


class _Stop(Exception):
    """Ends a run of an example in the middle of a message."""


async def test_stored_places_of_a_pattern_lose_nothing_over_runs(
    node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = [block for block in BLOCKS if "places.json" in block]
    async with Client(node.url, hub="shop") as publisher:

        async def run_until(stop: str, publish: list[tuple[str, str]]) -> tuple[list[str], Any]:
            """What a run of the example handles until it fails at `stop`, and how it was recovered."""
            seen: list[str] = []
            names: dict[str, Any] = {"Path": Path, "json": json}

            def handle(message: Received) -> None:
                if message.data == stop:
                    recovered.append(made[0].recovered)
                    raise _Stop
                seen.append(message.data)

            made: list[Subscription] = []
            recovered: list[bool | None] = []
            async with Client(node.url, hub="shop") as c:

                def subscribe(*arguments: Any, **options: Any) -> Subscription:
                    made.append(c.subscribe(*arguments, **options))
                    return made[0]

                names |= {"c": SimpleNamespace(subscribe=subscribe), "handle": handle}
                flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                running = eval(compile(block, "python-client.md", "exec", flags), names)
                assert inspect.iscoroutine(running)
                task = asyncio.ensure_future(running)
                await asyncio.sleep(0)  # up to the first message
                await made[0].ready()
                for channel, text in publish:
                    await publisher.publish(channel, text)
                with pytest.raises(_Stop):
                    await asyncio.wait_for(task, 10)
            return seen, recovered[0]

        first = await run_until("stop", [("stock:1", "a"), ("stock:1", "stop"), ("stock:2", "b")])
        assert first == (["a"], None)
        await publisher.publish("stock:3", "c")
        seen, recovered = await run_until("c", [])
        assert (sorted(seen), recovered) == (["b", "stop"], True)
        seen, recovered = await run_until("end", [("stock:3", "end")])
        assert (seen, recovered) == (["c"], True)
