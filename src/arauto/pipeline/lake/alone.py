"""Being the only one at something in a directory of the lake; tells of one that cannot be written to."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from arauto.errors import ArautoError, Code
from arauto.storage.filelock import only_one

__all__ = ["check_writable", "only_one_in"]


def check_writable(directory: Path) -> None:
    """Whether something could be written there; makes nothing. For whoever writes only later on.

    Raises:
        ArautoError: BAD_CONFIG.
    """
    there = next(path for path in (directory, *directory.parents) if os.access(path, os.F_OK))
    if not os.access(there, os.W_OK | os.X_OK):
        raise ArautoError(Code.BAD_CONFIG, f"the directory {there} cannot be written to")


@contextmanager
def only_one_in(directory: Path, name: str, busy: ArautoError) -> Iterator[None]:
    """Hold a lock while open. The directory is made.

    Args:
        name: of the lock's file.
        busy: raised if somebody else holds it.

    Raises:
        ArautoError: `busy`; BAD_CONFIG, the directory cannot be made or written to.
    """
    with ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(only_one(directory / name, busy))
            # A lock that is there already can be had where nothing else can be written.
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise ArautoError(
                Code.BAD_CONFIG, f"the directory {directory} cannot be written to: {error.strerror}"
            ) from error
        yield
