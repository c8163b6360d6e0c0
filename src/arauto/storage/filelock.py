"""Being the only one at something, by a lock on a file. The kernel lets go when a process dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arauto.errors import ArautoError

__all__ = ["only_one"]


@contextmanager
def only_one(path: Path, busy: ArautoError) -> Iterator[None]:
    """Hold the lock while open.

    Args:
        path: the file, made if it is not there and left behind.
        busy: raised if somebody else holds it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield
    finally:
        os.close(fd)
