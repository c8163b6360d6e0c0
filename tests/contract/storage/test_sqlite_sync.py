"""Acknowledged means on disk: seen in the system calls, and by killing the process under load."""

import asyncio
import random
import re
import sys
from pathlib import Path

import pytest

from arauto.storage.sqlite import DATABASE_NAME, open_sqlite
from arauto.testing.clock import FakeClock

_PROGRAM = "tests.contract.storage.writer_program"
_FOREVER = 10**9


async def test_the_log_is_synced_after_the_last_write_and_before_each_acknowledgement(
    tmp_path: Path, strace: str
) -> None:
    trace = tmp_path / "trace"
    process = await asyncio.create_subprocess_exec(
        *(strace, "-f", "-y", "-qq", "-s", "32", "-o", str(trace)),
        *("-e", "trace=fsync,fdatasync,write,pwrite64"),
        *(sys.executable, "-m", _PROGRAM, str(tmp_path / "data"), "1", "20", "1"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    synced, acknowledged = False, 0
    for line in (await asyncio.to_thread(trace.read_text)).splitlines():
        if f"{DATABASE_NAME}-wal>" in line:
            # Synced once the call has returned; any later write to the log undoes that.
            synced = re.search(r" f(data)?sync\(.* = 0", line) is not None
        elif re.search(r'write\(1<.*"\d+\\n"', line):
            acknowledged += 1
            assert synced, f"acknowledged before the sync: {line}"
    assert acknowledged == 20


async def _run_until_killed(directory: Path, first: int, acks: int) -> list[int]:
    """Let a writer run until so many acknowledgements, kill it, and return all it had given."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _PROGRAM, str(directory), str(first), str(_FOREVER), "300"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    acked = [int(await process.stdout.readline()) for _ in range(acks)]
    process.kill()
    rest = (await process.stdout.read()).split(b"\n")[:-1]
    await process.wait()
    return acked + [int(line) for line in rest]


@pytest.mark.slow
async def test_killed_again_and_again_every_acknowledged_message_is_there_in_order(
    tmp_path: Path,
) -> None:
    chance = random.Random(9)
    acked: list[int] = []
    for _ in range(10):
        first = acked[-1] + 1_000_000 if acked else 1  # no offset twice, whatever was cut off
        acked += await _run_until_killed(tmp_path, first, chance.randrange(1, 1500))
        storage = await open_sqlite(tmp_path, "n", FakeClock())
        rows = await storage.journal.read(0, 10_000_000)
        await storage.close()
        assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1))
        stored = [entry.offset for _, entry in rows]
        assert stored == sorted(set(stored))
        assert not set(acked) - set(stored), "acknowledged but lost"
    assert len(acked) > 2_000
