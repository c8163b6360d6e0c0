"""Shows the rows of an answer: as a table, a field per line where that is too wide, or for programs."""

import sys
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from arauto.cli.console import Output
from arauto.printable import one_line, printable

if TYPE_CHECKING:
    from arauto.pipeline.sql.run import Answer

__all__ = ["FORMS", "Form", "show"]

Form = Literal["table", "expanded", "csv", "json"]
FORMS: tuple[Form, ...] = ("table", "expanded", "csv", "json")

_CELL_LEN_MAX, _VALUE_LEN_MAX = 120, 4_000
#: What a table draws around each cell, and at its end.
_BORDER_LEN = 3


def show(answer: "Answer", form: Form) -> None:
    """Print an answer to standard output.

    A table that does not fit the terminal is printed one field per line; one for a file is as wide as it is.
    """
    if form in ("csv", "json"):
        from arauto.pipeline.sql.output import to_csv, to_json

        sys.stdout.write(to_csv(answer) if form == "csv" else to_json(answer))
        sys.stdout.flush()
        return
    from arauto.pipeline.sql.output import cell

    output = Output()
    names = [one_line(name) for name in answer.columns]
    short = [[_cut(one_line(cell(value)), _CELL_LEN_MAX) for value in row] for row in answer.rows]
    width = _width(names, short)
    if form == "table" and (width <= output.width or not output.is_terminal):
        if not output.is_terminal:
            output.width = max(output.width, width)
        output.print(_table(names, short))
    else:
        whole = [
            [_cut(printable(cell(value)), _VALUE_LEN_MAX) for value in row] for row in answer.rows
        ]
        for number, row in enumerate(whole, 1):
            output.print(_record(names, row, number))
    count = len(answer.rows)
    output.print(f"{count:,} row{'s'[: count != 1]}", style="dim")


def _width(names: list[str], rows: list[list[str]]) -> int:
    lens = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    return sum(lens) + _BORDER_LEN * len(lens) + 1


def _table(names: list[str], rows: list[list[str]]) -> Table:
    table = Table()
    for name in names:
        table.add_column(Text(name), no_wrap=True)
    for row in rows:
        # What messages hold must not steer the terminal, and is not markup either.
        table.add_row(*map(Text, row))
    return table


def _record(names: list[str], row: list[str], number: int) -> Text:
    """One row, a field per line."""
    indent = max(map(cell_len, names), default=0) + 2
    shown = Text(f"─ row {number:,} ─", style="dim")
    for name, value in zip(names, row, strict=True):
        shown.append(f"\n{name:<{indent}}", style="cyan not dim")
        shown.append(value.replace("\n", "\n" + " " * indent), style="not dim")
    return shown


def _cut(text: str, len_max: int) -> str:
    return text if len(text) <= len_max else text[: len_max - 1] + "…"
