"""What Spark's Java and its Pythons print as errors. It would go to the same terminal as what commands show.

They get a pipe in place of standard error, and a thread reads it. What is read need not be little, nor lines.
"""

import contextlib
import os
import re
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

__all__ = ["Said", "alarming", "hearing", "limited"]

_NAME = "said"
_READ_BYTES = 65_536
_LINE_LEN_MAX = 2_000
_KEPT_LINES = 40
_LOOK_S = 0.5
_PER_MINUTE = 200

#: What Spark's Pythons say of their own coming and going.
_CHATTER = re.compile(r"(Starting )?Streaming TransformWithState\w+ Python worker")
_TRACE = "Traceback (most recent call last):"
_TRACE_LINES_MAX = 12
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)(:|$)")
_BROKEN_PIPE = re.compile(r"BrokenPipeError\b")
_DAEMON = re.compile(r'File "[^"]*/pyspark/daemon\.py"')


class Said(Thread):
    """Reads until told to stop.

    Args:
        made_dir: where the pipe is made.
        tell: given each line.
    """

    def __init__(self, made_dir: Path, tell: Callable[[str], object]) -> None:
        super().__init__(name="pipeline-said", daemon=True)
        self.path = made_dir / _NAME
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path, 0o600)
        # Open for both: it never ends, and nobody who opens it has to wait.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._tell = tell
        self._over = Event()
        self._is_ending = False
        self._rest = b""
        self.last: deque[str] = deque(maxlen=_KEPT_LINES)
        """The last lines, for when it fails."""

    def run(self) -> None:
        while not self._over.is_set():
            self._take()
        os.close(self._fd)

    def ending(self) -> None:
        """From now on lines are kept and not told: whoever is being stopped complains of it."""
        self._is_ending = True

    def stop(self) -> None:
        """Read what is there, and end."""
        self._over.set()
        self.join(2 * _LOOK_S)
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _take(self) -> None:
        ready, _, _ = select.select([self._fd], [], [], _LOOK_S)
        if not ready:
            return
        *lines, self._rest = (self._rest + os.read(self._fd, _READ_BYTES)).split(b"\n")
        if len(self._rest) > _LINE_LEN_MAX:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            text = line.decode(errors="replace").strip()[:_LINE_LEN_MAX]
            if text:
                self.last.append(text)
                if not self._is_ending:
                    self._tell(text)


@contextlib.contextmanager
def hearing(made_dir: Path, tell: Callable[[str], object]) -> Iterator[Said]:
    """A thread that reads for as long as this is open."""
    said = Said(made_dir, tell)
    said.start()
    try:
        yield said
    finally:
        said.stop()


def limited(
    tell: Callable[[str], object],
    *,
    per_minute: int = _PER_MINUTE,
    now_s: Callable[[], float] = time.monotonic,
) -> Callable[[str], None]:
    """Tell no more than so many lines a minute; those that are left out are counted."""
    begun_s, told, left_out = now_s(), 0, 0

    def once(line: str) -> None:
        nonlocal begun_s, told, left_out
        if now_s() - begun_s >= 60:
            if left_out:
                tell(f"({left_out} lines were left out)")
            begun_s, told, left_out = now_s(), 0, 0
        if told < per_minute:
            told += 1
            tell(line)
        else:
            left_out += 1

    return once


def alarming(tell: Callable[[str], object]) -> Callable[[str], None]:
    """Tell all lines but those that only look like trouble: a worker that is stopped when Java has closed its
    end already says so with a traceback, its work done."""
    held: list[str] = []

    def once(line: str) -> None:
        if held and (line == _TRACE or len(held) >= _TRACE_LINES_MAX):
            give_back()
        if line == _TRACE or held:
            held.append(line)
            if _RAISED.match(line):
                files = [each for each in held if each.startswith("File ")]
                if _BROKEN_PIPE.match(line) and files and all(map(_DAEMON.match, files)):
                    held.clear()
                else:
                    give_back()
        elif not _CHATTER.match(line):
            tell(line)

    def give_back() -> None:
        for each in held:
            tell(each)
        held.clear()

    return once
