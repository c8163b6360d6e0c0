"""What Spark's processes print goes to whoever asked for it, and never past it to the terminal."""

import subprocess
import sys
from pathlib import Path

from tests.pipeline.waiting import LAST_RESORT_S

_PROGRAM = """
import os, sys, time
from pathlib import Path
from arauto.pipeline.session import open_spark

def complain(batches):
    os.write(2, b"a worker complains\\n")
    yield from batches

told = []
options = {"tell": told.append}
with open_spark("prints", Path(sys.argv[1]), master="local[1]", **options) as spark:
    spark._jvm.java.lang.System.err.println("Java complains")
    spark.range(1).mapInArrow(complain, "id long").collect()
    while len(told) < 2:
        time.sleep(0.1)
print(sorted(told))
"""


def test_what_java_and_its_workers_print_is_told_and_not_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LAST_RESORT_S,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "['Java complains', 'a worker complains']\n"
