"""What the pipeline's commands share: the configuration, Spark with a sign of life, times, progress."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from arauto.config.addresses import lake_dir
from arauto.config.load import find_file, load
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.pipeline.context import Context

__all__ = [
    "ConfigFile",
    "DataDir",
    "Master",
    "parse_time",
    "progress_bar",
    "read_config",
    "say_if_hub_is_missing",
    "starting_spark",
]

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The node's file; else ARAUTO_CONFIG, else config.yaml if it is there.",
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The node's data directory (storage.dataDir).")
]
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Where Spark runs, e.g. spark://host:7077 (pipeline.master)."),
]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_config(config: Path | None, data_dir: Path | None = None) -> Config:
    """The configuration, with options as variables that win over those of the environment.

    Raises:
        ArautoError: BAD_CONFIG.
    """
    environ = dict(os.environ)
    if data_dir is not None:
        environ["ARAUTO_STORAGE__DATA_DIR"] = str(data_dir)
    return load(config or find_file(environ), environ)


@contextmanager
def starting_spark(
    config: Config,
    app_name: str,
    console: Console,
    *,
    master: str = "",
    alone: Path | None = None,
    unattended: bool = False,
    tell: Callable[[str], object] | None = None,
) -> "Iterator[Context]":
    """An open pipeline; says that it is starting, because that takes a while.

    Args:
        config: the node's configuration.
        app_name: what a cluster's pages call it.
        console: where to say it.
        master: where Spark runs, if not where the configuration says.
        alone: be the only one that writes to this lake, which is known before Spark has started.
        unattended: it runs for days: without memory, Spark ends instead of limping on.
        tell: given what Spark prints, line by line; None = it is shown only if Spark fails.

    Raises:
        ArautoError: NO_SPARK, NO_JAVA, LAKE_BUSY; BAD_CONFIG, there is no such master.
    """
    try:
        from arauto.pipeline.context import only_writer, open_context
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("pyspark", "pandas", "py4j", "numpy")):
            raise
        raise ArautoError(
            Code.NO_SPARK, "Spark is not installed: pip install 'arauto[pipeline]'"
        ) from None
    with ExitStack() as stack:
        lake = lake_dir(config)
        if alone is None and not lake.is_dir():
            said = f"there is no lake at {lake} yet, so everything is empty; is this the node's directory?"
            console.print(Text(printable(said), style="yellow"))
        if alone is not None:
            stack.enter_context(only_writer(alone))
        with console.status("starting Spark …"):
            context = stack.enter_context(
                open_context(config, app_name, master=master, unattended=unattended, tell=tell)
            )
        yield context


def say_if_hub_is_missing(console: Console, context: "Context", hub: str | None) -> None:
    """For an answer about a hub that says nothing: a mistyped name must not look like a quiet hub."""
    from arauto.pipeline.lake.hubs import missing_hub

    if hub is not None and (said := missing_hub(context.lake, hub)):
        console.print(Text(printable(said)), style="yellow")


def progress_bar(console: Console) -> Progress:
    """A bar on a terminal; nothing elsewhere."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def parse_time(text: str, now: datetime) -> int:
    """Milliseconds since 1970 of a moment: 2026-11-16, 2026-11-16T10:30, or 30m, 2h, 7d ago. UTC.

    Raises:
        typer.BadParameter: it is none of these.
    """
    unit = _UNITS.get(text[-1:])
    if unit and text[:-1].isdigit():
        return int((now - timedelta(**{unit: int(text[:-1])})).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write 2026-11-16, 2026-11-16T10:30 or, for a while ago, 30m, 2h, 7d"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
