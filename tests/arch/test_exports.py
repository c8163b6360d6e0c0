"""What a module says it exports is there, and the public face is what it should be."""

import importlib
from types import ModuleType

import pytest

import arauto
from tests.arch.source import modules

#: Alembic runs these; they cannot be imported on their own.
_RUN_BY_ALEMBIC = "storage/migrations/"


def _imported(name: str) -> ModuleType:
    path = name.removesuffix(".py").removesuffix("__init__").rstrip("/")
    return importlib.import_module(".".join(["arauto", *filter(None, path.split("/"))]))


@pytest.mark.parametrize(
    "name", [m.name for m in modules() if not m.name.startswith(_RUN_BY_ALEMBIC)]
)
def test_everything_in_all_exists_and_is_named_once(name: str) -> None:
    module = _imported(name)
    names = list(getattr(module, "__all__", ()))
    assert [missing for missing in names if not hasattr(module, missing)] == []
    assert len(names) == len(set(names))


def test_the_package_itself_offers_its_version_and_no_accidents() -> None:
    assert "__version__" in arauto.__all__
    assert all(hasattr(arauto, name) for name in arauto.__all__)
