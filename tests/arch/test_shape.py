"""Modules, functions and ports stay small enough to read, and say what they are."""

import ast
import tomllib
from collections.abc import Iterator, Mapping

import pytest

from tests.arch.source import ROOT, Module, assert_none, dotted, modules, parse, within

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
PORT_METHODS_MAX = 8
TEST_LINES_MAX = 800

#: Alembic finds what it needs in these by name; nobody imports them.
WITHOUT_EXPORTS = "storage/migrations/"

#: Modules that may be longer, each with the reason why one file is clearer than two.
LONG_MODULES: Mapping[str, str] = {}


def exported(module: Module) -> list[str] | None:
    """The names in `__all__`, or None without one."""
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                names: list[str] = ast.literal_eval(node.value)
                return names
    return None


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(module: Module) -> Iterator[str]:
    for node in functions(module):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{module.name}:{node.lineno} {node.name} has {lines} lines"


def ports(module: Module) -> Iterator[ast.ClassDef]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and "Protocol" in map(dotted, node.bases):
            yield node


def wide_ports(module: Module) -> Iterator[str]:
    for port in ports(module):
        methods = [
            node for node in port.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        # Being closed is asked of nearly everything and costs an implementation nothing.
        count = sum(method.name != "close" for method in methods)
        if count > PORT_METHODS_MAX:
            yield f"{module.name}:{port.lineno} {port.name} has {count} methods"


def compiled_modules() -> list[Module]:
    """The modules that `make fast` compiles."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    names = {name.removeprefix("/src/arauto/") for name in hook["include"]}
    found = [module for module in modules() if module.name in names]
    assert len(found) == len(names)
    return found


def asynchronous_generators(module: Module) -> Iterator[str]:
    for function in functions(module):
        if isinstance(function, ast.AsyncFunctionDef) and any(
            isinstance(node, ast.Yield) for node in ast.walk(function)
        ):
            yield f"{module.name}:{function.lineno} {function.name}"


def is_marker(module: Module) -> bool:
    """Whether a file only makes its folder a package."""
    body = module.tree.body
    only_docstring = len(body) == 1 and ast.get_docstring(module.tree) is not None
    return module.name.endswith("__init__.py") and (not body or only_docstring)


def test_no_module_outgrows_its_limit() -> None:
    lines = {module.name: module.text.count("\n") for module in modules()}
    long = {name: count for name, count in lines.items() if count > MODULE_LINES_MAX}
    assert {name: count for name, count in long.items() if name not in LONG_MODULES} == {}
    assert set(LONG_MODULES) <= set(long), "a module shrank: take it off the list"


def test_no_function_outgrows_its_limit() -> None:
    assert_none(problem for module in modules() for problem in long_functions(module))


def test_no_port_asks_too_much_of_its_implementations() -> None:
    assert_none(problem for module in modules() for problem in wide_ports(module))


def test_no_compiled_module_has_what_the_compiler_cannot_do() -> None:
    assert_none(found for module in compiled_modules() for found in asynchronous_generators(module))


def test_every_module_opens_with_what_it_is_for() -> None:
    assert_none(m.name for m in modules() if not is_marker(m) and not ast.get_docstring(m.tree))


def test_every_module_says_what_it_exports() -> None:
    shown = [m for m in modules() if not is_marker(m) and not within(m, WITHOUT_EXPORTS)]
    assert_none(m.name for m in shown if exported(m) is None)


def test_no_test_module_outgrows_its_limit() -> None:
    lines = {
        path: path.read_text(encoding="utf-8").count("\n")
        for path in (ROOT / "tests").rglob("*.py")
    }
    assert {path.name: count for path, count in lines.items() if count > TEST_LINES_MAX} == {}


def test_a_long_function_and_a_wide_port_are_found() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES_MAX))
    assert len(list(long_functions(parse(f"def f():\n{body}")))) == 1
    methods = "\n".join(f"    def m{i}(self): ..." for i in range(PORT_METHODS_MAX + 1))
    assert len(list(wide_ports(parse(f"class P(Protocol):\n{methods}")))) == 1


def test_an_asynchronous_generator_is_found() -> None:
    assert len(list(asynchronous_generators(parse("async def f():\n    yield 1")))) == 1


@pytest.mark.parametrize(("text", "names"), [("__all__ = ['a']", ["a"]), ("a = 1", None)])
def test_exports_are_read_from_all(text: str, names: list[str] | None) -> None:
    assert exported(parse(text)) == names
