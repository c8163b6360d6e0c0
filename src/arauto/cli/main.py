"""The `arauto` command. One file per sub-command; here they only get their names."""

import sys

import typer
from rich.console import Console

from arauto.cli.bench import app as bench
from arauto.cli.check_config import check_config
from arauto.cli.default_config import default_config
from arauto.cli.serve import serve
from arauto.cli.version import version
from arauto.errors import ArautoError

__all__ = ["app", "main"]

app = typer.Typer(
    name="arauto",
    help="A multi-tenant, real-time message bus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve)
app.add_typer(bench, name="bench")
app.command("check-config")(check_config)
app.command("default-config")(default_config)
app.command("version")(version)

EXIT_ERROR = 1


def main() -> None:
    """Run the command line; errors of ours are one clear line, not a traceback."""
    try:
        app()
    except ArautoError as error:
        Console(stderr=True).print(f"[red]error[/red] {error}", highlight=False)
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
