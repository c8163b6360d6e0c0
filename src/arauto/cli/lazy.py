"""Groups of commands that load a command's module when it is called and not before, and texts as they are."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Table", "lazy_group"]

#: name → (where its function, or group of commands, is; what it does, in a few words)
Table = Mapping[str, tuple[str, str]]


#: What rich would take for markup: `arauto[pipeline]` is none.
_BRACKET = re.compile(r"\[(?=[a-z#/@])")


def _as_it_is(text: str) -> str:
    """A help text for Typer: brackets stay brackets, and the terminal breaks lines, not we."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return _BRACKET.sub(r"\\[", "\n\n".join(" ".join(part.split("\n")) for part in paragraphs))


def _written_out(command: Any) -> Any:
    """The command, and those below it, with all help texts as they are."""
    for part in (command, *command.params):
        if getattr(part, "help", None):
            part.help = _as_it_is(part.help)
    for each in getattr(command, "commands", {}).values():
        _written_out(each)
    return command


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


class Command(TyperCommand):
    """A command whose flags are off unless given."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _settle(super().get_params(ctx))


def lazy_group(table: Table) -> type[TyperGroup]:
    """A group that shows all commands of the table by name, and loads the one that is called."""

    class Group(TyperGroup):
        def get_params(self, ctx: Any) -> list[Any]:
            return _settle(super().get_params(ctx))

        def list_commands(self, ctx: Any) -> list[str]:
            return list(table)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """What the list of commands shows of one."""
            found = table.get(cmd_name)
            return found and TyperCommand(name=cmd_name, help=_as_it_is(found[1]))

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            self.commands = {name: self.get_command(ctx, name) for name in table}
            name, command, rest = super().resolve_command(ctx, args)
            return name, command and _load(name or "", table[name or ""][0]), rest

    return Group


def _load(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return _written_out(group)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=Command)(found)
    return _written_out(typer.main.get_command(alone))
