"""`arauto pipeline report`: write a page with charts."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from arauto.cli.console import errors
from arauto.cli.pipeline.common import (
    ConfigFile,
    DataDir,
    Master,
    parse_time,
    progress_bar,
    read_config,
    say_if_hub_is_missing,
    starting_spark,
)
from arauto.names import check_hub

__all__ = ["report"]


def report(
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Since: 2026-11-01, 24h, 7d (ago).")
    ] = "7d",
    to: Annotated[str, typer.Option(metavar="TIME", help="Until; not included. Else now.")] = "",
    hub: Annotated[str | None, typer.Option(help="One hub; else all of them.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Write a page about a period: traffic, peaks, sessions, durations, errors, rules, data quality.

    The page is one file that needs nothing else: no network, no scripts.
    """
    now = datetime.now(UTC)
    now_ms = int(now.timestamp() * 1000)
    from_ms, to_ms = parse_time(from_, now), parse_time(to, now) if to else now_ms
    if hub is not None:
        check_hub(hub)
    settings = read_config(config, data_dir)
    console = errors()
    if not output.resolve().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {output.parent}", param_hint="--output")
    with starting_spark(settings, "arauto-report", console, master=master) as context:
        from arauto.pipeline.report.page import render
        from arauto.pipeline.report.queries import STEPS, make_report

        with progress_bar(console) as bar:
            task = bar.add_task(STEPS[0], total=len(STEPS))
            made = make_report(
                context.lake,
                from_ms=from_ms,
                to_ms=to_ms,
                made_ms=now_ms,
                hub=hub,
                on_step=lambda name: bar.update(
                    task, description=name, completed=STEPS.index(name)
                ),
            )
        say_if_hub_is_missing(console, context, hub)
    _write(output, render(made))
    console.print(f"written: {output}")


def _write(path: Path, text: str) -> None:
    """Whole or not at all: somebody may be looking at the last one."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(path)
