"""A log beside a panel: a file that is never larger than it may be, and the one before it."""

import io
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["LogFile"]

_BYTES_MAX = 4 * 1_048_576


class LogFile(io.TextIOBase):
    """A stream that begins a new file when one is full; the last full one stays as `NAME.1`.

    What cannot be written later on is lost: whoever logs has other work, and no better place to say so.

    Args:
        path: the file; it and its directory are made.
        bytes_max: how large it may become.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path, bytes_max: int = _BYTES_MAX) -> None:
        super().__init__()
        self.path = path
        self._bytes_max = bytes_max
        # Before anything can fail: a stream is closed when it goes.
        self._file = io.FileIO(os.devnull, "w")
        self._open()

    def write(self, text: str) -> int:
        data = text.encode(errors="replace")[: self._bytes_max]
        with suppress(OSError):
            if self._size + len(data) > self._bytes_max:
                with suppress(FileNotFoundError):
                    self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                self._open()
            self._file.write(data)
            self._size += len(data)
        return len(text)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Only for its owner, as the lake: lines name users and channels.
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file.close()
        self._file = io.FileIO(fd, "a")
        self._size = os.fstat(fd).st_size
