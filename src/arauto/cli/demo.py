"""`arauto demo`: one node and a few simulated shops, to look at and to play with."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from arauto.cli.console import Output, errors, forget_output
from arauto.cli.demo_ports import Ports

__all__ = ["demo"]

EXIT_FAILED = 1

_KEPT_DIR = ".arauto-demo"

_Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        metavar="N",
        help="Client port; else ARAUTO_CONNECTION__PORT; else 8080, or any if that is taken.",
    ),
]
_AdminPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        metavar="N",
        help="Admin port; else ARAUTO_ADMIN__PORT; else 4040, or any if that is taken.",
    ),
]
_Seconds = Annotated[
    float, typer.Option(min=0, metavar="N", help="Stop after N seconds; 0 = on Ctrl-C.")
]
_NoTraffic = Annotated[bool, typer.Option("--no-traffic", help="Only the node, without shops.")]
_Keep = Annotated[
    bool,
    typer.Option("--keep", help=f"Keep the data in ./{_KEPT_DIR}, and go on with what is there."),
]
_NoPipeline = Annotated[
    bool, typer.Option("--no-pipeline", help="Without the data pipeline (Spark) beside the node.")
]
_Setup = Annotated[
    str, typer.Option("--pipeline-setup", hidden=True, help="Command that installs the pipeline.")
]
_Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Let the same things happen each time.")
]


def demo(
    port: _Port = None,
    admin_port: _AdminPort = None,
    seconds: _Seconds = 0.0,
    no_traffic: _NoTraffic = False,
    keep: _Keep = False,
    seed: _Seed = None,
    no_pipeline: _NoPipeline = False,
    pipeline_setup: _Setup = "",
) -> None:
    """Start a node with a few simulated shops that publish stock levels and orders.

    Once the node is up, the data pipeline starts beside it, if it is installed (`arauto[pipeline]`): it
    archives, publishes roll-ups to `analytics:rollup` and what its rules find to `alerts:…`.

    It has a configuration of its own: it reads no file, and of the ARAUTO_ variables only those of the ports.

    Example: arauto demo, then in another terminal: arauto sub 'stock:*' --hub shop

    Exit code 0: stopped. 1: could not start. 2: a port makes no sense.
    """
    ports = Ports.of(client=port, admin=admin_port, environ=os.environ)
    console = Output()
    if console.is_terminal:
        console.print(Text("starting a node …", style="dim"))
    # Only now: loading a node takes a while, and somebody is waiting for a first sign of life.
    from arauto.cli.demo_show import DemoFailedError, Show

    with _directory(keep) as directory:
        show = Show(
            console,
            str(directory),
            ports=ports,
            shops=not no_traffic,
            seed=seed,
            pipeline=not no_pipeline,
            setup=pipeline_setup,
        )
        try:
            show.run(seconds)
        except DemoFailedError as error:
            errors().print(Text(str(error), style="red"))
            raise typer.Exit(EXIT_FAILED) from None
        except BrokenPipeError:
            forget_output()
        kept = f"data kept in {directory}" if keep else "data removed"
        console.print(Text(f"stopped; {show.summary}, {kept}", style="dim"))


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(_KEPT_DIR)
        return
    with tempfile.TemporaryDirectory(prefix="arauto-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)
