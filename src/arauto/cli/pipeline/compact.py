"""`arauto pipeline compact`: keep the lake in shape."""

import time
from typing import Annotated

import typer
from rich.table import Column, Table

from arauto.cli.console import Output, errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    progress_bar,
    read_config,
    starting_spark,
)
from arauto.config.addresses import segments_dir, upkeep_dir

__all__ = ["compact"]


def compact(
    grace_s: Annotated[
        int,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            min=0,
            help="Delete files so long after they stopped to count; 0 breaks queries that run.",
        ),
    ] = 3_600,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Merge small files, drop what is older than pipeline.retention says, delete what no longer counts.

    May run beside `arauto pipeline run`. Segments of the node go when they are in the lake and older than
    pipeline.retention.segmentsDays. Give it the pipeline's configuration: without an admin token
    it takes it that roll-ups go to no node, and merges all of them.

    Example: arauto pipeline compact --config config.yaml

    Exit code 0: done. 1: failed; what was finished stays, and nothing is lost.
    """
    console = errors()
    settings = read_config(config, data_dir)
    with starting_spark(
        settings, "arauto-compact", console, master=master, alone=upkeep_dir(settings)
    ) as context:
        from arauto.pipeline.lake.retention import cutoff_ms, expire_segments
        from arauto.pipeline.schemas import TABLES
        from arauto.pipeline.upkeep import keep_up

        now_ms = time.time_ns() // 1_000_000
        retention = settings.pipeline.retention
        with progress_bar(console) as bar:
            task = bar.add_task("compacting", total=len(TABLES))
            done = keep_up(
                context.lake,
                retention,
                now_ms=now_ms,
                grace_ms=grace_s * 1000,
                serving=bool(settings.admin.token),
                on_table=lambda _: bar.advance(task),
            )
            before_ms = cutoff_ms(now_ms, retention.segments_days)
            coverage = context.lake.table("journal").state().coverage
            gone = (
                expire_segments(segments_dir(settings), coverage, before_ms)
                if before_ms is not None
                else []
            )
    names = ("files before", "files now", "rows dropped", "files deleted")
    table = Table("table", *(Column(name, justify="right") for name in names))
    for each in done:
        counts = (each.files_before, each.files_after, each.rows_removed, each.files_deleted)
        table.add_row(each.table, *(f"{count:,}" for count in counts))
    output = Output()
    output.print(table)
    output.print(f"{len(gone):,} segments deleted", style="dim")
