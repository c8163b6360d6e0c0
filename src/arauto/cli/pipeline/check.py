"""`arauto pipeline check`: is everything of the journal in the lake, once?"""

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Column, Table
from rich.text import Text

from arauto.cli.console import Output, errors
from arauto.cli.pipeline.common import ConfigFile, DataDir, Master, read_config, starting_spark
from arauto.config.addresses import segments_dir
from arauto.printable import printable

if TYPE_CHECKING:
    from arauto.pipeline.check import LakeReport

__all__ = ["check"]


def check(
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Believe the commits; do not count rows one by one.")
    ] = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    master: Master = "",
) -> None:
    """Compare the lake with the journal: gaps, rows that are there twice, files that are gone, quarantine.

    Rows the journal has and the lake not yet are no fault; they show as "to come", and those of them that the
    node has yet to export as "not exported".

    Example: arauto pipeline check --config config.yaml

    Exit code 0: all is there, once. 1: something is missing or wrong.
    """
    console = errors()
    settings = read_config(config, data_dir)
    with starting_spark(settings, "arauto-check", console, master=master) as context:
        from arauto.pipeline.check import check_lake, journal_places
        from arauto.pipeline.feed import journal_url

        with console.status("checking …"):
            url = journal_url(settings)
            report = check_lake(
                context.lake, segments_dir(settings), lambda: journal_places(url), quick=quick
            )
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _show(report)
    raise typer.Exit(1 if report.problems else 0)


def _show(report: "LakeReport") -> None:
    output = Output()
    nodes = _table(
        "node", "rows", "first seq", "last seq", "missing", "removed", "to come", "not exported"
    )
    for node in report.nodes:
        missing = sum(last - first + 1 for first, last in node.missing)
        numbers = (node.rows, node.first, node.last, missing, node.rows_removed)
        lag = "?" if node.lag is None else f"{node.lag:,}"
        first, last = node.unexported or (0, -1)
        late = "?" if node.lag is None else f"{last - first + 1:,}"
        nodes.add_row(Text(printable(node.node)), *(f"{n:,}" for n in numbers), lag, late)
    output.print(nodes)
    tables = _table("table", "rows", "files", "MB", "lost", "not counting")
    for table in report.tables:
        size = f"{table.size_bytes / 1e6:,.1f}"
        counts = (f"{table.rows:,}", f"{table.files:,}", size, f"{len(table.lost):,}")
        tables.add_row(table.table, *counts, f"{table.orphans:,}")
    output.print(tables)
    output.print(
        f"{report.duplicates:,} rows came twice and were left out; {report.untaken:,} files wait for "
        "derived tables"
    )
    for reason, rows in report.quarantine.items():
        output.print(Text(f"in quarantine: {rows:,} × {printable(reason)}"))
    for problem in report.problems:
        output.print(Text(printable(problem), style="red"))
    _show_end(output, report)


def _show_end(output: Output, report: "LakeReport") -> None:
    from arauto.pipeline.unexported import Waiting, told

    late = [Waiting(each.node, *each.unexported) for each in report.nodes if each.unexported]
    if not report.problems:
        all_of_it = (
            "all that the nodes have exported is there, once" if late else "all is there, once"
        )
        output.print(all_of_it, style="green")
    if any(node.lag is None for node in report.nodes):
        output.print(
            "the journal could not be asked, so nobody knows what is to come", style="yellow"
        )
    if late:
        output.print(
            f"{told(late)}; `arauto pipeline backfill` has the node export them", style="yellow"
        )


def _table(first: str, *names: str) -> Table:
    # No lines between the columns: with them 80 columns are too few, and headings would be cut.
    columns = (Column(name, justify="right", overflow="fold") for name in names)
    return Table(first, *columns, box=None, header_style="dim")
