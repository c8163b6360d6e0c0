"""`arauto pipeline sql`: ask the lake questions."""

import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from arauto.cli.console import errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    read_config,
    say_if_hub_is_missing,
    starting_spark,
)
from arauto.cli.pipeline.sql_show import Form, show

if TYPE_CHECKING:
    from arauto.pipeline.context import Context
    from arauto.pipeline.sql.run import Answer

__all__ = ["sql"]


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="One SELECT, SHOW TABLES or DESCRIBE VIEW; `-` reads standard input; none: a shell.",
        ),
    ] = None,
    hub: Annotated[
        str | None, typer.Option(help="See this hub's rows only, as its owner may; else all.")
    ] = None,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            "-f",
            help="How to print rows. A table that is too wide is printed expanded: a field per line.",
        ),
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
    """Ask the lake questions in Spark's SQL: one, or in a shell as many as you like.

    There is a view for each table: messages, sessions, session_starts, refusals, subscriptions, changes,
    counters, quarantine, rollup_5m, matches, mined. Queries only read, and end after pipeline.sql.timeoutS.

    arauto pipeline sql "SELECT channel, count(*) n FROM messages GROUP BY channel ORDER BY n DESC" --from 1d
    """
    now = datetime.now(UTC)
    from_ms = parse_time(from_, now) if from_ else None
    to_ms = parse_time(to, now) if to else None
    text = _text(query)
    settings = read_config(config, data_dir)
    console = errors()
    if text is not None and _answered_early(text, form):
        return
    with starting_spark(settings, "arauto-sql", console, master=master) as context:
        from arauto.pipeline.sql.run import Limits, ask

        limits = Limits(settings.pipeline.sql.rows_max, settings.pipeline.sql.timeout_s)

        def answer_of(question: str) -> "Answer":
            return ask(
                context.lake, question, limits, hub=hub, limit=limit, from_ms=from_ms, to_ms=to_ms
            )

        if text is None:
            say_if_hub_is_missing(console, context, hub)
            _shell(context, answer_of, form, hub or "all hubs")
            return
        with console.status("asking …"):
            answer = answer_of(text)
        # A count over nothing is a row too.
        if not any(value for row in answer.rows for value in row):
            say_if_hub_is_missing(console, context, hub)
    show(answer, form)
    if answer.is_cut:
        console.print(f"there are more than these {len(answer.rows)} rows", style="yellow")


def _text(query: str | None) -> str | None:
    """The question; None if they are to be asked for."""
    if query == "-" or (query is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    if query is None and not sys.stdout.isatty():
        raise typer.BadParameter("give a question: the shell needs a terminal to answer to")
    return query


def _answered_early(text: str, form: Form) -> bool:
    """Say what is wrong with a query, or all about views, before Spark takes its time to start."""
    try:
        from arauto.pipeline.sql.catalog import about_views
        from arauto.pipeline.sql.check import check_query
        from arauto.pipeline.sql.views import VIEWS
    except ModuleNotFoundError:
        return False  # who starts Spark says what is missing
    answer = about_views(text)
    if answer is None:
        check_query(text, VIEWS)
        return False
    show(answer, form)
    return True


def _shell(context: "Context", ask: "Callable[[str], Answer]", form: Form, name: str) -> None:
    from arauto.cli.pipeline.sql_shell import Shell, editing, history_path, read_line
    from arauto.pipeline.lifeline import how_it_ended
    from arauto.pipeline.sql.catalog import about_views, columns_of
    from arauto.pipeline.sql.views import VIEWS

    # Spark's own answer to Ctrl-C would cancel, from here, what another thread is talking to it about.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shell = Shell(
        lambda text: about_views(text) or ask(text),
        read_line,
        form=form,
        name=name,
        is_over=lambda: bool(how_it_ended(context.spark)),
    )
    views = {view: columns_of(view) for view in VIEWS}
    with editing(history_path(os.environ), views, lambda: shell.text):
        shell.run()
