"""The `arauto` command. One file per sub-command; here they only get their names.

A command's module is imported when that command is called and not before: `arauto version` and
`arauto --help` must not wait for the node's parts to load.
"""

import io
import os
import sys

import typer

from arauto.cli.lazy import Table, lazy_group
from arauto.errors import ArautoError
from arauto.printable import printable

__all__ = ["COMMANDS", "app", "main"]

EXIT_ERROR, EXIT_INTERRUPTED = 1, 130

COMMANDS: Table = {
    "demo": ("arauto.cli.demo:demo", "Try it: a node with a few simulated shops."),
    "serve": ("arauto.cli.serve:serve", "Run a node."),
    "sub": ("arauto.cli.sub:sub", "Print messages as they come."),
    "pub": ("arauto.cli.pub:pub", "Publish messages."),
    "check-config": (
        "arauto.cli.check_config:check_config",
        "Say what is wrong with a configuration.",
    ),
    "default-config": (
        "arauto.cli.default_config:default_config",
        "Print a configuration file with every default explained.",
    ),
    "pipeline": ("arauto.cli.pipeline:app", "Archive, roll up, correlate and query, on Spark."),
    "bench": ("arauto.cli.bench:app", "Measure Arauto next to its peers on this machine."),
    "version": ("arauto.cli.version:version", "Print the version."),
}


app = typer.Typer(
    name="arauto",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Tab completion for your shell: `arauto --install-completion`.",
)


@app.callback()
def _arauto() -> None:
    """A multi-tenant, real-time message bus.

    Start with `arauto demo`. `arauto COMMAND --help` tells more about a command.
    """


def main() -> None:
    """Run the command line; errors of ours are one clear line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a letter shows its number, instead of ending the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="arauto")
    except ArautoError as error:
        sys.stderr.write(f"error: {printable(str(error))}\n")
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        if not error.strerror:
            raise
        if not isinstance(error, BrokenPipeError):  # whoever read our output has seen enough
            name = f"{error.filename}: " if error.filename is not None else ""
            sys.stderr.write(f"error: {printable(name + error.strerror)}\n")
        # What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
