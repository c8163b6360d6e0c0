"""SQLite's and the operating system's errors as ours. The one place where they are translated."""

import errno
import os
import sqlite3
from pathlib import Path

from arauto.errors import Code, StorageError

__all__ = ["translate"]

_FREE_BYTES_MIN = 1024 * 1024

_BY_PRIMARY_CODE = {
    # Our statements are constants: if one makes no sense, it is the schema that is not what it was.
    sqlite3.SQLITE_ERROR: (Code.STORAGE_CORRUPT, "the database's tables are damaged"),
    sqlite3.SQLITE_FULL: (Code.STORAGE_FULL, "the disk is full"),
    sqlite3.SQLITE_READONLY: (Code.STORAGE_READ_ONLY, "the database cannot be written"),
    sqlite3.SQLITE_CORRUPT: (Code.STORAGE_CORRUPT, "the database file is damaged"),
    sqlite3.SQLITE_NOTADB: (Code.STORAGE_CORRUPT, "the file is not a database"),
    sqlite3.SQLITE_BUSY: (Code.STORAGE_UNAVAILABLE, "another program holds the database locked"),
    sqlite3.SQLITE_LOCKED: (Code.STORAGE_UNAVAILABLE, "another program holds the database locked"),
}
_BY_ERRNO = {
    errno.ENOSPC: (Code.STORAGE_FULL, "the disk is full"),
    errno.EDQUOT: (Code.STORAGE_FULL, "the disk quota is used up"),
    errno.EFBIG: (Code.STORAGE_FULL, "a file would become larger than allowed"),
    errno.EROFS: (Code.STORAGE_READ_ONLY, "the disk is mounted read-only"),
    errno.EACCES: (Code.STORAGE_READ_ONLY, "no permission to write"),
    errno.EPERM: (Code.STORAGE_READ_ONLY, "no permission to write"),
}


def translate(error: BaseException, directory: Path) -> StorageError:
    """Return the storage error that says what went wrong; a storage error stays as it is."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        return StorageError(Code.STORAGE_CORRUPT, f"stored text is damaged: {directory}")
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, directory)
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        code, message = _BY_ERRNO[error.errno]
        return StorageError(code, f"{message}: {directory}")
    if isinstance(error, OSError) and error.strerror:
        return StorageError(
            Code.STORAGE_FAILED, f"{error.strerror.lower()}: {error.filename or directory}"
        )
    return StorageError(Code.STORAGE_FAILED, f"the operation failed ({type(error).__name__})")


def _from_sqlite(error: sqlite3.Error, directory: Path) -> StorageError:
    # Errors that Python's driver raises by itself have no code; -1 is in no table.
    extended = getattr(error, "sqlite_errorcode", -1)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    known = _BY_PRIMARY_CODE.get(extended & 0xFF if extended >= 0 else -1) or _by_disk(directory)
    if known is not None:
        return StorageError(known[0], f"{known[1]}: {directory} ({name}: {error})")
    return StorageError(Code.STORAGE_FAILED, f"the database failed: {error} ({name})")


def _by_disk(directory: Path) -> tuple[Code, str] | None:
    # A full or read-only disk also shows as a plain I/O error, for example when the shared memory
    # file cannot grow, and then only the file system itself tells why.
    try:
        disk = os.statvfs(directory)
        os.utime(directory)  # the smallest write there is; the mount's flags do not tell all
    except OSError as exc:
        return _BY_ERRNO.get(exc.errno or 0)
    if disk.f_bavail * disk.f_frsize < _FREE_BYTES_MIN:
        return Code.STORAGE_FULL, "the disk is full"
    return None
