"""`arauto pipeline`: the data pipeline's commands, one file each."""

import typer

from arauto.cli.lazy import Table, lazy_group

__all__ = ["COMMANDS", "app"]

COMMANDS: Table = {
    "run": ("arauto.cli.pipeline.run:run", "Archive, roll up and correlate, until stopped."),
    "backfill": ("arauto.cli.pipeline.backfill:backfill", "Take in what is there, once, and end."),
    "check": ("arauto.cli.pipeline.check:check", "Is everything of the journal in the lake, once?"),
    "rules": ("arauto.cli.pipeline.rules:app", "Check, try, show and set correlation rules."),
    "sql": ("arauto.cli.pipeline.sql:sql", "Ask the lake a question in SQL."),
    "audit": ("arauto.cli.pipeline.audit:audit", "All about a message, a user or a channel."),
    "report": ("arauto.cli.pipeline.report:report", "Write a page with charts."),
    "mine": ("arauto.cli.pipeline.mine:mine", "Find what goes together, and what follows what."),
    "replay": ("arauto.cli.pipeline.replay:replay", "Publish the past again."),
    "compact": ("arauto.cli.pipeline.compact:compact", "Merge small files and apply retention."),
    "erase": ("arauto.cli.pipeline.erase:erase", "Remove what a user sent, for ever."),
}

app = typer.Typer(
    name="pipeline",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _pipeline() -> None:
    """From the journal to answers, on Apache Spark. Reads the node's configuration.

    Start with `arauto pipeline run`.
    """
