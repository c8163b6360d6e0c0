"""The two small files beside the database: the lock that keeps others out, and the high-water mark."""

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from zlib import crc32

from arauto.errors import Code, StorageError

__all__ = ["DirectoryLock", "Mark", "sync_directory"]

_MARK = struct.Struct("<4sIQQQ")
_MARK_MAGIC = b"ARM2"
#: As earlier versions wrote it: without the number of the file.
_OLD_MARK = struct.Struct("<4sIQQ")
_OLD_MARK_MAGIC = b"ARM1"


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

    It also notes the number the file system gave it. A mark that is missing, or is a copy, means that the
    database is one, too: restored, probably, and not where it was left.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "arauto.mark"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._number = os.fstat(self._fd).st_ino

    @property
    def is_original(self) -> bool:
        """Whether this file was written where it is, by whichever partition."""
        found = self._read()
        return found is not None and found[3] in (None, self._number)

    def read(self, node: int) -> tuple[int, int]:
        """Return the (seq, writes) last acknowledged for this partition; zeros if it does not say."""
        found = self._read()
        return (found[1], found[2]) if found is not None and found[0] == node else (0, 0)

    def _read(self) -> tuple[int, int, int, int | None] | None:
        """(node, seq, writes, number of the file if it says)."""
        data = os.pread(self._fd, _MARK.size + 4, 0)
        for form, magic in ((_MARK, _MARK_MAGIC), (_OLD_MARK, _OLD_MARK_MAGIC)):
            body, crc = data[: form.size], data[form.size : form.size + 4]
            if body[:4] == magic and crc32(body).to_bytes(4, "little") == crc:
                _, node, seq, writes, *number = form.unpack(body)
                return node, seq, writes, number[0] if number else None
        return None

    def write(self, node: int, seq: int, writes: int) -> None:
        body = _MARK.pack(_MARK_MAGIC, node, seq, writes, self._number)
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
