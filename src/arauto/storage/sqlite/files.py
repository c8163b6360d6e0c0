"""The two small files beside the database: the lock that keeps others out, and the high-water mark."""

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from zlib import crc32

from arauto.errors import Code, StorageError

__all__ = ["DirectoryLock", "Mark", "sync_directory"]

_MARK = struct.Struct("<4sIQQ")
_MARK_MAGIC = b"ARM1"


class DirectoryLock:
    """Keeps the data directory to one process. The system drops the lock when the process dies."""

    def __init__(self, directory: Path) -> None:
        """Take the lock.

        Raises:
            StorageError: STORAGE_UNAVAILABLE, another process has it.
            OSError: the file could not be made.
        """
        path = directory / "arauto.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StorageError(
                Code.STORAGE_UNAVAILABLE,
                f"the data directory {directory} is in use by another node (process {holder or '?'})",
            ) from None
        # For people only; whether the lock is held is the kernel's to say. Hence best effort.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Mark:
    """Remembers, outside of the database, how far acknowledged writes went.

    SQLite recovers from a cut or damaged write-ahead log by ignoring its end without a word. If the
    database then ends before the mark, acknowledged writes are missing, and opening it must not go
    unnoticed. The mark is written after each commit and is not synced itself: one that lags is harmless.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "arauto.mark"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self, node: int) -> tuple[int, int]:
        """Return the (seq, writes) last acknowledged for this partition; zeros if it does not say."""
        data = os.pread(self._fd, _MARK.size + 4, 0)
        body, crc = data[: _MARK.size], data[_MARK.size :]
        if len(crc) != 4 or crc32(body).to_bytes(4, "little") != crc:
            return 0, 0
        magic, marked_node, seq, writes = _MARK.unpack(body)
        return (seq, writes) if magic == _MARK_MAGIC and marked_node == node else (0, 0)

    def write(self, node: int, seq: int, writes: int) -> None:
        body = _MARK.pack(_MARK_MAGIC, node, seq, writes)
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, body + crc32(body).to_bytes(4, "little"), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def sync_directory(directory: Path) -> None:
    """Make the names of newly made files durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
