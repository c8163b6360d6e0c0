"""The command line itself: help, names, and what makes no sense."""

import inspect
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
from rich.table import Table
from typer.testing import CliRunner

from arauto.cli import main, pipeline
from arauto.cli.console import Output, errors
from arauto.cli.main import app

_COMMANDS = (
    "demo",
    "serve",
    "sub",
    "pub",
    "check-config",
    "default-config",
    "pipeline",
    "bench",
    "version",
)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("ARAUTO_URL", "ARAUTO_HUB", "ARAUTO_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """The commands show the client's log in their own way, and never give it back."""
    log = logging.getLogger("arauto.client")
    before = log.handlers, log.propagate, log.level
    yield
    log.handlers, log.propagate, log.level = before


def test_help_lists_every_command() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert [name for name in _COMMANDS if f" {name} " not in done.output] == []


def test_without_a_command_the_help_is_shown() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "Usage: arauto" in done.output


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = CliRunner().invoke(app, [name, "-h"])
    assert done.exit_code == 0, done.output
    assert f"arauto {name}" in done.output


@pytest.mark.parametrize("name", ["demo", "serve", "sub", "pub"])
def test_help_shows_an_example_and_the_exit_codes(name: str) -> None:
    help_text = CliRunner().invoke(app, [name, "-h"]).output
    assert f"Example: arauto {name}" in help_text
    assert "Exit code 0:" in help_text


def test_flags_are_not_shown_with_a_value() -> None:
    assert "<bool>" not in CliRunner().invoke(app, ["pub", "-h"]).output


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["pubb", "a", "x"])
    assert done.exit_code == 2
    assert "Did you mean" in done.stderr
    assert "'pub'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sub",), "Missing argument"),
        (("sub", "a b"), "no white space"),
        (("sub", "a", "--url", "http://x"), "must look like ws://host:port"),
        (("sub", "a", "--url", "ws://127.0.0.1:99999"), "must look like ws://host:port"),
        (("sub", "a", "--url", "ws://[::1"), "must look like ws://host:port"),
        (("sub", "a", "--hub", "not a hub"), "a hub name is 1-64"),
        (("sub", "a", "--since", "yesterday"), "must be EPOCH:OFFSET"),
        (("sub", "a*", "--since", "1:1"), "need channels, not patterns"),
        (("sub", "/a", "--since", "1:1"), "needs a channel, not a topic"),
        (("sub", "a*", "--history", "1"), "need channels, not patterns"),
        (("sub", "doc:a", "--history", "1"), "need channels, not patterns"),
        (("sub", "a", "b", "--since", "1:1"), "goes with one channel"),
        (("sub", "a", "--since", "1:1", "--history", "1"), "without --history"),
        (("sub", "a", "--flavour", "vanilla"), "'vanilla' is not one of"),
        (("sub", "a", "--token", "@missing"), "--token: missing: No such file"),
        (("pub", "a"), "give either DATA"),
        (("pub", "a", "x", "--binary-file", "y"), "give either DATA"),
        (("pub", "a", "--binary-file", "missing"), "--binary-file: No such file"),
        (("pub", "a*", "x"), "no wildcards"),
        (("sub", "a", "doc:*"), "doc:*: documents are opened by name"),
        (("pub", "a", "x", "--json-data"), "not JSON"),
        (("pub", "a", "x", "--json-data", "--text"), "contradict each other"),
        (("pub", "a", "-", "--repeat", "2"), "--repeat needs DATA"),
        (("pub", "a", "\udcff", "--text"), "not UTF-8"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_connected(
    arguments: tuple[str, ...], said: str
) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    text = " ".join(line.strip("│ ") for line in done.stderr.splitlines())
    assert said in text, done.stderr


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("connection: {prot: 1}", {}, "c.yaml:1:14: connection.prot: unknown field; did you mean"),
        ("", {"ARAUTO_CONNECTION__PORT": "many"}, "ARAUTO_CONNECTION__PORT: connection.port: "),
        ("", {"ARAUTO_CONECTION__PORT": "1"}, "ARAUTO_CONECTION__PORT: no such setting"),
        ("node: {mode: production}", {}, "admin.token: "),
        (None, {}, "c.yaml: no such file"),
    ],
)
def test_an_invalid_configuration_exits_2_and_says_where(
    tmp_path: Path, text: str | None, environ: dict[str, str], said: str
) -> None:
    if text is not None:
        (tmp_path / "c.yaml").write_text(text)
    done = CliRunner().invoke(app, ["serve", "-c", "c.yaml"], env=environ)
    assert done.exit_code == 2, done.output
    lines = done.stderr.splitlines()
    problems = [line for line in lines if line.startswith("invalid configuration: ")]
    assert any(said in line for line in problems), lines
    assert not (tmp_path / "arauto-data").exists()


def _functions() -> Iterator[tuple[tuple[str, ...], Callable[..., None]]]:
    """(how it is called, what it calls) of every command but those of `bench` and `pipeline rules`."""
    for path, table in (((), main.COMMANDS), (("pipeline",), pipeline.COMMANDS)):
        for name, (place, _) in table.items():
            module, _, attribute = place.partition(":")
            if attribute != "app":
                yield (*path, name), getattr(import_module(module), attribute)


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "arauto", "version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def test_no_text_in_brackets_is_lost_in_any_help() -> None:
    found = set()
    for path, function in _functions():
        texts = [inspect.getdoc(function) or ""]
        for hint in get_type_hints(function, include_extras=True).values():
            texts += [getattr(each, "help", "") or "" for each in getattr(hint, "__metadata__", ())]
        shown = CliRunner().invoke(app, [*path, "-h"]).output
        for bracketed in re.findall(r"\w*\[[^\]\s]*\]", "\n".join(texts)):
            assert bracketed in shown, path
            found.add(bracketed)
    assert "arauto[pipeline]" in found


def test_a_paragraph_of_help_is_broken_by_the_terminal_alone() -> None:
    output = CliRunner().invoke(app, ["demo", "-h"]).output
    assert "if it is installed (`arauto[pipeline]`): it archives, publishes roll-ups" in output


def test_what_consoles_print_is_neither_markup_nor_emoji(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for console in (Output(), errors()):
        table = Table("[bold]:tea:")
        table.add_row("arauto[pipeline] stock:tea:porto")
        console.print("[red]:tea: /a/[b]")
        console.print(table)
    for text in capsys.readouterr():
        for said in ("[red]:tea: /a/[b]\n", "[bold]:tea:", "arauto[pipeline] stock:tea:porto"):
            assert said in text
