"""The small commands are quick, because they load nothing that they do not need."""

import json
import sys
from pathlib import Path

import pytest

from arauto import __version__
from tests.integration.cli.conftest import Run

_LOADED = (
    "import sys; sys.argv[0] = 'arauto'\n"
    "from arauto.cli.main import main\n"
    "try: main()\n"
    "except SystemExit as end: assert not end.code, end.code\n"
    "print('LOADED', *sorted(sys.modules))\n"
)

#: What takes long to load, and where it may not be.
_HEAVY = ("arauto.client", "arauto.config", "arauto.node", "asyncio", "pydantic", "uvloop")


@pytest.mark.parametrize("arguments", ["version", "--help"])
async def test_small_commands_load_nothing_large(
    paste: Run, tmp_path: Path, arguments: str
) -> None:
    (tmp_path / "loaded.py").write_text(_LOADED)
    command = await paste(f"{sys.executable} loaded.py {arguments}")
    assert await command.ended() == 0, command
    loaded = (await command.line("LOADED")).split()
    assert [name for name in _HEAVY if name in loaded] == []


@pytest.mark.parametrize("name", ["sub", "pub"])
async def test_talking_to_a_node_does_not_load_one(paste: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "loaded.py").write_text(_LOADED)
    command = await paste(f"{sys.executable} loaded.py {name} --help")
    assert await command.ended() == 0, command
    loaded = (await command.line("LOADED")).split()
    assert "arauto.node" not in loaded
    assert "arauto.config" not in loaded


async def test_the_version_is_told_to_people_and_scripts(run: Run) -> None:
    plain = await run("version")
    assert await plain.ended() == 0
    assert plain.out[0].startswith(f"arauto {__version__} (Python 3.")
    told = await run("version", "--json")
    assert await told.ended() == 0
    assert json.loads(told.out[0])["arauto"] == __version__


async def test_a_shell_can_complete_commands_and_options(run: Run) -> None:
    async def completions(words: str, at: int) -> list[str]:
        environ = {
            "_ARAUTO_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(at),
        }
        command = await run(environ=environ)
        await command.ended()
        return command.out

    assert await completions("arauto s", 1) == ["serve", "sub"]
    assert await completions("arauto sub --hi", 2) == ["--history"]
    assert await completions("arauto bench fan", 2) == ["fanout"]
