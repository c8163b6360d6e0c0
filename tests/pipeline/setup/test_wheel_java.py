"""Spark on the Java that comes from PyPI, for machines that have none of their own."""

import subprocess
import sys
from pathlib import Path

from tests.pipeline.waiting import LAST_RESORT_S

_PROGRAM = """
import os, sys
from pathlib import Path
from arauto.pipeline import java
from arauto.pipeline.session import open_spark

java._JVMS = Path("/nowhere")
os.environ.pop("JAVA_HOME", None)
# Programs such as ps are still needed; java is not to be found by its name.
java.shutil.which = lambda name, path=None: None
with open_spark("wheel", Path(sys.argv[1]), master="local[1]") as spark:
    home = os.environ["JAVA_HOME"]
    print(home, spark.range(10).selectExpr("sum(id)").collect()[0][0])
"""


def test_spark_runs_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LAST_RESORT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(tmp_path.resolve() / "java"), "45"]
