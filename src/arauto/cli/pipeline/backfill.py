"""`arauto pipeline backfill`: take in what is there, once."""

from rich.text import Text

from arauto.cli.console import errors
from arauto.cli.pipeline.common import ConfigFile, DataDir, Master, read_config, starting_spark
from arauto.config.addresses import lake_dir
from arauto.config.base import secret_values
from arauto.telemetry.log import configure_logging

__all__ = ["backfill"]


def backfill(config: ConfigFile = None, data_dir: DataDir = None, master: Master = "") -> None:
    """Take all exported segments into the lake, bring silver and roll-ups up to date, and end.

    For nodes without a running pipeline, from cron for example. Doing it again does nothing.

    Example: arauto pipeline backfill --config config.yaml

    Exit code 0: done. 1: failed.
    """
    console = errors()
    settings = read_config(config, data_dir)
    configure_logging(level="warning", format="console", secrets=secret_values(settings))
    with starting_spark(
        settings, "arauto-backfill", console, master=master, alone=lake_dir(settings)
    ) as context:
        from arauto.pipeline.metrics import PipelineMetrics
        from arauto.pipeline.runner import Pipeline

        pipeline = Pipeline(context, settings.admin.token, PipelineMetrics())
        before = context.lake.table("journal").state().rows
        with console.status("taking in segments …"):
            pipeline.backfill()
        rows = context.lake.table("journal").state().rows
    console.print(Text(f"{rows - before:,} rows taken in; the lake holds {rows:,}"))
