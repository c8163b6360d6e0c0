"""What docs/operations/admin-api.md shows is what happens: its commands are run, top to bottom."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arauto.admin.problems import STATUSES
from tests.integration.admin.conftest import TOKEN, NodeThread

_PAGE = Path(__file__).parents[3] / "docs/operations/admin-api.md"
_TEXT = _PAGE.read_text(encoding="utf-8")
#: A block of commands and, right after it, what the last one answers.
_EXAMPLES = re.compile(r"```sh\n(.*?)```\n(?:\n```json\n(.*?)```\n)?", re.DOTALL)


def assert_part_of(shown: Any, got: Any, where: str = "$") -> None:
    """What the page shows must be there; what it leaves out may be."""
    if isinstance(shown, dict):
        assert isinstance(got, dict), where
        for key, value in shown.items():
            assert key in got, f"{where}.{key}"
            assert_part_of(value, got[key], f"{where}.{key}")
    elif isinstance(shown, list):
        assert isinstance(got, list), where
        assert len(shown) == len(got), where
        for index, (one, other) in enumerate(zip(shown, got, strict=True)):
            assert_part_of(one, other, f"{where}[{index}]")
    else:
        assert shown == got, where


def run(commands: str, node: NodeThread) -> bytes:
    """The output of the last command of a block."""
    client = f"http://127.0.0.1:{node.node.port.port}"
    program = ["bash", "-euo", "pipefail", "-c", commands]
    environment = {**os.environ, "ADMIN": node.url, "CLIENT": client, "TOKEN": TOKEN}
    done = subprocess.run(program, env=environment, capture_output=True, check=True, timeout=20)
    # Answers are one line each, without a line break at the end.
    decoder = re.compile(rb"\}(?=\{)")
    return decoder.sub(b"}\n", done.stdout).splitlines()[-1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_do_what_the_page_says(node_thread: NodeThread) -> None:
    examples = _EXAMPLES.findall(_TEXT)
    assert len(examples) >= 12
    for commands, shown in examples:
        got = msgspec.json.decode(run(commands, node_thread))
        if shown:
            assert_part_of(msgspec.json.decode(shown.encode()), got)


def test_the_table_of_statuses_is_complete() -> None:
    listed = {int(number) for number in re.findall(r"^\| (\d{3}) \|", _TEXT, re.MULTILINE)}
    assert listed == set(STATUSES)
