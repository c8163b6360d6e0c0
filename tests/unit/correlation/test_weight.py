"""What importing the rule language costs: nodes and workers load only what they use."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("arauto.correlation.document", {"sqlglot", "pyspark", "pandas", "asyncio"}),
        ("arauto.correlation.matcher", {"sqlglot", "yaml", "pyspark", "pandas", "asyncio"}),
    ],
)
def test_importing_does_not_load_what_is_not_needed_yet(module: str, heavy: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in loaded
    assert heavy & set(loaded) == set()
