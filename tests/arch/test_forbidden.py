"""Calls and comparisons that have no place in Arauto, because each has cost somebody dearly."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.arch.source import Module, assert_none, calls, dotted, modules, parse

#: name of a call → why not.
FORBIDDEN_CALLS = {
    "eval": "runs what it is given",
    "exec": "runs what it is given",
    "marshal.loads": "trusts its input",
    "os.system": "goes through a shell",
    "pickle.load": "runs what it is given",
    "pickle.loads": "runs what it is given",
    "pickle.Unpickler": "runs what it is given",
    "tempfile.mktemp": "races",
    "yaml.full_load": "builds objects; use a safe loader",
    "yaml.unsafe_load": "runs what it is given",
    "asyncio.get_event_loop": "may make a second loop",
}
_SAFE_LOADER = re.compile(r"(yaml\.)?C?Safe\w*Loader$|_\w*Loader$")
_SECRET = re.compile(r"(^|_)(secret|token|password)s?$")
#: module → why it may compare secrets with ==.
_NOBODY_GUESSES = {"config/checks.py": "compares two settings of the operator, at start"}
_EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})


def forbidden_calls(module: Module) -> Iterator[str]:
    for node, name in calls(module):
        where = f"{module.name}:{node.lineno}"
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in FORBIDDEN_CALLS:
            yield f"{where} {name} {FORBIDDEN_CALLS[name]}"
        if name == "yaml.load":
            loader = keywords.get("Loader") or (node.args[1] if len(node.args) > 1 else None)
            if loader is None or not _SAFE_LOADER.match(dotted(loader)):
                yield f"{where} yaml.load without a safe loader"
        for keyword, bad in (("verify", False), ("shell", True), ("verify_signature", False)):
            value = keywords.get(keyword)
            if isinstance(value, ast.Constant) and value.value is bad:
                yield f"{where} {name} with {keyword}={bad}"


def leaky_comparisons(module: Module) -> Iterator[str]:
    """`==` on secrets tells an attacker, by its time, how much of a guess was right: use compare_digest.

    Comparing with a literal is a question about shape (`token == ""`), not about the secret.
    """
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) for side in sides):
            continue
        for side in sides:
            if _SECRET.search(dotted(side).rpartition(".")[2].lower()):
                yield f"{module.name}:{node.lineno} compares {dotted(side)} with =="


def open_addresses(module: Module) -> Iterator[str]:
    """Everything binds to loopback unless the configuration says otherwise."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arguments):
            values = [*node.defaults, *(value for value in node.kw_defaults if value)]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            values = [node.value]
        else:
            continue
        for value in values:
            if isinstance(value, ast.Constant) and value.value in _EVERY_INTERFACE:
                yield f"{module.name}:{value.lineno} defaults to every interface"


def test_no_forbidden_call_is_made() -> None:
    assert_none(problem for module in modules() for problem in forbidden_calls(module))


def test_secrets_are_never_compared_in_variable_time() -> None:
    guessable = [module for module in modules() if module.name not in _NOBODY_GUESSES]
    assert_none(problem for module in guessable for problem in leaky_comparisons(module))


def test_nothing_listens_on_every_interface_by_default() -> None:
    assert_none(problem for module in modules() for problem in open_addresses(module))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\npickle.loads(x)",
        "from pickle import loads as l\nl(x)",
        "eval(x)",
        "import yaml\nyaml.load(x)",
        "import yaml\nyaml.load(x, yaml.Loader)",
        "import yaml\nyaml.load(x, Loader=yaml.FullLoader)",
        "httpx.get(x, verify=False)",
        "subprocess.run(x, shell=True)",
    ],
)
def test_a_forbidden_call_is_found(text: str) -> None:
    assert len(list(forbidden_calls(parse(text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import yaml\nyaml.load(x, Loader=yaml.SafeLoader)",
        "import yaml\nyaml.load(x, yaml.CSafeLoader)",
        "jwt.decode(x, verify=True)",
        "self.eval(x)",
    ],
)
def test_an_allowed_call_is_not_mistaken(text: str) -> None:
    assert list(forbidden_calls(parse(text))) == []


@pytest.mark.parametrize("text", ["token == x", "a != self.secret", "x == config.admin_token"])
def test_a_leaky_comparison_is_found(text: str) -> None:
    assert len(list(leaky_comparisons(parse(text)))) == 1


@pytest.mark.parametrize(
    "text", ["token == ''", "token is None", "token_count == n", "x in secrets"]
)
def test_a_harmless_comparison_is_not_mistaken(text: str) -> None:
    assert list(leaky_comparisons(parse(text))) == []


@pytest.mark.parametrize(
    "text", ["def f(host='0.0.0.0'): ...", "class C:\n  host: str = '::'", "HOST = '0.0.0.0'"]
)
def test_an_open_default_is_found(text: str) -> None:
    assert len(list(open_addresses(parse(text)))) == 1
