"""`arauto serve`: run a node until it is told to stop."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console

from arauto.config.load import find_file, load
from arauto.config.problems import ConfigError
from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.node import Node

__all__ = ["run_until_stopped", "serve"]

EXIT_FAILED, EXIT_INVALID = 1, 2


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="The file; else ARAUTO_CONFIG, else config.yaml if it is there."
        ),
    ] = None,
) -> None:
    """Run one node. Without a configuration it is embedded: SQLite, loopback, hubs made on use.

    Exit code 0: stopped as asked. 1: could not start. 2: the configuration is invalid.
    """
    console = Console(stderr=True)
    path = config or find_file(os.environ)
    try:
        settings = load(path, os.environ)
    except ConfigError as error:
        console.print(f"[red]error[/red] {error}", highlight=False)
        raise typer.Exit(EXIT_INVALID) from None
    try:
        uvloop.run(_serve(settings, console))
    except (ArautoError, OSError) as error:
        console.print(f"[red]could not start[/red] {error}", highlight=False)
        raise typer.Exit(EXIT_FAILED) from None


async def _serve(config: Config, console: Console) -> None:
    node = Node(config)
    await node.start()
    _say_what_is_open(node, console)
    await run_until_stopped(node)


async def run_until_stopped(node: Node) -> None:
    """Wait for SIGINT or SIGTERM, then stop in order; a second signal stops at once."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        if asked.is_set():
            sys.stderr.write("stopping at once\n")
            os._exit(130)
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    await asked.wait()
    await node.stop()


def _say_what_is_open(node: Node, console: Console) -> None:
    config = node.config
    scheme = "wss" if config.connection.tls.cert_file else "ws"
    where = f"{config.connection.host}:{node.port.port}"
    console.print(
        f"[bold]arauto[/bold] node [cyan]{config.node.name}[/cyan] is up", highlight=False
    )
    console.print(
        f"  clients   {scheme}://{where}/v1/ws?hub=NAME  (SSE at /v1/sse)", highlight=False
    )
    if config.engine.allow_dynamic_hubs:
        console.print(
            "  hubs      made on first use by anyone who can connect; "
            "engine.allowDynamicHubs: false closes that",
            highlight=False,
        )
    console.print("  stop      Ctrl-C", highlight=False)
