"""Segments hold every journal row exactly once, whatever happens to the process that writes them."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from arauto.errors import Code, StorageError
from arauto.storage import segments as segments_module
from arauto.storage.base import JournalEntry, Kind, Storage
from arauto.storage.export import export, main
from arauto.storage.exporter import Exporter, ExportSettings
from arauto.storage.segment_schema import COLUMNS, METADATA_NODE, METADATA_VERSION, VERSION
from arauto.storage.segments import segments
from arauto.testing.clock import FakeClock
from tests.contract.storage.backends import Backend, SqliteBackend
from tests.contract.storage.journal_helpers import append_all, message

NODE = "node-a"
_MANY = 10**9


def exported_seqs(directory: Path) -> list[int]:
    """All seqs in all sealed segments, in the order of the files, each file checked against its name."""
    seqs: list[int] = []
    for segment in segments(directory, NODE):
        first, last, path = segment[:3]
        segments_module.check_whole(segment)
        table = pyarrow.parquet.read_table(path)
        found = table.column("seq").to_pylist()
        assert found == list(range(first, last + 1))
        seqs += found
    return seqs


async def run_export(
    storage: Storage, out: Path, *, rows_max: int = _MANY, bytes_max: int = _MANY
) -> int:
    report = await asyncio.to_thread(export, storage.url, NODE, out, rows_max, bytes_max)
    return report.sealed_seq


async def test_rows_come_out_as_they_went_in(durable_backend: Backend, tmp_path: Path) -> None:
    entry = JournalEntry(
        kind=Kind.MESSAGE,
        ts_ms=1_700_000_000_123,
        hub="loja",
        channel="estoque:ação",
        epoch=2**63 - 1,
        offset=5,
        session="s",
        user="Zoë",
        content_type="application/json",
        id="i",
        key="k",
        exclude="s:s",
        headers={"a": "1", "b": "2"},
        expires_ms=9,
        payload=b"\0\xff",
        origin="http 10.0.0.7",
    )
    storage = await durable_backend.open()
    await append_all(storage.journal, [entry, JournalEntry(kind=Kind.HEARTBEAT, ts_ms=5)])
    assert await run_export(storage, tmp_path / "out") == 2
    await storage.close()
    (segment,) = segments(tmp_path / "out", NODE)
    assert segment.path.name == f"seg-node-a-{1:019d}-{2:019d}.{segment.checksum}.parquet"
    assert len(segment.checksum) == 16
    table = pyarrow.parquet.read_table(segment.path)
    types = {f.name: str(f.type) for f in table.schema}
    assert types.pop("headers").startswith("map<string, string")
    assert types == {name: kind for name, kind in COLUMNS if name != "headers"}
    assert table.schema.metadata[METADATA_VERSION.encode()] == str(VERSION).encode()
    assert table.schema.metadata[METADATA_NODE.encode()] == NODE.encode()
    row, beat = table.to_pylist()
    assert row.pop("ts").timestamp() == 1_700_000_000.123
    assert (row.pop("node"), row.pop("seq"), row.pop("kind")) == (NODE, 1, 1)
    assert dict(row.pop("headers")) == entry.headers
    assert row == {name: getattr(entry, name) for name in row}
    assert (beat["kind"], beat["headers"], beat["payload"]) == (int(Kind.HEARTBEAT), [], b"")


async def test_segments_of_the_first_version_are_read_beside_those_of_today(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    await append_all(storage.journal, [message(1), message(2, origin="http 10.0.0.7")])
    await run_export(storage, tmp_path, rows_max=1)
    await storage.close()
    first, second = segments(tmp_path, NODE)
    old = pyarrow.parquet.read_table(first.path).drop_columns(["origin"])
    old = old.replace_schema_metadata({METADATA_VERSION: "1", METADATA_NODE: NODE})
    pyarrow.parquet.write_table(old, first.path)
    schema = pyarrow.parquet.read_schema(second.path)
    table = pyarrow.dataset.dataset([first.path, second.path], schema=schema).to_table()
    assert table.column("offset").to_pylist() == [1, 2]
    assert table.column("origin").to_pylist() == [None, "http 10.0.0.7"]


async def test_each_run_goes_on_where_the_last_one_ended(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    assert await run_export(storage, tmp_path) == 0
    for end in (10, 25, 26):
        first = storage.journal.last_seq + 1
        await append_all(storage.journal, [message(i) for i in range(first, end + 1)])
        assert await run_export(storage, tmp_path, rows_max=7) == end
    assert await run_export(storage, tmp_path) == 26
    await storage.close()
    assert exported_seqs(tmp_path) == list(range(1, 27))
    sizes = [s.last - s.first + 1 for s in segments(tmp_path, NODE)]
    assert sizes == [7, 3, 7, 7, 1, 1]


async def test_a_segment_ends_at_the_row_that_passes_its_bytes(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    await append_all(storage.journal, [message(i, payload=b"x" * 100) for i in range(1, 11)])
    await run_export(storage, tmp_path, bytes_max=250)
    await storage.close()
    assert [s.last for s in segments(tmp_path, NODE)] == [3, 6, 9, 10]


async def test_trimmed_rows_are_not_missed_when_their_segments_have_moved(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    beats = [JournalEntry(kind=Kind.HEARTBEAT, ts_ms=i) for i in range(5)]
    await append_all(storage.journal, beats)
    await storage.journal.trim(await run_export(storage, tmp_path), 1)
    for segment in segments(tmp_path, NODE):
        segment.path.unlink()
    await append_all(storage.journal, beats[:2])
    assert await run_export(storage, tmp_path) == 7
    await storage.close()
    assert exported_seqs(tmp_path) == [6, 7]


async def test_segments_of_another_journal_are_refused(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    await append_all(storage.journal, [message(1)])
    (tmp_path / f"seg-{NODE}-1-9.parquet").write_bytes(b"")
    with pytest.raises(StorageError, match="do not belong together") as refused:
        await run_export(storage, tmp_path)
    assert refused.value.code is Code.STORAGE_CORRUPT
    (tmp_path / f"seg-{NODE}-5-12.parquet").write_bytes(b"")
    with pytest.raises(StorageError, match="overlap"):
        await run_export(storage, tmp_path)
    await storage.close()


async def test_a_segment_that_changed_is_known_by_the_checksum_in_its_name(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    await append_all(storage.journal, [message(1)])
    await run_export(storage, tmp_path)
    await storage.close()
    (segment,) = segments(tmp_path, NODE)
    segments_module.check_whole(segment)
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(StorageError, match="does not match the checksum") as refused:
        segments_module.check_whole(segment)
    assert refused.value.code is Code.STORAGE_CORRUPT
    # One of an earlier version says nothing of itself.
    old = segment.path.rename(tmp_path / f"seg-{NODE}-1-1.parquet")
    (segment,) = segments(tmp_path, NODE)
    assert segment == (1, 1, old, NODE, "")
    segments_module.check_whole(segment)


def _command(out: Path, rows_max: int = 50) -> list[str]:
    return [
        *(sys.executable, "-m", "arauto.storage.export"),
        *("--node", NODE, "--out", str(out), "--rows-max", str(rows_max)),
    ]


def _environment(storage: Storage) -> dict[str, str]:
    return {**os.environ, "ARAUTO_EXPORT_URL": storage.url}


def _kill_when(storage: Storage, out: Path, *, segments_more: int) -> None:
    """Start an exporter and kill it once it has sealed so many segments (0: while it writes the first)."""
    goal = len(list(out.glob("seg-*"))) + segments_more
    writing = out / f".writing-{NODE}.parquet"
    with subprocess.Popen(_command(out), env=_environment(storage)) as process:
        while len(list(out.glob("seg-*"))) < goal or not (segments_more or writing.exists()):
            try:
                process.wait(0.001)
                return
            except subprocess.TimeoutExpired:
                continue
        process.kill()


@pytest.mark.slow
async def test_an_exporter_killed_at_any_moment_is_followed_by_one_that_completes_its_work(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    chance = random.Random(20)
    for segments_more in [0, 0, *(chance.randrange(1, 16) for _ in range(4))]:
        first = storage.journal.last_seq + 1
        await append_all(storage.journal, [message(i) for i in range(first, first + 800)])
        await asyncio.to_thread(_kill_when, storage, tmp_path, segments_more=segments_more)
        exported_seqs(tmp_path)
    assert await run_export(storage, tmp_path) == storage.journal.last_seq
    await storage.close()
    assert exported_seqs(tmp_path) == list(range(1, 4801))
    assert not segments_module.writing_path(tmp_path, NODE).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "nth"),
    [("fsync", 1), ("rename", 1), ("fsync", 2), ("fsync", 3), ("rename", 2), ("fsync", 4)],
)
async def test_a_kill_between_writing_syncing_and_renaming_loses_and_repeats_nothing(
    tmp_path: Path, strace: str, call: str, nth: int
) -> None:
    storage = await SqliteBackend(FakeClock(), tmp_path / "data").open()
    await append_all(storage.journal, [message(i) for i in range(1, 151)])
    out = tmp_path / "out"
    kill = [strace, "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={call}"]
    inject = ["-e", f"inject={call}:signal=SIGKILL:when={nth}"]
    process = await asyncio.create_subprocess_exec(
        *kill, *inject, *_command(out), env=_environment(storage)
    )
    assert await process.wait() != 0, "it was meant to die"
    exported_seqs(out)
    assert await run_export(storage, out, rows_max=50) == 150
    await storage.close()
    assert exported_seqs(out) == list(range(1, 151))


async def test_a_segment_is_synced_before_it_is_renamed_and_its_directory_after(
    tmp_path: Path, strace: str
) -> None:
    storage = await SqliteBackend(FakeClock(), tmp_path / "data").open()
    await append_all(storage.journal, [message(1)])
    trace, out = tmp_path / "trace", tmp_path / "out"
    process = await asyncio.create_subprocess_exec(
        *(strace, "-f", "-y", "-qq", "-o", str(trace), "-e", "trace=fsync,/rename.*"),
        *_command(out),
        env=_environment(storage),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    await storage.close()
    calls = (await asyncio.to_thread(trace.read_text)).splitlines()
    mine = [line for line in calls if str(out) in line]
    assert len(mine) == 3
    assert "fsync(" in mine[0]
    assert ".writing-" in mine[0]
    assert "rename" in mine[1]
    assert f"{out}>)" in mine[2]


async def test_the_manager_exports_new_rows_at_intervals_and_trims(
    durable_backend: Backend, tmp_path: Path
) -> None:
    clock = FakeClock()
    storage = await durable_backend.open()
    exporter = Exporter(storage, NODE, tmp_path, clock, ExportSettings(interval_s=10))
    exporter.start()
    beats = [JournalEntry(kind=Kind.HEARTBEAT, ts_ms=i) for i in range(20)]
    await append_all(storage.journal, [*beats, message(1)])
    clock.advance(9.9)
    assert exporter.counters.runs == 0
    clock.advance(0.1)
    await _until_idle(exporter)
    assert (exporter.sealed_seq, exporter.counters.rows, exporter.counters.trimmed) == (21, 21, 20)
    clock.advance(100)
    await _until_idle(exporter)
    assert exporter.counters.runs == 1, "nothing new, nothing to run"
    await append_all(storage.journal, beats[:1])
    clock.advance(10)
    await _until_idle(exporter)
    assert (exporter.counters.runs, exporter.sealed_seq) == (2, 22)
    assert exported_seqs(tmp_path) == list(range(1, 23))
    await exporter.stop()
    await storage.close()


async def test_an_export_that_is_asked_for_has_all_rows_there_are_and_is_shared(
    durable_backend: Backend, tmp_path: Path
) -> None:
    storage = await durable_backend.open()
    exporter = Exporter(storage, NODE, tmp_path, FakeClock())
    assert await exporter.export_now() == 0, "there is nothing yet"
    await append_all(storage.journal, [message(1), message(2)])
    early = asyncio.create_task(exporter.export_now())
    given_up = asyncio.create_task(exporter.export_now())
    await asyncio.sleep(0)
    given_up.cancel()
    # While a run is at work that may not see it any more.
    await append_all(storage.journal, [message(3)])
    late = await asyncio.gather(*(exporter.export_now() for _ in range(5)))
    assert late == [3] * 5
    assert await early in (2, 3)
    assert exported_seqs(tmp_path) == [1, 2, 3]
    assert exporter.counters.runs in (2, 3), "all who ask meanwhile share a run"
    runs = exporter.counters.runs
    assert await exporter.export_now() == 3
    assert exporter.counters.runs == runs, "nothing new, nothing to run"
    await exporter.stop()
    await storage.close()


async def test_an_export_that_is_asked_for_says_when_it_fails_or_the_node_stops(
    tmp_path: Path,
) -> None:
    storage = await SqliteBackend(FakeClock(), tmp_path / "data").open()
    await append_all(storage.journal, [message(1)])
    out = tmp_path / "out"
    out.write_bytes(b"in the way")
    exporter = Exporter(storage, NODE, out, FakeClock())
    with pytest.raises(StorageError, match="the export failed") as failed:
        await exporter.export_now()
    assert failed.value.code is Code.STORAGE_FAILED
    waits = asyncio.create_task(exporter.export_now())
    await asyncio.sleep(0)
    await exporter.stop()
    for asked in (waits, exporter.export_now()):
        with pytest.raises(StorageError) as stopped:
            await asked
        assert stopped.value.code is Code.STORAGE_UNAVAILABLE
    await storage.close()


async def _until_idle(exporter: Exporter) -> None:
    tasks = [t for t in asyncio.all_tasks() if t.get_name() == "arauto-exporter"]
    for task in tasks:
        await task


async def test_a_failing_export_is_counted_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await SqliteBackend(FakeClock(), tmp_path / "data").open()
    await append_all(storage.journal, [message(1)])
    out = tmp_path / "out"
    out.write_bytes(b"in the way")
    exporter = Exporter(storage, NODE, out, FakeClock())
    assert await exporter.run_once() is False
    assert (exporter.counters.failures, exporter.sealed_seq) == (1, -1)
    assert "exporting the journal failed" in caplog.text
    out.unlink()
    assert await exporter.run_once() is True
    slow = Exporter(storage, NODE, out, FakeClock(), ExportSettings(timeout_s=0.001))
    assert await slow.run_once() is False
    assert "TimeoutError" in caplog.text
    await storage.close()


def test_two_exporters_of_one_partition_do_not_meet(tmp_path: Path) -> None:
    with segments_module.lock(tmp_path, NODE):
        with pytest.raises(StorageError, match="another exporter"):
            export("sqlite:///nowhere/x.db", NODE, tmp_path, 1, 1)
        with pytest.raises(StorageError, match="unable to open"):
            export("sqlite:///nowhere/x.db", "other", tmp_path, 1, 1)


@pytest.mark.parametrize("node", ["", "a/b", "../x", "a b", "x" * 65, "-a"])
def test_a_node_name_that_is_no_file_name_is_refused(tmp_path: Path, node: str) -> None:
    with pytest.raises(StorageError, match="node name"):
        export("sqlite:///nowhere", node, tmp_path, 1, 1)


def test_the_program_says_why_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--url", "mysql://x", "--node", "n", "--out", str(tmp_path)]
    assert main(arguments) == 1
    assert "sqlite:/// or postgresql://" in capsys.readouterr().err


def test_the_node_does_not_load_pyarrow() -> None:
    modules = "sqlite", "postgres", "redis", "memory", "exporter", "segments", "segment_schema"
    program = "import sys\n" + "".join(f"import arauto.storage.{m}\n" for m in modules)
    check = "assert not {'pyarrow', 'sqlalchemy', 'alembic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program + check], check=True)
