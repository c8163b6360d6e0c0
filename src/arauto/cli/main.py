"""The `arauto` command. One file per sub-command; here they only get their names.

A command's module is imported when that command is called and not before: `arauto version` and
`arauto --help` must not wait for the node's parts to load.
"""

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from arauto.errors import ArautoError

__all__ = ["app", "main"]

EXIT_ERROR, EXIT_INTERRUPTED = 1, 130

#: name → (where its function, or group of commands, is; what it does, in a few words)
_COMMANDS = {
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
    "bench": ("arauto.cli.bench:app", "Measure Arauto next to its peers on this machine."),
    "version": ("arauto.cli.version:version", "Print the version."),
}


def _settle(params: list[Any]) -> list[Any]:
    """Make flags what they are: off unless given, and without a value to name in the help.

    A flag that starts as None would also make Typer load all it has for reading types, which takes longer
    than everything else `arauto version` does.
    """
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
            if param.default is None:
                param.default = False
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _settle(super().get_params(ctx))


class _Commands(TyperGroup):
    """Shows all commands by name, and loads the one that is called."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _settle(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the list of commands shows of one."""
        found = _COMMANDS.get(cmd_name)
        return found and TyperCommand(name=cmd_name, help=found[1])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        self.commands = {name: self.get_command(ctx, name) for name in _COMMANDS}
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(name or ""), rest


def _load(name: str) -> Any:
    module, _, attribute = _COMMANDS[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=_Command)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="arauto",
    cls=_Commands,
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
    try:
        app(prog_name="arauto")
    except ArautoError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
