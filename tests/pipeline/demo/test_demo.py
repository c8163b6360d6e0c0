"""`arauto demo` with the data pipeline: what a newcomer sees in the first minutes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.waiting import LAST_RESORT_S


# Two minutes are promised on a machine that does nothing else. Here other work goes on, so the test waits for
# the news and not for a time: the demo tells them, or it ends, or it hangs.
@pytest.mark.timeout(LAST_RESORT_S)
def test_a_newcomer_sees_a_roll_up_and_a_correlated_alert_in_the_first_minutes(
    tmp_path: Path,
) -> None:
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
        finally:
            demo.terminate()
            demo.communicate(timeout=LAST_RESORT_S)
    assert {"roll-up", "alert"} <= seen
    assert demo.returncode == 0


def _news(demo: "subprocess.Popen[str]") -> Iterator[str]:
    """The second word of what is said about the pipeline."""
    assert demo.stdout is not None
    for line in demo.stdout:
        words = line.split()
        if words[:1] == ["pipeline"]:
            yield words[1]
