"""The example of source and sink runs as its reader would run it, twice, and publishes once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.sink.nodes import TOKEN, running_node
from tests.pipeline.waiting import LAST_RESORT_S

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline_publish.py"
#: Starting Spark takes long on a busy machine.
_PATIENCE_S = LAST_RESORT_S


@pytest.mark.slow
@pytest.mark.timeout(2 * _PATIENCE_S)
def test_the_example_does_what_it_promises_and_repeats_nothing(tmp_path: Path) -> None:
    with running_node(storage={"kind": "sqlite", "dataDir": str(tmp_path)}) as node:
        variables = {
            "ARAUTO_ADMIN_URL": node.url,
            "ARAUTO_ADMIN__TOKEN": TOKEN,
            "ARAUTO_STORAGE__DATA_DIR": str(tmp_path),
        }
        for _ in range(2):
            ran = subprocess.run(
                [sys.executable, str(EXAMPLE)],
                env=os.environ | variables,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout.splitlines() == [
                'large:lisbon: {"shop":"lisbon","number":3,"total":180.0} after 2 hops',
                'large:porto: {"shop":"porto","number":2,"total":240.0} after 2 hops',
            ]
