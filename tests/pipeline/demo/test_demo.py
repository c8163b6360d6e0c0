"""`arauto demo` with the data pipeline: what a newcomer sees in the first minutes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Two minutes are promised on a machine that does nothing else (it takes about one); here other tests run.
_WITHIN_S = 200.0


@pytest.mark.timeout(300)
def test_a_newcomer_sees_a_roll_up_and_a_correlated_alert_in_the_first_minutes(
    tmp_path: Path,
) -> None:
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "arauto", "demo", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        seen = set()
        try:
            for word in _news(demo):
                seen.add(word)
                if {"roll-up", "alert"} <= seen:
                    break
            took_s = time.monotonic() - began_s
        finally:
            demo.terminate()
            demo.communicate(timeout=60)
    assert {"roll-up", "alert"} <= seen
    assert took_s < _WITHIN_S
    assert demo.returncode == 0


def _news(demo: "subprocess.Popen[str]") -> Iterator[str]:
    """The second word of what is said about the pipeline."""
    assert demo.stdout is not None
    for line in demo.stdout:
        words = line.split()
        if words[:1] == ["pipeline"]:
            yield words[1]
