"""Fixtures of the benchmark harness's tests: the compiled generator, and servers to talk to."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arauto.bench.build import Generator, compile_generator
from arauto.bench.failure import BenchError


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C generator, compiled once for all tests."""
    try:
        return compile_generator(tmp_path_factory.mktemp("loadgen"))
    except BenchError as error:
        if "no C compiler" in str(error) and not os.environ.get("CI"):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def c_generator(binary: Path) -> Generator:
    return Generator(argv=(str(binary),), kind="c")


@pytest.fixture(scope="session")
def c_counts(binary: Path) -> Callable[[str, bytes], dict[str, Any]]:
    """Feed a byte stream to the C parsers, whole and cut at every place; they must agree."""

    def count(proto: str, stream: bytes) -> dict[str, Any]:
        done = subprocess.run(
            [str(binary), "--selftest", "--proto", proto, "--port", "1"],
            input=stream,
            capture_output=True,
            timeout=30,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(done.stderr.decode())
        counts: dict[str, Any] = msgspec.json.decode(done.stdout)
        return counts

    return count
