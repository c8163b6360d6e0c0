"""A full disk and a read-only disk: writes are refused with the right words, and work again afterwards."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import Storage
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.contract.storage.journal_helpers import append_all, message


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the test's own."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0 or not _mount("-t", "tmpfs", "-o", "size=4m", "arauto-test", str(path)):
        pytest.skip("NOT CHECKED: a full and a read-only disk; mounting a small tmpfs needs root")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


async def fill(storage: Storage) -> tuple[list[int], list[StorageError]]:
    """Append until writes fail; return the offsets acknowledged and the errors."""
    acked: list[int] = []
    errors: list[StorageError] = []
    offset = 0
    while len(errors) < 3:
        offset += 1
        (error,) = await append_all(storage.journal, [message(offset, payload=b"x" * 20_000)])
        if error is None:
            acked.append(offset)
        else:
            errors.append(error)
    return acked, errors


async def test_on_a_full_disk_writes_fail_and_nothing_acknowledged_is_lost(disk: Path) -> None:
    storage = await open_sqlite(disk / "data", "n", FakeClock())
    acked, errors = await fill(storage)
    assert len(acked) > 10
    assert {error.code for error in errors} == {Code.STORAGE_FULL}
    with pytest.raises(StorageError) as refused:
        await storage.kv.put("h", "k", b"v" * 20_000)
    assert refused.value.code is Code.STORAGE_FULL
    stored = [entry.offset for _, entry in await storage.journal.read(0, 10_000)]
    assert stored == acked, "reading goes on, and what failed is not there"
    assert storage.counters.commit_failures >= 4
    await storage.close()


async def test_writes_succeed_again_once_there_is_room(disk: Path) -> None:
    ballast = disk / "ballast"
    await asyncio.to_thread(ballast.write_bytes, b"\0" * 2_000_000)
    storage = await open_sqlite(disk / "data", "n", FakeClock())
    acked, _ = await fill(storage)
    await asyncio.to_thread(ballast.unlink)
    outcomes = await append_all(storage.journal, [message(i) for i in range(1000, 1010)])
    assert outcomes == [None] * 10
    rows = await storage.journal.read(0, 10_000)
    assert [e.offset for _, e in rows] == [*acked, *range(1000, 1010)]
    assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1)), "failures left no hole"
    await storage.close()
    again = await open_sqlite(disk / "data", "n", FakeClock())
    assert again.journal.last_seq == len(rows)
    await again.close()


@pytest.fixture
def failing_disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A disk that its file system makes read-only at the first error, and the file that causes one."""
    path, image = tmp_path / "disk", tmp_path / "image"
    path.mkdir()
    image.write_bytes(bytes(16 << 20))
    make = ["mkfs.ext4", "-q", str(image)]
    if (
        os.geteuid() != 0
        or shutil.which(make[0]) is None
        or subprocess.run(make, capture_output=True, check=False).returncode != 0
        or not _mount("-o", "loop,errors=remount-ro", str(image), str(path))
    ):
        pytest.skip(
            "NOT CHECKED: a disk that turns read-only; a loop device needs root and mkfs.ext4"
        )
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    device = next(m[0] for m in mounts if m[1] == str(path))
    yield path, Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
    subprocess.run(["umount", "-l", str(path)], check=True)


async def test_on_a_disk_that_turns_read_only_writes_fail_and_reads_go_on(
    failing_disk: tuple[Path, Path],
) -> None:
    disk, trigger = failing_disk
    storage = await open_sqlite(disk / "data", "n", FakeClock())
    assert await append_all(storage.journal, [message(1)]) == [None]
    await asyncio.to_thread(trigger.write_text, "test")
    for _ in range(3):
        (refused,) = await append_all(storage.journal, [message(2)])
        assert refused is not None
        assert refused.code is Code.STORAGE_READ_ONLY
    assert [e.offset for _, e in await storage.journal.read(0, 10)] == [1]
    await storage.close()


async def test_writes_succeed_again_once_the_database_is_writable(tmp_path: Path) -> None:
    storage = await open_sqlite(tmp_path, "n", FakeClock())
    assert await append_all(storage.journal, [message(1)]) == [None]
    writer = storage.journal._engine._writer  # type: ignore[attr-defined]
    writer._connection.execute("PRAGMA query_only = 1")
    (refused,) = await append_all(storage.journal, [message(2)])
    assert refused is not None
    assert refused.code is Code.STORAGE_READ_ONLY
    assert await append_all(storage.journal, [message(3)]) == [None]
    assert [(s, e.offset) for s, e in await storage.journal.read(0, 9)] == [(1, 1), (2, 3)]
    assert storage.counters.reopened == 1
    await storage.close()


async def test_a_read_only_disk_is_refused_at_the_start(disk: Path) -> None:
    await asyncio.to_thread(_mount, "-o", "remount,ro", str(disk))
    with pytest.raises(StorageError) as refused:
        await open_sqlite(disk / "data", "n", FakeClock())
    assert refused.value.code is Code.STORAGE_READ_ONLY


async def test_a_full_disk_is_refused_at_the_start(disk: Path) -> None:
    def fill_up() -> None:
        with (disk / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                return

    await asyncio.to_thread(fill_up)
    with pytest.raises(StorageError) as refused:
        await open_sqlite(disk / "data", "n", FakeClock())
    assert refused.value.code is Code.STORAGE_FULL


async def test_a_write_the_system_refuses_fails_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    """A limit on the size of files needs no privilege, so this much is checked everywhere."""
    program = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from arauto.storage.sqlite import open_sqlite\n"
        "from arauto.testing.clock import FakeClock\n"
        "from tests.contract.storage.test_sqlite_disk import fill\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "async def main():\n"
        "    storage = await open_sqlite(Path(sys.argv[1]), 'n', FakeClock())\n"
        "    acked, errors = await fill(storage)\n"
        "    stored = [e.offset for _, e in await storage.journal.read(0, 10_000)]\n"
        "    assert acked and stored == acked, (acked, stored)\n"
        "    print({error.code.name for error in errors})\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "data"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "{'STORAGE_FAILED'}"
