"""`arauto version`."""

import json
import platform
from typing import Annotated

import typer

from arauto import __version__

__all__ = ["version"]


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the version of Arauto and of the Python it runs on."""
    if as_json:
        typer.echo(json.dumps({"arauto": __version__, "python": platform.python_version()}))
    else:
        typer.echo(f"arauto {__version__} (Python {platform.python_version()})")
