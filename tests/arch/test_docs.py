"""What the documentation says exists, exists: links, files, functions, layers, commands and settings."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from arauto.cli import main as cli
from tests.arch.source import ROOT, assert_none, modules

_SKIPPED = frozenset({".venv", ".git", ".cache", "node_modules", "build", "dist", ".hypothesis"})
_ARCHITECTURE = ROOT / "ARCHITECTURE.md"
#: Pages about the inside: what they name must be there.
_INSIDE = (_ARCHITECTURE, ROOT / "docs" / "concurrency.md")
_SOURCE = ROOT / "src" / "arauto"

_FENCE = re.compile(r"^```(?P<kind>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]\[]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
#: Ends of names that are files and hosts.
_NOT_FIELDS = frozenset({"example", "internal", "md", "py", "yaml"})
_CODE = re.compile(r"`(?P<text>[^`\n]+)`")


# --- reading pages ----------------------------------------------------------------------------------


@cache
def pages() -> tuple[Path, ...]:
    """Every Markdown file of the project."""
    found = (path for path in ROOT.rglob("*.md") if not _SKIPPED & set(path.parts))
    return tuple(sorted(found))


def prose(text: str) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The fragments under which a page's headings can be reached, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.finditer(prose(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = sum(1 for known in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", known))
        found.add(f"{name}-{again}" if again else name)
    return found


def broken_links(page: Path, text: str) -> Iterator[str]:
    for link in _LINK.finditer(re.sub(_CODE, "", prose(text))):
        target, _, fragment = link["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)} links to {link['target']}: no such file"
        elif fragment and file.suffix == ".md":
            there = anchors(text if file == page else file.read_text(encoding="utf-8"))
            if fragment not in there:
                yield f"{page.relative_to(ROOT)} links to {link['target']}: no such heading"


def code_words(text: str) -> list[str]:
    """Everything in backquotes outside of code blocks."""
    return [found["text"] for found in _CODE.finditer(prose(text))]


# --- links -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert_none(broken_links(page, page.read_text(encoding="utf-8")))


def test_every_page_of_the_documentation_can_be_reached_from_its_index() -> None:
    index = ROOT / "docs" / "README.md"
    reached, waiting = set(), [index]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        for link in _LINK.finditer(prose(page.read_text(encoding="utf-8"))):
            target = link["target"].partition("#")[0]
            if target and not re.match(r"[a-z]+:", target):
                waiting.append((page.parent / target).resolve())
    missing = [page for page in pages() if (ROOT / "docs") in page.parents and page not in reached]
    assert_none(str(page.relative_to(ROOT)) for page in missing)


def test_broken_links_are_found() -> None:
    text = "# A b\n[x](nowhere.md) [y](#a-b) [z](#c) [w](https://example.com) `[no](link.md)`\n"
    found = list(broken_links(ROOT / "README.md", text))
    assert [line.rpartition(": ")[2] for line in found] == ["no such file", "no such heading"]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("# What is open, and how to close it", "what-is-open-and-how-to-close-it"),
        ("## `node`", "node"),
        ("## A session's life", "a-sessions-life"),
        ("### 0001. [Record](x.md) it", "0001-record-it"),
    ],
)
def test_headings_get_the_anchors_that_readers_know(heading: str, anchor: str) -> None:
    assert anchors(heading) == {anchor}


# --- ARCHITECTURE.md ---------------------------------------------------------------------------------


def families() -> set[str]:
    """Every package (with a slash) and every module at the top, as ARCHITECTURE.md writes them."""
    found = set()
    for module in modules():
        *folders, name = module.name.split("/")
        for depth in range(1, len(folders) + 1):
            found.add("/".join(folders[:depth]) + "/")
        if not folders and name != "__init__.py":
            found.add(name)
    return found


def test_the_architecture_names_every_family_that_exists() -> None:
    words = code_words(_ARCHITECTURE.read_text(encoding="utf-8"))
    named = {word.partition(":")[0] for word in words}
    # A family is also named by naming one of its files.
    named |= {"/".join(w.split("/")[:n]) + "/" for w in named for n in range(1, w.count("/") + 1)}
    assert_none(sorted(families() - named - {"storage/migrations/versions/"}))


def missing_paths(text: str) -> Iterator[str]:
    """Paths that are named and do not exist, below src/arauto or in the repository."""
    for word in code_words(text):
        path = word.partition(":")[0]
        if not re.fullmatch(r"\w[\w./-]*(/|\.py|\.md|\.proto|\.toml)", path):
            continue
        if not (_SOURCE / path).exists() and not (ROOT / path).exists():
            yield path


@pytest.mark.parametrize("page", _INSIDE, ids=lambda page: page.name)
def test_pages_about_the_inside_name_no_file_that_does_not_exist(page: Path) -> None:
    assert_none(missing_paths(page.read_text(encoding="utf-8")))


@cache
def classes() -> dict[str, set[str]]:
    """Every class and what can be found on it, its bases' things included."""
    bases: dict[str, list[str]] = {}
    members: dict[str, set[str]] = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
            members.setdefault(node.name, set()).update(_own_members(node))

    def collect(name: str) -> set[str]:
        return members.get(name, set()).union(*(collect(base) for base in bases.get(name, ())))

    return {name: collect(name) for name in members}


def _own_members(class_: ast.ClassDef) -> Iterator[str]:
    """Methods, fields, and what methods set on `self`."""
    for node in ast.walk(class_):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def missing_members(text: str) -> Iterator[str]:
    """`Class.member` and `file.py:function` that are named and do not exist; also classes alone."""
    for word in code_words(text):
        if found := re.fullmatch(r"([A-Z]\w+)\.(\w+)", word):
            owner, member = found.groups()
            if member == "md":
                continue
            if member not in classes().get(owner, set()):
                yield word
        elif found := re.fullmatch(r"([\w/]+\.py):(\w+)", word):
            path, name = found.groups()
            tree = ast.parse((_SOURCE / path).read_text(encoding="utf-8"))
            if name not in {getattr(node, "name", "") for node in tree.body}:
                yield word
        elif re.fullmatch(r"[A-Z][a-z]+[A-Za-z]*", word) and word not in classes():
            yield word


@pytest.mark.parametrize("page", _INSIDE, ids=lambda page: page.name)
def test_pages_about_the_inside_name_nothing_that_does_not_exist(page: Path) -> None:
    assert_none(missing_members(page.read_text(encoding="utf-8")))


def test_the_architecture_shows_the_layers_that_are_held() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    held = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    text = _ARCHITECTURE.read_text(encoding="utf-8")
    block = next(f["text"] for f in _FENCE.finditer(text[text.index("\n## Layers") :]))
    assert [re.split(r"\s{2,}", line)[0] for line in block.splitlines()] == held


def test_a_path_and_a_function_that_do_not_exist_are_found() -> None:
    text = "`hub/nowhere.py` `hub/channel.py` `Channel.fly` `Channel.publish` `hub/hub.py:Nobody` `Nobody`"
    assert list(missing_paths(text)) == ["hub/nowhere.py"]
    assert list(missing_members(text)) == ["Channel.fly", "hub/hub.py:Nobody", "Nobody"]


# --- commands ----------------------------------------------------------------------------------------


def shown_commands(text: str) -> Iterator[str]:
    """Lines of shell blocks, what is typed in sessions, and code in the text."""
    for block in _FENCE.finditer(text):
        lines = re.sub(r"\\\n\s*", " ", block["text"]).splitlines()
        if block["kind"] == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif block["kind"] != "sh" and not re.match(r"arauto |make ", block["text"]):
            continue
        yield from (line.partition(" #")[0].strip() for line in lines)
    yield from code_words(text)


def arauto_calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """(sub-command, options) of every call of `arauto` that is shown."""
    for line in shown_commands(text):
        found = re.match(
            r"(?:\S*/)?arauto ((?:bench |pipeline (?:rules )?)?[a-z][a-z-]*)\b(.*)", line
        )
        if found:
            arguments = re.sub(r"'[^']*'|\"[^\"]*\"", "''", found[2])
            yield found[1], re.findall(r"(?<=\s)(--?[a-z][\w-]*)", arguments)


@cache
def options_of(command: str) -> frozenset[str] | None:
    """What options a sub-command has; None if there is no such sub-command."""
    found: Any = typer.main.get_command(cli.app)
    for name in command.split():
        try:
            _, found, _ = found.resolve_command(typer.Context(found), [name])
        except TyperException:
            return None
    return frozenset({"--help", "-h", *(opt for param in found.params for opt in param.opts)})


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_shown_exist_with_their_options(page: Path) -> None:
    problems = []
    for command, options in arauto_calls(page.read_text(encoding="utf-8")):
        known = options_of(command)
        if known is None:
            problems.append(f"arauto {command}: no such command")
        else:
            problems += [f"arauto {command} {o}: no such option" for o in options if o not in known]
    assert_none(problems)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_are_shown_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = [m[1] for line in shown_commands(text) if (m := re.match(r"make ([a-z-]+)", line))]
    assert_none(f"make {target}" for target in named if target not in targets)


def test_a_command_that_does_not_exist_is_found() -> None:
    text = """
```sh
.venv/bin/arauto sub x --nope --hub shop
```

```console
$ arauto fly
arauto node is up
```

and `arauto bench spread --json`
"""
    calls = list(arauto_calls(text))
    assert calls == [("sub", ["--nope", "--hub"]), ("fly", []), ("bench spread", ["--json"])]
    assert options_of("fly") is None
    assert "--hub" in (options_of("sub") or ())
    assert "--nope" not in (options_of("sub") or ())
    assert "--json" in (options_of("bench spread") or ())


# --- settings ----------------------------------------------------------------------------------------


def missing_settings(text: str) -> Iterator[str]:
    """`category.field` of the configuration that are named and do not exist."""
    reference = (ROOT / "docs" / "operations" / "configuration.md").read_text(encoding="utf-8")
    known, at = set(), ""
    for line in reference.splitlines():
        if found := re.match(r"#+ `([\w.]+)`", line):
            at = found[1]
            known.add(at)
        elif found := re.match(r"\| `(\w+)` \|", line):
            known.add(f"{at}.{found[1]}")
    categories = {name.partition(".")[0] for name in known}
    for word in code_words(text):
        path = word.partition(":")[0]
        first, _, rest = path.partition(".")
        if not re.fullmatch(r"[a-z]\w*(\.[a-z]\w*)+", path) or first not in categories:
            continue
        if path not in known and rest.rpartition(".")[2] not in _NOT_FIELDS:
            yield path


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_are_named_exist(page: Path) -> None:
    assert_none(missing_settings(page.read_text(encoding="utf-8")))


def test_a_setting_that_does_not_exist_is_found() -> None:
    text = (
        "`connection.port` `connection.sport` `node.mode: production` `client.x` `limits.hubsMax`"
    )
    assert list(missing_settings(text)) == ["connection.sport"]
