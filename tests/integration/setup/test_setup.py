"""`scripts/setup.sh` installs what a lock names, and nothing that somebody published since."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.arch.source import ROOT

_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "arauto"
version = "1"
"""

#: As little of a build backend as an editable installation needs, so that no other has to be had.
_BACKEND = """
import zipfile
from pathlib import Path

def build_editable(directory, config_settings=None, metadata_directory=None):
    name = "arauto-1-py3-none-any.whl"
    info = "arauto-1.dist-info"
    with zipfile.ZipFile(Path(directory) / name, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: arauto\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""

_BUILT_ANYWAY = "from pathlib import Path; Path({mark!r}).touch(); raise SystemExit(1)"


class World:
    """A project with Arauto's set-up and a registry of its own, which is a folder."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.registry = root / "registry"
        self._requirements = self.project / "requirements"
        for folder in (self.project / "scripts", self.registry, self._requirements):
            folder.mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "setup.sh", self.project / "scripts")
        (self.project / "pyproject.toml").write_text(_PROJECT)
        (self.project / "backend.py").write_text(_BACKEND)
        self.lock("build", self.publish("tool", "1"))

    def publish(
        self, name: str, version: str, asks_for: Sequence[str] = (), extra: str = ""
    ) -> str:
        """A release with a wheel; returns its line of a lock file."""
        info = f"{name}-{version}.dist-info"
        headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        headers += [f"Provides-Extra: {extra}"] if extra else []
        headers += [f"Requires-Dist: {asked}" for asked in asks_for]
        path = self.registry / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{name}.py", "")
            wheel.writestr(f"{info}/METADATA", "\n".join(headers) + "\n")
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
        return self._line(name, version, path)

    def publish_source(self, name: str, version: str, setup: str) -> str:
        """A release that has to be built."""
        path = self.registry / f"{name}-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            file = tarfile.TarInfo(f"{name}-{version}/setup.py")
            file.size = len(setup)
            archive.addfile(file, io.BytesIO(setup.encode()))
        return self._line(name, version, path)

    def lock(self, name: str, *lines: str) -> None:
        (self._requirements / f"{name}.txt").write_text("\n".join(lines) + "\n")

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.registry),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
        }
        return subprocess.run(
            [self.project / "scripts" / "setup.sh", "run"],
            env={**os.environ, **settings, **environment},
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )

    def installed(self) -> dict[str, str]:
        """name → version of what came from the registry."""
        found = self.project.glob(".venv/lib/python*/site-packages/*.dist-info")
        versions = dict(path.name.removesuffix(".dist-info").split("-") for path in found)
        return {name: versions[name] for name in versions if name in self._names()}

    def _names(self) -> set[str]:
        return {path.name.split("-")[0] for path in self.registry.iterdir()}

    @staticmethod
    def _line(name: str, version: str, path: Path) -> str:
        return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: it takes seconds, and only one of the tests is about how it is made."""
    venv = tmp_path_factory.mktemp("venv") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=55)
    return venv


@pytest.fixture
def world(tmp_path: Path, empty_venv: Path) -> World:
    world = World(tmp_path)
    shutil.copytree(empty_venv, world.project / ".venv", symlinks=True)
    return world


def test_a_newer_release_of_what_is_asked_for_with_an_extra_changes_nothing(world: World) -> None:
    """On the day python-socks 3.2.1 appeared, pip refused a lock that named 3.2.0."""
    socks = world.publish("socks", "3.2.0", ["waits; extra == 'asyncio'"], extra="asyncio")
    world.lock(
        "run",
        world.publish("picows", "2.3.1", ["socks[asyncio]>=3.1"]),
        socks,
        world.publish("waits", "1"),
    )
    world.publish("socks", "3.2.1", ["waits; extra == 'asyncio'"], extra="asyncio")

    done = world.set_up()

    assert done.returncode == 0, done.stdout + done.stderr
    assert world.installed() == {"picows": "2.3.1", "socks": "3.2.0", "tool": "1", "waits": "1"}

    # Nothing changed, so nothing is asked for any more.
    shutil.rmtree(world.registry)
    assert world.set_up().stdout == ""


def test_what_a_lock_forgot_is_told(world: World) -> None:
    world.lock("run", world.publish("picows", "2.3.1", ["socks>=3.1"]))
    done = world.set_up()
    assert done.returncode == 1
    assert "picows 2.3.1 requires socks, which is not installed" in done.stderr
    assert "requirements/run.txt" in done.stderr


def test_packages_of_ones_own_on_the_path_are_not_taken_for_those_of_the_lock(world: World) -> None:
    world.lock("run", world.publish("picows", "2.3.1"))
    own = world.project.parent / "own"
    with zipfile.ZipFile(world.registry / "robots-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            "robots-1.dist-info/METADATA", "Name: robots\nVersion: 1\nRequires-Dist: ros"
        )
        wheel.extractall(own)
    done = world.set_up(PYTHONPATH=str(own))
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_would_have_to_be_built_is_refused_before_any_of_it_runs(world: World) -> None:
    mark = world.project / "was-run"
    world.lock("run", world.publish_source("old", "1", _BUILT_ANYWAY.format(mark=str(mark))))
    done = world.set_up()
    assert done.returncode == 1
    assert "old==1" in done.stderr
    assert not mark.exists()


def test_a_file_other_than_the_locked_one_is_refused(world: World) -> None:
    line = world.publish("picows", "2.3.1")
    world.publish("picows", "2.3.1", ["tool"])
    world.lock("run", line)
    done = world.set_up()
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_a_set_up_that_was_stopped_while_pip_replaced_itself_starts_anew(world: World) -> None:
    world.lock("run", world.publish("picows", "2.3.1"))
    assert world.set_up().returncode == 0
    (pip,) = world.project.glob(".venv/lib/python*/site-packages/pip/__init__.py")
    pip.unlink()
    world.lock("run", world.publish("picows", "2.4.0"))

    done = world.set_up()

    assert done.returncode == 0, done.stdout + done.stderr
    assert world.installed()["picows"] == "2.4.0"
