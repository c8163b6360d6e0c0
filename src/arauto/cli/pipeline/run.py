"""`arauto pipeline run`: archive, roll up and correlate beside a node, until stopped."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import structlog
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from arauto.cli.console import errors
from arauto.cli.pipeline.common import ConfigFile, DataDir, Master, read_config, starting_spark
from arauto.cli.pipeline.log_file import LogFile
from arauto.config.addresses import admin_url, lake_dir
from arauto.config.base import secret_values
from arauto.config.schema import Config
from arauto.telemetry.log import configure_logging

if TYPE_CHECKING:
    from arauto.pipeline.metrics import PipelineMetrics
    from arauto.pipeline.runner import Pipeline

__all__ = ["run"]

_log = structlog.get_logger(__name__)

_Seconds = Annotated[
    float, typer.Option(min=0, metavar="N", help="Stop after N seconds; 0 = on Ctrl-C.")
]
_WithParent = Annotated[
    bool, typer.Option("--with-parent", hidden=True, help="Stop when who started this is gone.")
]
_PICTURES_PER_S = 1
#: Within the lake, since there is one pipeline per lake.
_LOG = "_logs/pipeline.log"
_WATCH_S = 1.0


def run(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
    seconds: _Seconds = 0.0,
    with_parent: _WithParent = False,
) -> None:
    """Keep the lake up to date, publish roll-ups, and run the correlation rules of all hubs.

    Reads the node's configuration: `admin.token` must be set there (or in ARAUTO_ADMIN__TOKEN) for results to
    reach the node. One pipeline per lake.

    Example: arauto pipeline run --config config.yaml

    Exit code 0: stopped as asked. 1: could not start, or Spark has ended by itself.
    """
    console = errors()
    settings = read_config(config, data_dir)
    log = _log_file(settings) if console.is_terminal else None
    configure_logging(
        level="warning" if console.is_terminal and log is None else settings.debug.level,
        format="console" if console.is_terminal else settings.debug.format,
        secrets=secret_values(settings),
        stream=cast("TextIO | None", log),
    )
    with starting_spark(
        settings,
        "arauto-pipeline",
        console,
        master=master,
        alone=lake_dir(settings),
        unattended=True,
        tell=_tell_spark(),
    ) as context:
        # Only now: they need Spark to be there.
        from arauto.pipeline.metrics import PipelineMetrics
        from arauto.pipeline.runner import Pipeline

        metrics = PipelineMetrics()
        pipeline = Pipeline(context, settings.admin.token, metrics)
        _introduce(console, settings, log)
        if settings.pipeline.metrics_port:
            metrics.serve(settings.pipeline.metrics_host, settings.pipeline.metrics_port)
        asked = _stop_asked(seconds, os.getppid() if with_parent else 0)
        pipeline.start(on_ended=asked.set)
        try:
            _wait(console, pipeline, metrics, asked)
        finally:
            with console.status("stopping after the batches that run …"):
                pipeline.stop()
        pipeline.check()
    console.print(Text("stopped", style="dim"))


def _log_file(config: Config) -> LogFile | None:
    """Where lines go that would spoil the picture; None if it cannot be written."""
    try:
        return LogFile(lake_dir(config) / _LOG)
    except OSError:
        return None


def _tell_spark() -> Callable[[str], None] | None:
    try:
        from arauto.pipeline.said import alarming, limited
    except ModuleNotFoundError:
        return None
    return alarming(limited(lambda line: _log.warning("spark", said=line)))


def _introduce(console: Console, config: Config, log: LogFile | None) -> None:
    console.print(Text.assemble(("pipeline  ", "bold"), "archive, roll-ups, rules"))
    console.print(Text.assemble(("  lake     ", "bold"), str(Path(lake_dir(config)))))
    if config.admin.token:
        console.print(Text.assemble(("  node     ", "bold"), admin_url(config)))
    else:
        said = "admin.token is not set: results stay in the lake, and no rules run"
        console.print(Text.assemble(("  node     ", "bold"), (said, "yellow")))
    if config.pipeline.metrics_port:
        port = f"http://{config.pipeline.metrics_host}:{config.pipeline.metrics_port}/metrics"
        console.print(Text.assemble(("  metrics  ", "bold"), port))
    if log is not None:
        console.print(Text.assemble(("  log      ", "bold"), str(log.path)))


def _stop_asked(seconds: float, parent: int) -> threading.Event:
    """Set by a signal, when the time is over, or when the parent process is gone."""
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    if seconds:
        timer = threading.Timer(seconds, asked.set)
        timer.daemon = True
        timer.start()

    def watch() -> None:
        while os.getppid() == parent:
            asked.wait(_WATCH_S)
        asked.set()

    if parent:
        threading.Thread(target=watch, daemon=True).start()
    return asked


def _wait(
    console: Console, pipeline: "Pipeline", metrics: "PipelineMetrics", asked: threading.Event
) -> None:
    if not console.is_terminal:
        asked.wait()
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not asked.wait(1 / _PICTURES_PER_S):
            live.update(picture(pipeline, metrics), refresh=True)


def picture(pipeline: "Pipeline", metrics: "PipelineMetrics") -> Table:
    """How each part is doing."""
    values = {
        (
            sample.name.removeprefix("arauto_pipeline_"),
            next(iter(sample.labels.values()), ""),
        ): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }
    table = Table(box=None, header_style="dim")
    table.add_column("")
    for name in ("rows", "rows/s", "batches", "last batch", "waiting", "behind", "restarts"):
        table.add_column(name, justify="right")
    table.add_column("")
    for worker in pipeline.workers:
        name = worker.name.removeprefix("pipeline-")
        value = {key: number for (key, query), number in values.items() if query == name}
        if name == "rollup":
            cells = [f"{values.get(('bronze_rows_read_total', 'rollup_5m'), 0):,.0f}", *[""] * 5]
        elif name == "upkeep":
            cells = [""] * 6
        else:
            cells = [
                f"{value.get('rows_total', 0):,.0f}",
                f"{value.get('rows_per_second', 0):,.0f}",
                f"{value.get('batches_total', 0):,.0f}",
                f"{value.get('batch_seconds', 0):.1f} s",
                _known(value.get("backlog_rows", -1), ""),
                _known(value.get("watermark_lag_seconds", -1), " s"),
            ]
        rules = pipeline.rules.get(name)
        said = "" if rules is None else "1 rule" if rules == 1 else f"{rules or 'no'} rules"
        note = Text(worker.failure, style="red") if worker.failure else Text(said, style="dim")
        table.add_row(name, *cells, f"{value.get('restarts_total', 0):,.0f}", note)
    return table


def _known(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if value >= 0 else ""
