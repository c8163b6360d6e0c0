"""Arauto's source as syntax trees, for the tests that read code instead of running it."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "ROOT",
    "Module",
    "assert_none",
    "calls",
    "dotted",
    "imported_names",
    "modules",
    "parse",
    "within",
]

ROOT = Path(__file__).parents[2]
_SOURCE = ROOT / "src" / "arauto"

#: Written by the protobuf compiler; its shape is not ours to judge.
_GENERATED = frozenset({"codec/arauto_pb2.py"})


class Module(NamedTuple):
    """One source file. `name` is its path below src/arauto, e.g. `hub/matcher.py`."""

    name: str
    text: str
    tree: ast.Module


def parse(text: str, name: str = "sample.py") -> Module:
    return Module(name, text, ast.parse(text, name))


@cache
def modules() -> tuple[Module, ...]:
    """Every module written by hand."""
    paths = sorted(_SOURCE.rglob("*.py"))
    names = {path.relative_to(_SOURCE).as_posix(): path for path in paths}
    return tuple(
        parse(names[name].read_text(encoding="utf-8"), name)
        for name in names
        if name not in _GENERATED
    )


def within(module: Module, zone: str) -> bool:
    """Whether a module is the file `zone`, or lies in it when `zone` ends in `/`."""
    return module.name == zone or (zone.endswith("/") and module.name.startswith(zone))


def imported_names(module: Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a module imports, wherever the import stands.

    `from a import b` counts as `a.b`, which names the module or what is taken from it.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def dotted(node: ast.expr) -> str:
    """`a.b().c` for a chain of names, attributes and calls, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Call):
        called = dotted(node.func)
        return f"{called}()" if called else ""
    return ""


def calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call by name, the name as it would be without `import x as y` and `from x import y`."""
    origin = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if alias.asname or prefix:
                    origin[alias.asname or alias.name] = prefix + alias.name
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (name := dotted(node.func)):
            first, _, rest = name.partition(".")
            resolved = origin.get(first, first)
            yield node, f"{resolved}.{rest}" if rest else resolved


def assert_none(problems: Iterable[str]) -> None:
    """Fail with all problems, one per line."""
    found = list(problems)
    assert not found, f"{len(found)} found:\n" + "\n".join(found)
