"""A database that went back in time gives seqs again; its rows are told apart from the earlier ones."""

import asyncio
import shutil
from pathlib import Path

import pytest

from arauto.errors import StorageError
from arauto.storage.base import JournalEntry, Kind
from arauto.storage.export import export
from arauto.storage.incarnation import (
    Incarnation,
    Stretch,
    first_seq_of,
    following,
    node_of,
    stretches,
)
from arauto.storage.segments import named
from arauto.storage.sqlite.files import Mark
from arauto.testing.clock import FakeClock
from tests.contract.storage.backends import Backend, SqliteBackend
from tests.contract.storage.journal_helpers import append_all, message

NODE = "node-a"


async def _write(backend: Backend, out: Path, *offsets: int, trim: bool = False) -> None:
    """Append messages, or heartbeats if they are to be trimmed, and export them."""
    storage = await backend.open()
    entries = [
        JournalEntry(kind=Kind.HEARTBEAT, ts_ms=offset) if trim else message(offset)
        for offset in offsets
    ]
    try:
        await append_all(storage.journal, entries)
        report = await asyncio.to_thread(export, storage.url, NODE, out, 100, 10**9)
        assert report.sealed_seq == storage.journal.last_seq
        if trim:
            await storage.journal.trim(report.sealed_seq, 1)
    finally:
        await storage.close()


def _exported(out: Path) -> list[tuple[str, int, int]]:
    found = [named(path) for path in out.glob("seg-*")]
    return sorted((each.node, each.first, each.last) for each in found if each)


async def test_a_journal_that_is_opened_again_goes_on_under_its_name(
    durable_backend: Backend, tmp_path: Path
) -> None:
    await _write(durable_backend, tmp_path, 1, 2)
    durable_backend.clock.advance(5)
    await _write(durable_backend, tmp_path, 3)
    assert _exported(tmp_path) == [(NODE, 1, 2), (NODE, 3, 3)]


@pytest.mark.parametrize("trim", [False, True])
async def test_rows_after_a_restore_are_those_of_another_incarnation(
    durable_backend: Backend, tmp_path: Path, *, trim: bool
) -> None:
    out = tmp_path / "out"
    await _write(durable_backend, out, 1, 2, trim=trim)
    await durable_backend.back_up()
    await _write(durable_backend, out, 3, 4, 5, trim=trim)
    names: list[str] = []
    for _ in range(2):
        durable_backend.clock.advance(5)
        await durable_backend.restore()
        await _write(durable_backend, out, 30, 40, trim=trim)
        await _write(durable_backend, out, 50, trim=trim)
        (name,) = {node for node, _, _ in _exported(out)} - {NODE, *names}
        assert [each for each in _exported(out) if each[0] == name] == [(name, 3, 4), (name, 5, 5)]
        assert (node_of(name), first_seq_of(name)) == (NODE, 3)
        names.append(name)
    assert [each[1:] for each in _exported(out) if each[0] == NODE] == [(1, 2), (3, 5)]


async def test_what_was_not_exported_before_a_restore_keeps_its_name(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    await append_all(storage.journal, [message(1), message(2)])
    await storage.close()
    await durable_backend.back_up()
    await durable_backend.restore()
    await _write(durable_backend, tmp_path, 3)
    (old, new) = _exported(tmp_path)
    assert (old, new[1:]) == ((NODE, 1, 2), (3, 3))


async def test_segments_beyond_a_journal_that_was_not_restored_are_refused(
    durable_backend: Backend, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    await _write(durable_backend, out, 1)
    (path,) = out.glob("seg-*")
    path.rename(out / f"seg-{NODE}-1-9.parquet")
    with pytest.raises(StorageError, match="do not belong together"):
        await _write(durable_backend, out, 2)


async def test_a_copied_data_directory_is_known_by_its_copied_mark(tmp_path: Path) -> None:
    backend = SqliteBackend(FakeClock(), tmp_path / "data")
    await _write(backend, tmp_path / "out", 1)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    copied = SqliteBackend(backend.clock, tmp_path / "copy")
    await _write(copied, tmp_path / "copied", 2)
    await _write(copied, tmp_path / "copied", 3)
    assert [each[1:] for each in _exported(tmp_path / "copied")] == [(1, 1), (2, 2), (3, 3)]
    assert len({each[0] for each in _exported(tmp_path / "copied")}) == 2


async def test_a_mark_of_an_earlier_version_is_an_original(tmp_path: Path) -> None:
    old = bytes.fromhex("41524d3101000000070000000000000009000000000000009287b511")
    (tmp_path / "arauto.mark").write_bytes(old)
    mark = Mark(tmp_path)
    assert (mark.read(1), mark.is_original) == ((7, 9), True)
    mark.write(1, 8, 10)
    assert (mark.read(1), mark.read(2), mark.is_original) == ((8, 10), (0, 0), True)
    mark.release()


def test_a_partition_without_rows_that_moved_needs_no_other_name() -> None:
    first = Incarnation(1, "", "here")
    assert following([], last_seq=0, place="here", moved=False, now_ms=1) == [first]
    assert following([first], last_seq=9, place="here", moved=False, now_ms=1) == []
    moved = first._replace(place="there")
    assert following([first], last_seq=0, place="there", moved=True, now_ms=1) == [moved]
    later = Incarnation(10, "10.ff", "there")
    assert following([first], last_seq=9, place="there", moved=True, now_ms=255) == [later]


def test_lives_follow_each_other_without_a_hole() -> None:
    lives = [(1, "", ""), (4, "4.a", ""), (9, "9.b", "")]
    assert stretches("n", lives, 8) == [
        Stretch("n", 1, 3, is_over=True),
        Stretch("n@4.a", 4, 8, is_over=True),
        Stretch("n@9.b", 9, 8, is_over=False),
    ]
    assert stretches("n", [], 5) == [Stretch("n", 1, 5, is_over=False)]
    assert (first_seq_of("n"), first_seq_of("n@4.a"), node_of("n@4.a")) == (1, 4, "n")
