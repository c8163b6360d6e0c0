"""What Spark prints is read line by line, in bounds, and never goes to the terminal by itself."""

import os
import shutil
import subprocess
from pathlib import Path
from threading import Event

import pytest

from arauto.cli.pipeline.log_file import LogFile
from arauto.pipeline import java
from arauto.pipeline.java import find_java_home
from arauto.pipeline.said import alarming, hearing, limited


def test_lines_are_told_whole_and_however_long_a_line_is_it_ends(tmp_path: Path) -> None:
    told: list[str] = []
    enough = Event()

    def tell(line: str) -> None:
        told.append(line)
        if line == "end":
            enough.set()

    with hearing(tmp_path, tell) as said:
        with said.path.open("wb", buffering=0) as pipe:
            pipe.write(b"fir")
            pipe.write(b"st\n\n  \nspark: \xff\n" + b"x" * 300_000 + b"\nend\n")
        assert enough.wait(60)
        said.ending()
        with said.path.open("wb", buffering=0) as pipe:
            pipe.write(b"BrokenPipe\n")
        while said.last[-1] != "BrokenPipe":
            pass
    assert told[:2] == ["first", "spark: \ufffd"]
    assert max(map(len, told)) <= 2_000
    assert told[-1] == "end", "what comes while it is stopped is not told"
    assert not said.path.exists()


def test_no_more_than_so_many_lines_a_minute_are_told() -> None:
    told: list[str] = []
    now_s = 0.0
    tell = limited(told.append, per_minute=2, now_s=lambda: now_s)
    for n in range(5):
        tell(str(n))
    now_s = 61.0
    tell("5")
    assert told == ["0", "1", "(3 lines were left out)", "5"]


_STOPPED = [
    "Traceback (most recent call last):",
    'File "/x/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager',
    "code = worker(sock, authenticated)",
    "^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    'File "/x/site-packages/pyspark/daemon.py", line 95, in worker',
    "outfile.flush()",
    "BrokenPipeError: [Errno 32] Broken pipe",
]


def test_a_worker_that_is_stopped_after_its_work_raises_no_alarm() -> None:
    told: list[str] = []
    tell = alarming(told.append)
    for line in ["before", *_STOPPED, *_STOPPED, "after"]:
        tell(line)
    tell("Starting Streaming TransformWithStateInPandas Python worker.")
    tell("Streaming TransformWithStateInPandas Python worker received parameters for UDF.")
    assert told == ["before", "after"]


@pytest.mark.parametrize(
    "lines",
    [
        [*_STOPPED[:-1], "ValueError: no"],
        [
            *_STOPPED[:4],
            'File "/x/arauto/pipeline/rules/processor.py", line 1, in f',
            *_STOPPED[5:],
        ],
        [_STOPPED[0], "BrokenPipeError: [Errno 32] Broken pipe"],
        ["BrokenPipeError: [Errno 32] Broken pipe"],
        [*_STOPPED[:3], *_STOPPED[:3], *["x"] * 30],
        ["java.lang.OutOfMemoryError: Java heap space", "at x"],
    ],
)
def test_every_other_trouble_is_told_line_by_line(lines: list[str]) -> None:
    told: list[str] = []
    tell = alarming(told.append)
    for line in [*lines, "after"]:
        tell(line)
    assert told == [*lines, "after"]


def test_the_launcher_sends_errors_of_java_to_the_pipe_while_there_is_one(
    tmp_path: Path,
) -> None:
    program = tmp_path / "jvm" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\necho out\n")
    program.chmod(0o755)
    pipe = tmp_path / "pipe"
    environ = {"JAVA_HOME": str(tmp_path / "jvm")}
    home = find_java_home(environ, tmp_path / "made", pipe)
    assert java._fault(home) == "", "without a pipe it is as any other Java"
    os.mkfifo(pipe)
    fd = os.open(pipe, os.O_RDWR)
    done = subprocess.run([home / "bin" / "java"], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"out\n", b"")
    assert b"17.0.1" in os.read(fd, 100)
    os.close(fd)


def test_a_log_file_is_never_larger_than_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "_logs" / "pipeline.log"
    for _ in range(2):
        with LogFile(path, bytes_max=100) as log:
            for _ in range(30):
                log.write("á" * 20 + "\n")
    assert path.stat().st_size <= 100
    assert path.with_name("pipeline.log.1").stat().st_size <= 100
    assert sorted(each.name for each in path.parent.iterdir()) == ["pipeline.log", "pipeline.log.1"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_file_that_was_taken_away_begins_anew_when_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "_logs" / "pipeline.log"
    with LogFile(path, bytes_max=100) as log:
        log.write("x" * 60)
        shutil.rmtree(path.parent)
        for _ in range(2):
            log.write("y" * 60)
    assert path.read_text() == "y" * 60


def test_a_line_for_which_the_disk_has_no_room_is_lost_and_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.log"
    path.symlink_to("/dev/full")
    with LogFile(path, bytes_max=100) as log:
        assert log.write("lost") == 4
