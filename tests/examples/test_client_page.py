"""The client's page tells the truth: its code parses, its names exist, its defaults are the defaults."""

import ast
import re
from pathlib import Path

import msgspec
import pytest

import arauto.client
import arauto.client.blocking
from arauto.client import Client, Tuning
from arauto.errors import ArautoError, Code

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
