"""`arauto pipeline sql`: ask the lake a question."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from arauto.cli.console import Output, errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    read_config,
    starting_spark,
)
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.pipeline.sql.run import Answer

__all__ = ["sql"]

_CELL_LEN_MAX = 120


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT. `-` reads it from standard input.")],
    hub: Annotated[
        str | None, typer.Option(help="See this hub's rows only, as its owner may; else all.")
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json"], typer.Option("--format", "-f", help="How to print rows.")
    ] = "table",
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Print at most so many rows, and say if there were more."),
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Rows since: 2026-11-16T10:30, 2h, 7d.")
    ] = "",
    to: Annotated[str, typer.Option(metavar="TIME", help="Rows before.")] = "",
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Ask the lake a question in Spark's SQL.

    There is a view for each table: messages, sessions, session_starts, refusals, subscriptions, changes,
    counters, quarantine, rollup_5m, matches, mined. Queries only read, and end after pipeline.sql.timeoutS.

    arauto pipeline sql "SELECT channel, count(*) n FROM messages GROUP BY channel ORDER BY n DESC" --from 1d
    """
    now = datetime.now(UTC)
    from_ms = parse_time(from_, now) if from_ else None
    to_ms = parse_time(to, now) if to else None
    text = sys.stdin.read() if query == "-" else query
    settings = read_config(config, data_dir)
    console = errors()
    _check_early(text)
    with starting_spark(settings, "arauto-sql", console, master=master) as context:
        from arauto.pipeline.sql.run import Limits, ask

        limits = Limits(settings.pipeline.sql.rows_max, settings.pipeline.sql.timeout_s)
        with console.status("asking …"):
            answer = ask(
                context.lake, text, limits, hub=hub, limit=limit, from_ms=from_ms, to_ms=to_ms
            )
    _show(answer, form)
    if answer.is_cut:
        console.print(f"there are more than these {len(answer.rows)} rows", style="yellow")


def _check_early(text: str) -> None:
    """Say what is wrong with a query before Spark takes its time to start."""
    try:
        from arauto.pipeline.sql.check import check_query
        from arauto.pipeline.sql.views import VIEWS
    except ModuleNotFoundError:
        return  # who starts Spark says what is missing
    check_query(text, VIEWS)


def _show(answer: "Answer", form: str) -> None:
    from arauto.pipeline.sql.output import cell, to_csv, to_json

    if form != "table":
        sys.stdout.write(to_csv(answer) if form == "csv" else to_json(answer))
        return
    table = Table()
    for name in answer.columns:
        table.add_column(Text(printable(name)))
    for row in answer.rows:
        # What messages hold must not steer the terminal, and is not markup either.
        table.add_row(*(Text(printable(cell(value)[:_CELL_LEN_MAX])) for value in row))
    output = Output()
    output.print(table)
    output.print(f"{len(answer.rows)} rows", style="dim")
