"""A process that stores messages and prints each offset once it is acknowledged, until it is killed.

python -m tests.contract.storage.writer_program DIRECTORY FIRST COUNT IN_FLIGHT
"""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from arauto.errors import StorageError
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.contract.storage.journal_helpers import message

__all__: list[str] = []


async def main(directory: Path, first: int, count: int, in_flight: int) -> None:
    storage = await open_sqlite(directory, "n", FakeClock())
    room = asyncio.Semaphore(in_flight)

    def done(offset: int, error: StorageError | None) -> None:
        assert error is None, error
        os.write(1, b"%d\n" % offset)  # unbuffered: what was printed was acknowledged
        room.release()

    for offset in range(first, first + count):
        await room.acquire()
        storage.journal.append(message(offset), partial(done, offset))
    await storage.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:])))
