"""`arauto serve`: run a node until it is told to stop."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from arauto.cli.collector import Collector
from arauto.cli.console import errors, leave_ctrl_c
from arauto.cli.ports import explain
from arauto.cli.signals import stop_signals
from arauto.cli.summary import describe
from arauto.config.base import secret_values
from arauto.config.load import examine, find_file
from arauto.config.problems import Problem
from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.node import Node
from arauto.telemetry.log import configure_logging

__all__ = ["serve"]

EXIT_FAILED, EXIT_INVALID = 1, 2

#: Option → the variable it stands for.
_VARIABLES = {
    "--host": "ARAUTO_CONNECTION__HOST",
    "--port": "ARAUTO_CONNECTION__PORT",
    "--data-dir": "ARAUTO_STORAGE__DATA_DIR",
    "--log-level": "ARAUTO_DEBUG__LEVEL",
}

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
    console = errors()
    given = {"--host": host, "--port": port, "--data-dir": data_dir, "--log-level": log_level}
    # Options are variables that win over those of the environment: one way in, checked in one place.
    options = {_VARIABLES[name]: str(value) for name, value in given.items() if value is not None}
    environ = {**os.environ, **options}
    report = examine(config or find_file(environ), environ)
    _show(console, report.warnings, Text("warning: ", "yellow"), options)
    if report.problems:
        _show(console, report.problems, Text("invalid configuration: ", "red"), options)
        raise typer.Exit(EXIT_INVALID)
    try:
        uvloop.run(_serve(report.config, console))
    except ArautoError as error:
        _fail(console, error.message)
    except OSError as error:
        _fail(console, explain(error, report.config))


def _show(
    console: Console, problems: tuple[Problem, ...], what: Text, options: Mapping[str, str]
) -> None:
    for problem in problems:
        variable, text = problem.place.variable, str(problem)
        if variable in options:
            # Whoever wrote an option knows nothing of the variable it stands for.
            option = next(name for name, stands_for in _VARIABLES.items() if stands_for == variable)
            text = option + text.removeprefix(variable)
        console.print(Text.assemble(what, text))


def _fail(console: Console, why: str) -> None:
    console.print(Text.assemble(("could not start: ", "red"), why))
    raise typer.Exit(EXIT_FAILED)


async def _serve(config: Config, console: Console) -> None:
    with stop_signals() as asked:
        node = Node(config)
        configure_logging(
            level=config.debug.level,
            format=config.debug.format,
            secrets=[*secret_values(config), *node.generated_secrets],
        )
        await node.start()
        collector = Collector(node.clock)
        collector.start()
        try:
            _say_what_is_open(node, console)
            await asked.wait()
            leave_ctrl_c()
            console.print(Text("stopping; Ctrl-C again stops at once", style="dim"))
        finally:
            collector.stop()
            await node.stop()
        console.print(Text("stopped", style="dim"))


def _say_what_is_open(node: Node, console: Console) -> None:
    config = node.config
    title = f" node {config.node.name} is up, in {config.node.mode} mode. Ctrl-C stops it."
    console.print(Text.assemble(("Arauto", "bold green"), title))
    lines = describe(
        config,
        port=node.port.port,
        admin_port=node.admin_port.port,
        made_up_token="" if config.admin.token else node.admin_token,
    )
    for line in lines:
        style = "yellow" if line.is_open else ""
        console.print(Text.assemble((f"  {line.name:<9} ", "bold"), (line.value, style)))
        for hint in line.hints:
            console.print(Text(f"            {hint}", style="dim"))
