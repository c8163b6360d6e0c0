"""Shows where a node's time goes under load. The figures of such a run are not comparable with others."""

import io
import pstats
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from arauto.bench.build import Generator
from arauto.bench.failure import BenchError
from arauto.bench.generator import Load, run_load
from arauto.bench.peers import Target, start

__all__ = ["PROFILERS", "profile_node"]

PROFILERS = ("cprofile", "perf")
"""`cprofile` sees Python functions and slows them down; `perf` sees native code and the kernel."""

_PERF_HZ = "499"


def profile_node(generator: Generator, load: Load, flavour: str, tool: str, lines_max: int) -> str:
    """Run one load against a node under a profiler; return the profiler's table.

    Raises:
        BenchError: the profiler is not installed, or the run failed.
    """
    run = _with_perf if tool == "perf" else _with_cprofile
    with tempfile.TemporaryDirectory(prefix="arauto-profile-") as scratch:
        return run(generator, load, flavour, lines_max, Path(scratch))


def _with_cprofile(
    generator: Generator, load: Load, flavour: str, lines_max: int, scratch: Path
) -> str:
    data = scratch / "profile"
    wrapper = (sys.executable, "-m", "cProfile", "-o", str(data))
    with start("arauto", stored=load.mode == "stored", wrapper=wrapper) as server:
        run_load(generator, Target(f"arauto {flavour}", f"arauto-{flavour}", server), load)
    if not data.is_file():
        raise BenchError("the node did not end in order, so there is no profile")
    text = io.StringIO()
    pstats.Stats(str(data), stream=text).sort_stats("tottime").print_stats(lines_max)
    return text.getvalue()


def _with_perf(
    generator: Generator, load: Load, flavour: str, lines_max: int, scratch: Path
) -> str:
    perf = shutil.which("perf")
    if perf is None:
        raise BenchError("perf: not installed (apt install linux-perf)")
    data = scratch / "perf.data"
    with start("arauto", stored=load.mode == "stored") as server:
        record = [perf, "record", "-q", "-F", _PERF_HZ, "-p", str(server.pid), "-o", str(data)]
        recorder = subprocess.Popen(record, stderr=subprocess.PIPE)  # noqa: S603 - fixed arguments
        try:
            run_load(generator, Target(f"arauto {flavour}", f"arauto-{flavour}", server), load)
        finally:
            recorder.terminate()
            _, errors = recorder.communicate()
    report = [perf, "report", "--stdio", "-q", "--sort", "dso,symbol", "-i", str(data)]
    done = subprocess.run(  # noqa: S603 - fixed arguments
        report, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"perf: {(errors.decode() + done.stderr).strip()}")
    return "\n".join(done.stdout.splitlines()[: lines_max + 10]) + "\n"
