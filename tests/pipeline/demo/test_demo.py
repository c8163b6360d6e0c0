"""`arauto demo` with the data pipeline: what a newcomer sees in the first minutes."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.waiting import LAST_RESORT_S

_PAGE = Path(__file__).parents[3] / "docs" / "topics" / "first-five-minutes.md"


# Two minutes are promised on a machine that does nothing else. Here other work goes on, so the test waits for
# the news and not for a time: the demo tells them, or it ends, or it hangs.
@pytest.mark.timeout(LAST_RESORT_S)
def test_a_newcomer_sees_a_roll_up_and_a_correlated_alert_in_the_first_minutes(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "arauto", "demo", "--keep", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        seen = set()
        try:
            address = _address(demo)
            for word in _news(demo):
                seen.add(word)
                if {"roll-up", "alert"} <= seen:
                    break
            shown = _paste("arauto sub 'alerts:*'", f"--json --count 1 --url {address}", tmp_path)
            assert json.loads(shown)["channel"].startswith(("alerts:", "analytics:"))
            answered = _paste("arauto pipeline sql", "--format csv", tmp_path)
            assert answered.splitlines()[0] == "channel,n"
            assert len(answered.splitlines()) == 4
        finally:
            demo.terminate()
            demo.communicate(timeout=LAST_RESORT_S)
    assert {"roll-up", "alert"} <= seen
    assert demo.returncode == 0


def _address(demo: "subprocess.Popen[str]") -> str:
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("  address "):
            return line.split()[1].removesuffix(",")
    raise AssertionError("the demo ended")


def _paste(begin: str, more: str, directory: Path) -> str:
    """Type the line of the page that begins so; what it prints."""
    [line] = re.findall(
        rf"^\$ \.venv/bin/({re.escape(begin)}.*)$", _PAGE.read_text("utf-8"), re.MULTILINE
    )
    command = f"{shlex.quote(sys.executable)} -m {line} {more}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LAST_RESORT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _news(demo: "subprocess.Popen[str]") -> Iterator[str]:
    """The second word of what is said about the pipeline."""
    assert demo.stdout is not None
    for line in demo.stdout:
        words = line.split()
        if words[:1] == ["pipeline"]:
            yield words[1]
