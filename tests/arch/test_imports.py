"""Who may import whom, beyond the layers that import-linter holds (see pyproject.toml)."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping

import pytest

from tests.arch.source import ROOT, Module, assert_none, imported_names, modules, parse, within

#: The only modules that may know which storage there is; all others see the ports in storage/base.py.
STORAGE_BUILDERS = ("node.py", "registry.py", "cli/", "pipeline/", "storage/", "testing/")

#: Technologies that must stay replaceable by one another.
TECHNOLOGIES = ("memory", "sqlite", "postgres", "redis")

#: package → where it may be imported. A part that can be swapped is named in one place.
CONFINED: Mapping[str, tuple[str, ...]] = {
    "alembic": ("storage/",),
    "asyncpg": ("storage/",),
    "google": ("codec/",),
    "httptools": ("gateways/", "bench/"),
    "litestar": ("admin/", "gateways/"),
    "opentelemetry": ("telemetry/",),
    "picows": ("gateways/", "client/", "bench/", "testing/"),
    "prometheus_client": ("telemetry/", "pipeline/"),
    "pyarrow": ("storage/", "pipeline/"),
    "pyspark": ("pipeline/",),
    "redis": ("storage/",),
    "rich": ("cli/", "bench/"),
    "sqlalchemy": ("storage/",),
    "sqlglot": ("correlation/", "pipeline/"),
    "sqlite3": ("storage/",),
    "typer": ("cli/",),
    "uvicorn": ("gateways/", "admin/", "node.py"),
    "yaml": ("config/",),
}

#: What reading a message record must never cost, so that small tools and workers can use it.
HEAVY = (
    "asyncio",
    "litestar",
    "opentelemetry",
    "picows",
    "pyarrow",
    "sqlalchemy",
    "uvicorn",
    "uvloop",
)


def storage_beyond_its_ports(module: Module) -> Iterator[str]:
    if any(within(module, builder) for builder in STORAGE_BUILDERS):
        return
    for line, name in imported_names(module):
        if name.startswith("arauto.storage.") and not name.startswith("arauto.storage.base."):
            yield f"{module.name}:{line} imports {name}"


def technology(path: str) -> str:
    words = re.split(r"[/._]", path)
    return next((technology for technology in TECHNOLOGIES if technology in words), "")


def mixed_technologies(module: Module) -> Iterator[str]:
    own = technology(module.name)
    if not own or not module.name.startswith("storage/"):
        return
    for line, name in imported_names(module):
        other = technology(name.rpartition(".")[0])
        if name.startswith("arauto.storage.") and other and other != own:
            yield f"{module.name}:{line} imports {name}"


def strays(module: Module) -> Iterator[str]:
    for line, name in imported_names(module):
        zones = CONFINED.get(name.partition(".")[0])
        if zones and not any(within(module, zone) for zone in zones):
            yield f"{module.name}:{line} imports {name}; that belongs in {' '.join(zones)}"


def test_above_storage_only_its_ports_are_known() -> None:
    assert_none(problem for module in modules() for problem in storage_beyond_its_ports(module))


def test_storage_technologies_do_not_know_each_other() -> None:
    assert_none(problem for module in modules() for problem in mixed_technologies(module))


def test_replaceable_parts_are_imported_only_where_they_are_adapted() -> None:
    assert_none(problem for module in modules() for problem in strays(module))


def test_importing_the_model_does_not_import_the_node() -> None:
    program = "import sys, arauto.model; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_the_version_is_the_same_everywhere() -> None:
    program = "import arauto; print(arauto.__version__)"
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert (
        shown
        == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "version"
        ]
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("hub/x.py", "from arauto.storage.sqlite import S"),
        ("hub/x.py", "import arauto.storage.memory"),
    ],
)
def test_knowing_a_storage_technology_above_storage_is_found(name: str, line: str) -> None:
    assert len(list(storage_beyond_its_ports(parse(line, name)))) == 1


def test_a_technology_that_leans_on_another_is_found() -> None:
    found = mixed_technologies(parse("from arauto.storage.memory import S", "storage/redis.py"))
    assert len(list(found)) == 1


def test_a_stray_import_is_found() -> None:
    assert len(list(strays(parse("from sqlalchemy import text", "hub/x.py")))) == 1
    assert list(strays(parse("from sqlalchemy import text", "storage/x.py"))) == []
