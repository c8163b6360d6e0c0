"""Finds the load generator: compiles `loadgen.c` on first use, or falls back to Python.

The binary is kept in the user's cache directory under a name made from the source's hash, so a changed
source is compiled again and several versions do not disturb each other.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from arauto.bench.failure import BenchError

__all__ = ["COMPILERS", "SOURCE", "Generator", "compile_generator", "find_generator"]

SOURCE = Path(__file__).with_name("loadgen.c")
COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-O2", "-std=gnu11")
_COMPILE_TIMEOUT_S = 120


class Generator(msgspec.Struct, frozen=True):
    """How to start a load generator. Both kinds take the same options and print the same JSON."""

    argv: tuple[str, ...]
    kind: str
    """`c` or `python`."""
    note: str = ""
    """What a reader of the figures must know, or ""."""


def find_generator(
    *, cache_dir: Path | None = None, compilers: Sequence[str] = COMPILERS
) -> Generator:
    """Return the C generator if a compiler is (or was) there, else the Python one, which says so."""
    try:
        binary = compile_generator(cache_dir or _default_cache_dir(), compilers)
    except BenchError as error:
        return Generator(
            argv=(sys.executable, "-m", "arauto.bench.fallback"),
            kind="python",
            note=f"measured with the slow Python generator: {error}. Its own cost hides the servers' limits",
        )
    return Generator(argv=(str(binary),), kind="c")


def compile_generator(cache_dir: Path, compilers: Sequence[str] = COMPILERS) -> Path:
    """Return the compiled generator, compiling it if this source was not compiled before.

    Raises:
        BenchError: there is no compiler, or it failed.
    """
    binary = cache_dir / f"loadgen-{_source_hash()}"
    if binary.is_file():
        return binary
    compiler = next((path for name in compilers if (path := shutil.which(name))), None)
    if compiler is None:
        raise BenchError("no C compiler found (apt install gcc)")
    cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Compiled beside its place and renamed into it: a second process never sees half a binary.
    with tempfile.TemporaryDirectory(dir=cache_dir) as scratch:
        fresh = Path(scratch) / "loadgen"
        done = subprocess.run(  # noqa: S603 - the compiler found on the PATH, our own source
            [compiler, *_FLAGS, "-o", str(fresh), str(SOURCE)],
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"{compiler} could not compile {SOURCE.name}: {done.stderr.strip()}")
        fresh.replace(binary)
    return binary


def _source_hash() -> str:
    return hashlib.sha256(SOURCE.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()[:16]


def _default_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if base else Path.home() / ".cache"
    return root / "arauto" / "bench"
