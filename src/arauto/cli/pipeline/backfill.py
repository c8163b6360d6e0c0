"""`arauto pipeline backfill`: take in what is there, once."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from arauto.cli.console import errors
from arauto.cli.pipeline.common import ConfigFile, DataDir, Master, read_config, starting_spark
from arauto.config.addresses import admin_url, lake_dir, segments_dir
from arauto.config.base import secret_values
from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.printable import printable
from arauto.telemetry.log import configure_logging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arauto.pipeline.lake.table import Lake
    from arauto.pipeline.source.offsets import Place

__all__ = ["backfill"]


def backfill(config: ConfigFile = None, data_dir: DataDir = None, master: Master = "") -> None:
    """Have the node export its journal, take all segments into the lake, bring tables up to date, and end.

    For nodes without a running pipeline, from cron for example. Doing it again does nothing. Where the node
    does not run, or admin.token is not set, it takes in what was exported, and tells how many rows wait.

    Example: arauto pipeline backfill --config config.yaml

    Exit code 0: done. 1: failed.
    """
    console = errors()
    settings = read_config(config, data_dir)
    configure_logging(level="warning", format="console", secrets=secret_values(settings))
    with starting_spark(
        settings, "arauto-backfill", console, master=master, alone=lake_dir(settings)
    ) as context:
        from arauto.pipeline.check import journal_places
        from arauto.pipeline.feed import journal_url
        from arauto.pipeline.metrics import PipelineMetrics
        from arauto.pipeline.runner import Pipeline

        # What is written from now on is for the next time.
        places = journal_places(journal_url(settings)) or {}
        why_not = _exported(settings, console)
        pipeline = Pipeline(context, settings.admin.token, PipelineMetrics())
        before = context.lake.table("journal").state().rows
        with console.status("taking in segments …"):
            pipeline.backfill()
        rows = context.lake.table("journal").state().rows
        console.print(Text(f"{rows - before:,} rows taken in; the lake holds {rows:,}"))
        _tell_waiting(console, settings, context.lake, places, why_not)


def _exported(settings: Config, console: Console) -> str:
    """Have the node export its journal. Why that was not possible; "" if it was."""
    from arauto.pipeline.node_api import NodeApi

    if not settings.admin.token:
        return "admin.token is not set"
    try:
        with (
            console.status("the node exports its journal …"),
            NodeApi(admin_url(settings), settings.admin.token) as node,
        ):
            node.export_journal()
    except ArautoError as error:
        return error.message
    return ""


def _tell_waiting(
    console: Console, settings: Config, lake: "Lake", places: "Mapping[str, Place]", why_not: str
) -> None:
    from arauto.pipeline.unexported import told, waiting

    coverage = lake.table("journal").state().coverage
    lasts = {node: seen[-1][1] for node, seen in coverage.items() if seen}
    found = waiting(places, segments_dir(settings), lasts)
    if found:
        said = f"left out: {told(found)}"
        why = f"; the node was not asked to export them: {why_not}" if why_not else ""
        console.print(Text(printable(said + why), style="yellow"))
