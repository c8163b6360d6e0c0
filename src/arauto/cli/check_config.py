"""`arauto check-config`: explain everything that is wrong with a configuration, pointing at the line."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from arauto.cli.console import Output
from arauto.config.load import Report, examine, find_file
from arauto.config.problems import Problem

__all__ = ["EXIT_INVALID", "check_config"]

EXIT_INVALID = 2

_LINE_LEN_MAX = 160
_SECRET_KEY = re.compile(
    r"""(?:secret|passw|pasw|token|tokn|key|cred|auth|header)[\w-]*["']?\s*:""", re.IGNORECASE
)


def check_config(
    path: Annotated[
        Path | None,
        typer.Argument(help="The file; else ARAUTO_CONFIG, else config.yaml if it is there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what is wrong with a configuration file and the ARAUTO_ variables.

    Exit code 0: it can be used (there may be warnings). 2: it cannot.
    """
    path = path or find_file(os.environ)
    report = examine(path, os.environ)
    if as_json:
        sys.stdout.write(_json(path, report) + "\n")
    else:
        _show(Output(), path, report)
    if report.problems:
        raise typer.Exit(EXIT_INVALID)


def _json(path: Path | None, report: Report) -> str:
    answer = {
        "file": None if path is None else str(path),
        "valid": not report.problems,
        "problems": [_plain(problem) for problem in report.problems],
        "warnings": [_plain(problem) for problem in report.warnings],
    }
    return msgspec.json.encode(answer).decode()


def _plain(problem: Problem) -> dict[str, object]:
    place = problem.place
    return {
        "file": place.file or None,
        "line": place.line or None,
        "column": place.column or None,
        "variable": place.variable or None,
        "path": problem.path or None,
        "message": problem.said,
    }


def _show(console: Console, path: Path | None, report: Report) -> None:
    lines = report.text.splitlines()
    for style, problems in (("red", report.problems), ("yellow", report.warnings)):
        for problem in problems:
            _show_one(console, problem, lines, style)
    # Text, not a string: a file name is not markup.
    name = "defaults and environment" if path is None else str(path)
    if report.problems:
        count = len(report.problems)
        said = Text(f"{name}: {count} problem{'s' if count > 1 else ''}", style="bold red")
    else:
        said = Text(f"{name}: ok", style="bold green")
    if report.warnings:
        count = len(report.warnings)
        said.append(f", {count} warning{'s' if count > 1 else ''}", style="yellow")
    console.print(said, soft_wrap=True)


def _show_one(console: Console, problem: Problem, lines: list[str], style: str) -> None:
    head = Text()
    for part, part_style in ((str(problem.place), "bold"), (problem.path, "cyan")):
        if part:
            head.append(part, style=part_style)
            head.append(": ")
    head.append(problem.said, style=style)
    console.print(head, soft_wrap=True)
    line, column = problem.place.line, problem.place.column
    if 0 < line <= len(lines) and not problem.absent:
        number = f"{line:>5} | "
        source = _masked(lines, line - 1, problem).expandtabs(1)[:_LINE_LEN_MAX]
        console.print(Text(number + source, style="dim"), soft_wrap=True)
        if column - 1 <= len(source):
            caret = " " * (len(number) + column - 1) + "^"
            console.print(Text(caret, style=style), soft_wrap=True)


def _masked(lines: list[str], index: int, problem: Problem) -> str:
    """Return a line with everything hidden that is, or might be, a secret's value."""
    line = lines[index]
    found = _SECRET_KEY.search(line)
    if found:
        rest = line[found.end() :].strip()
        return line[: found.end()] + (" ***" if rest else "")
    # A line that breaks the syntax may be the continuation of a secret on the line before.
    before = next((text for text in reversed(lines[:index]) if text.strip()), "")
    if problem.secret or (not problem.path and _SECRET_KEY.search(before)):
        return line[: len(line) - len(line.lstrip())] + "***"
    return line
