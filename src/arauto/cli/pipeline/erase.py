"""`arauto pipeline erase`: remove what is known of a user, for ever."""

import sys
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from arauto.cli.console import Output, errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    progress_bar,
    read_config,
    starting_spark,
)
from arauto.config.addresses import upkeep_dir
from arauto.names import check_hub
from arauto.printable import printable

__all__ = ["erase"]

_CATCH_UP_S = 120.0


def erase(
    user: Annotated[str, typer.Option(help="Whose rows.")],
    hub: Annotated[str, typer.Option(help="The hub in which the user is known by this name.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Erase what the lake knows of a user: messages, sessions, refusals, subscriptions. It cannot be undone.

    Rows of the journal keep their place and time, so that counts add up, and lose all else. The node's own
    database and its segments are not touched: see docs/operations/lake.md. Queries that run may fail.

    Example: arauto pipeline erase --hub shop --user ana

    Exit code 0: erased. 1: failed; do it again.
    """
    console = errors()
    check_hub(hub)
    settings = read_config(config, data_dir)
    if not yes:
        _ask(user, hub)
    with starting_spark(
        settings, "arauto-erase", console, master=master, alone=upkeep_dir(settings)
    ) as context:
        from arauto.pipeline.lake.erase import TABLES_OF_USERS, erase_user
        from arauto.pipeline.upkeep import settled, stays

        lake = context.lake
        with settled(lake, wait_s=_CATCH_UP_S), progress_bar(console) as bar:
            task = bar.add_task("erasing", total=len(TABLES_OF_USERS))
            done = erase_user(
                lake, hub, user, stays(lake, "journal"), on_table=lambda _: bar.advance(task)
            )
    right = [Column(name, justify="right") for name in ("rows", "files written anew")]
    table = Table("table", *right)
    for each in done:
        table.add_row(each.table, f"{each.rows:,}", f"{each.files:,}")
    output = Output()
    output.print(table)
    if any(each.rows for each in done):
        said = "the node's own database and its segments may still have these rows"
        console.print(Text(said, style="yellow"))


def _ask(user: str, hub: str) -> None:
    """Go on only if somebody says yes.

    Raises:
        typer.Abort: somebody said no.
        typer.BadParameter: nobody is there to be asked.
    """
    said = f"Erase user {printable(user)} of hub {hub} for ever?"
    try:
        typer.confirm(said, abort=True, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        sys.stderr.write("\n")
        raise typer.BadParameter(
            "nothing was erased: nobody said yes; where nobody can be asked, give --yes"
        ) from None
