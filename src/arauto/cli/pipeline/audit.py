"""`arauto pipeline audit`: all about a message, a user or a channel."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    say_if_hub_is_missing,
    starting_spark,
)
from arauto.names import check_hub, check_kept
from arauto.printable import one_line, printable

if TYPE_CHECKING:
    from arauto.pipeline.sql.run import Answer

__all__ = ["audit"]

_Form = Literal["table", "json", "csv"]


def audit(
    message: Annotated[
        str, typer.Option(metavar="ID", help="A message: its id, or node:seq of the journal.")
    ] = "",
    user: Annotated[str, typer.Option(help="A user.")] = "",
    channel: Annotated[str, typer.Option(help="A channel.")] = "",
    peaks: Annotated[
        bool,
        typer.Option(
            "--peaks", help="The busiest minutes instead, of all or of the channel or user."
        ),
    ] = False,
    hub: Annotated[str | None, typer.Option(help="In this hub only.")] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Since: 2026-11-16T10:30, 2h, 7d.")
    ] = "",
    to: Annotated[str, typer.Option(metavar="TIME", help="Before.")] = "",
    form: Annotated[_Form, typer.Option("--format", "-f", help="How to print rows.")] = "table",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows at most.")] = 1_000,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Who sent what, when and from where, to whom it went, what was refused and why: one list, oldest first.

    Times are UTC. Reaches as far back as the lake (pipeline.retention); what is not archived yet is missing.

    arauto pipeline audit --user ana --hub shop --from 1d

    arauto pipeline audit --message n1:1234

    Exit code 0: answered, also if nothing was found. 1: failed.
    """
    named = sum(map(bool, (message, user, channel)))
    if named > 1 or (not named and not peaks) or (message and peaks):
        raise typer.BadParameter("say one of --message, --user and --channel, or --peaks")
    now = datetime.now(UTC)
    from_ms = parse_time(from_, now) if from_ else None
    to_ms = parse_time(to, now) if to else None
    if hub is not None:
        check_hub(hub)
    if channel:
        check_kept(channel)
    settings = read_config(config, data_dir)
    console = errors()
    with starting_spark(settings, "arauto-audit", console, master=master) as context:
        from arauto.pipeline.audit.ask import Subject, ask_audit
        from arauto.pipeline.audit.questions import Question

        question = Question(hub, from_ms, to_ms)
        subject = Subject(message, user, channel, peaks)
        with console.status("looking …"):
            answer = ask_audit(context.lake, question, subject, limit)
            if not answer.rows:
                say_if_hub_is_missing(console, context, hub)
        _show(answer, form)
    if answer.is_cut:
        console.print(
            f"there is more than these {limit:,} rows; say --limit or --to", style="yellow"
        )


def _show(answer: "Answer", form: _Form) -> None:
    from arauto.pipeline.sql.output import cell, to_csv, to_json

    if form != "table":
        sys.stdout.write(to_csv(answer) if form == "csv" else to_json(answer))
        return
    output = Output()
    if "what" in answer.columns:
        for row in answer.rows:
            output.print(_line(dict(zip(answer.columns, row, strict=True)), cell))
    else:
        table = Table(*answer.columns)
        for row in answer.rows:
            # What messages hold must not steer the terminal, and is not markup either.
            table.add_row(*(Text(printable(cell(value))) for value in row))
        output.print(table)
    output.print(f"{len(answer.rows):,} rows", style="dim")


def _line(event: dict[str, Any], cell: Callable[[Any], str]) -> Text:
    """One event for people: when and what, where, who, from where, and what else there is to say."""
    place = f"{event['node']}:{event['seq']}"
    session = f"session {event['session']}" if event["session"] else ""
    where = " ".join(filter(None, (event["hub"], event["channel"])))
    source = " ".join(filter(None, (event["transport"], event["address"])))
    parts = (where, event["user"], session, source, event["detail"], place)
    line = Text(cell(event["ts"]), style="dim")
    line.append(f"  {event['what']:<13}  ", style="bold")
    line.append(" · ".join(one_line(part) for part in parts if part), style="not dim")
    return line
