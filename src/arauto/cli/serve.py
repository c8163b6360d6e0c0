"""`arauto serve`: run a node until it is told to stop."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from arauto.cli.collector import tune_collector
from arauto.cli.ports import explain
from arauto.cli.signals import stop_signals
from arauto.cli.summary import describe
from arauto.config.load import examine, find_file
from arauto.config.problems import Problem
from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.node import Node

__all__ = ["serve"]

EXIT_FAILED, EXIT_INVALID = 1, 2

_ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The file; else ARAUTO_CONFIG, else config.yaml if it is there.",
    ),
]
_Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Listen here instead (connection.host).")
]
_Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65_535, metavar="N", help="Client port instead (connection.port); 0 = any."
    ),
]
_DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep data here instead (storage.dataDir).")
]
_LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(metavar="LEVEL", help="debug, info, warning or error (debug.level)."),
]


def serve(
    config: _ConfigFile = None,
    host: _Host = None,
    port: _Port = None,
    data_dir: _DataDir = None,
    log_level: _LogLevel = None,
) -> None:
    """Run one node. Without a configuration it is embedded: SQLite, loopback, hubs made on use.

    Example: arauto serve --port 9000 --data-dir ./data

    Exit code 0: stopped as asked. 1: could not start. 2: the configuration is invalid.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    given = {
        "ARAUTO_CONNECTION__HOST": host,
        "ARAUTO_CONNECTION__PORT": port,
        "ARAUTO_STORAGE__DATA_DIR": data_dir,
        "ARAUTO_DEBUG__LEVEL": log_level,
    }
    # Options are variables that win over those of the environment: one way in, checked in one place.
    options = {name: str(value) for name, value in given.items() if value is not None}
    environ = {**os.environ, **options}
    report = examine(config or find_file(environ), environ)
    _show(console, report.warnings, "warning", "yellow")
    if report.problems:
        _show(console, report.problems, "invalid configuration", "red")
        raise typer.Exit(EXIT_INVALID)
    try:
        uvloop.run(_serve(report.config, console))
    except ArautoError as error:
        _fail(console, error.message)
    except OSError as error:
        _fail(console, explain(error, report.config))


def _show(console: Console, problems: tuple[Problem, ...], what: str, style: str) -> None:
    for problem in problems:
        console.print(Text.assemble((f"{what}: ", style), str(problem)))


def _fail(console: Console, why: str) -> None:
    console.print(Text.assemble(("could not start: ", "red"), why))
    raise typer.Exit(EXIT_FAILED)


async def _serve(config: Config, console: Console) -> None:
    with stop_signals() as asked:
        node = Node(config)
        await node.start()
        tune_collector()
        try:
            _say_what_is_open(node, console)
            await asked.wait()
            console.print(Text("stopping; Ctrl-C again stops at once", style="dim"))
        finally:
            await node.stop()
        console.print(Text("stopped", style="dim"))


def _say_what_is_open(node: Node, console: Console) -> None:
    config = node.config
    title = f" node {config.node.name} is up, in {config.node.mode} mode. Ctrl-C stops it."
    console.print(Text.assemble(("arauto", "bold green"), title))
    lines = describe(
        config,
        port=node.port.port,
        admin_port=getattr(node, "admin_port", 0),
        made_up_token="" if config.admin.token else getattr(node, "admin_token", ""),
    )
    for line in lines:
        style = "yellow" if line.is_open else ""
        console.print(Text.assemble((f"  {line.name:<9} ", "bold"), (line.value, style)))
        console.print(Text(f"            {line.hint}", style="dim"))
