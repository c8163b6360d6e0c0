"""Damaged files: everything acknowledged is served as it was, or the damage is named. Never silence."""

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from arauto.admin.revoked import RevokedUsers
from arauto.codec.events import PublishItem
from arauto.errors import Code, StorageError
from arauto.hub.directory import Directory
from arauto.model import Identity, When
from arauto.session.auth.revocations import Revocations
from arauto.settings import HubSettings, Rules
from arauto.storage.base import JournalEntry, Kind, Snapshot, Storage
from arauto.storage.sql.rows import entry_of, rows_of
from arauto.storage.sqlite import DATABASE_NAME, open_sqlite
from arauto.testing.clock import FakeClock
from tests.contract.storage.journal_helpers import append_all, message, query
from tests.stored import stored
from tests.unit.hub.world import NOBODY, World

_LOG_NAME = f"{DATABASE_NAME}-wal"
_CHANNELS = 5
_ROWS = 400


def _entries() -> list[JournalEntry]:
    return [
        message(i, channel=f"c:{i % _CHANNELS}", headers={"n": str(i)}, payload=b"%d-" % i * 20)
        for i in range(1, _ROWS + 1)
    ]


async def _fill(directory: Path) -> None:
    storage = await open_sqlite(directory, "n", FakeClock())
    entries = _entries()
    for at in range(0, _ROWS, 50):
        assert await append_all(storage.journal, entries[at : at + 50]) == [None] * 50
    for i in range(20):
        await storage.kv.put("h", f"k{i}", b"value %d" % i)
        await storage.kv.push("h", "list", b"item %d" % i)
        await storage.settings.put("rules", "h", f"r{i}", b'{"n":%d}' % i)
    await storage.documents.save("h", "d", Snapshot(7, b"document"))
    # A copy is what a crash leaves: the log not yet folded in, the files as they are.
    await asyncio.to_thread(shutil.copytree, directory, directory.with_name("crashed"))
    await storage.close()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory closed properly, and one as a crash left it."""
    base = tmp_path_factory.mktemp("originals")
    asyncio.run(_fill(base / "closed"))
    return {"closed": base / "closed", "crashed": base / "crashed"}


async def _read_everything(directory: Path) -> None:
    """Compare all there is with what was acknowledged."""
    storage = await open_sqlite(directory, "n", FakeClock())
    try:
        entries = _entries()
        rows = await storage.journal.read(0, 10_000)
        assert rows == list(enumerate(entries, 1))
        for c in range(_CHANNELS):
            found = await storage.journal.history(query(channel=f"c:{c}", limit=1000))
            assert found == [e.to_message() for e in entries if e.channel == f"c:{c}"]
            last = await storage.journal.last("shop", f"c:{c}")
            assert last is not None
            assert last.serial == found[-1].serial
        for i in range(20):
            assert await storage.kv.get("h", f"k{i}") == b"value %d" % i
            assert await storage.settings.get("rules", "h", f"r{i}") == b'{"n":%d}' % i
        assert list(await storage.kv.items("h", "list")) == [b"item %d" % i for i in range(20)]
        assert await storage.documents.load("h", "d") == Snapshot(7, b"document")
        assert await append_all(storage.journal, [message(9999)]) == [None]
    finally:
        await storage.close()


async def _is_refused(directory: Path) -> bool:
    """Whether the damage was named. If it was not, everything must be there."""
    try:
        await _read_everything(directory)
    except StorageError as exc:
        if exc.code is not Code.STORAGE_CORRUPT:
            raise
        return True
    return False


def _flip_bit(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def _zero_page(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data)) // 4096 * 4096
    data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    path.write_bytes(data)


def _fill_with_noise(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    noise = chance.randbytes(512)[: len(data) - at]
    data[at : at + len(noise)] = noise
    path.write_bytes(data)


Damage = Callable[[Path, random.Random], None]


@pytest.mark.parametrize("damage", [_flip_bit, _cut, _zero_page, _fill_with_noise])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("closed", DATABASE_NAME), ("crashed", DATABASE_NAME), ("crashed", _LOG_NAME)],
)
async def test_damage_is_refused_or_harmless_but_never_silent(
    originals: dict[str, Path], tmp_path: Path, kind: str, name: str, damage: Damage
) -> None:
    chance = random.Random(f"{kind} {name} {damage.__name__}")
    refused = 0
    for round_number in range(16):
        copy = tmp_path / str(round_number)
        await asyncio.to_thread(shutil.copytree, originals[kind], copy)
        await asyncio.to_thread(damage, copy / name, chance)
        refused += await _is_refused(copy)
    # A crash leaves everything in the log; only there does every kind of damage matter.
    assert refused >= 1 or (kind, name) == ("crashed", DATABASE_NAME)


@pytest.mark.parametrize("kind", ["closed", "crashed"])
async def test_an_undamaged_copy_is_whole(
    originals: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    await asyncio.to_thread(shutil.copytree, originals[kind], tmp_path / "copy")
    await _read_everything(tmp_path / "copy")


@pytest.mark.parametrize("name", [DATABASE_NAME, _LOG_NAME])
@pytest.mark.parametrize("how", ["emptied", "removed", "zeroed"])
async def test_a_file_that_is_gone_is_noticed(
    originals: dict[str, Path], tmp_path: Path, name: str, how: str
) -> None:
    copy = tmp_path / "copy"

    def break_it() -> None:
        shutil.copytree(originals["crashed"], copy)
        size = (copy / name).stat().st_size
        assert size > 0
        if how == "removed":
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(b"" if how == "emptied" else bytes(size))

    await asyncio.to_thread(break_it)
    assert await _is_refused(copy)
    assert _open_files_below(copy) == []


def _open_files_below(directory: Path) -> list[str]:
    """What this process still holds of a directory, here and in files it removed."""
    found = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return [path for path in found if path.startswith(str(directory))]


async def test_the_message_says_what_is_missing_and_how_to_go_on(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, originals["crashed"], copy)
    await asyncio.to_thread((copy / _LOG_NAME).unlink)
    with pytest.raises(StorageError, match="acknowledged writes are missing"):
        await open_sqlite(copy, "n", FakeClock())
    with pytest.raises(StorageError, match=r"arauto\.mark"):
        await open_sqlite(copy, "n", FakeClock())
    await asyncio.to_thread((copy / "arauto.mark").unlink)
    storage = await open_sqlite(copy, "n", FakeClock())
    assert await append_all(storage.journal, [message(1)]) == [None]
    await storage.close()


async def test_a_backup_made_while_the_node_runs_can_be_restored(tmp_path: Path) -> None:
    storage = await open_sqlite(tmp_path / "data", "n", FakeClock())
    await append_all(storage.journal, [message(i) for i in range(1, 101)])

    def back_up() -> None:
        (tmp_path / "restored").mkdir()
        source = sqlite3.connect(tmp_path / "data" / DATABASE_NAME)
        copy = sqlite3.connect(tmp_path / "restored" / DATABASE_NAME)
        source.backup(copy)
        source.close()
        copy.close()

    await asyncio.to_thread(back_up)
    await append_all(storage.journal, [message(101)])
    await storage.close()
    restored = await open_sqlite(tmp_path / "restored", "n", FakeClock())
    assert restored.journal.last_seq == 100
    assert await append_all(restored.journal, [message(500)]) == [None]
    await restored.close()


async def test_a_damaged_mark_does_not_stand_in_the_way(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, originals["closed"], copy)
    await asyncio.to_thread(_flip_bit, copy / "arauto.mark", random.Random(1))
    await _read_everything(copy)


async def test_a_row_changed_by_hand_is_refused_and_the_others_served(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, originals["closed"], copy)
    edit = sqlite3.connect(copy / DATABASE_NAME)
    edit.execute("UPDATE journal SET hub = 'other' WHERE seq = 5")
    edit.execute("UPDATE kv SET hub = 'other' WHERE key = 'k1'")
    edit.commit()
    edit.close()
    storage = await open_sqlite(copy, "n", FakeClock())
    for call in (
        storage.journal.history(query(hub="other", channel="c:0")),
        storage.kv.get("other", "k1"),
    ):
        with pytest.raises(StorageError) as refused:
            await call
        assert refused.value.code is Code.STORAGE_CORRUPT
    assert await stored(storage.kv, "other", "", 10) == [("k1", None)]
    assert len(await storage.journal.history(query(channel="c:1", limit=1000))) == 80
    assert await storage.kv.get("h", "k2") == b"value 2"
    await storage.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / DATABASE_NAME).write_bytes, b"this is text\n" * 1000)
    with pytest.raises(StorageError, match="not a database") as refused:
        await open_sqlite(tmp_path, "n", FakeClock())
    assert refused.value.code is Code.STORAGE_CORRUPT


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await (await open_sqlite(tmp_path, "n", FakeClock())).close()
    edit = sqlite3.connect(tmp_path / DATABASE_NAME)
    edit.execute("UPDATE alembic_version SET version_num = '9999'")
    edit.commit()
    edit.close()
    with pytest.raises(StorageError, match="newer version"):
        await open_sqlite(tmp_path, "n", FakeClock())


async def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "data").write_bytes, b"")
    with pytest.raises(StorageError):
        await open_sqlite(tmp_path / "data", "n", FakeClock())


def test_a_row_of_a_kind_this_version_does_not_know_is_refused() -> None:
    (row,) = rows_of(1, 1, [message(1)])
    body = (*row[:2], max(Kind) + 1, *row[3:17])
    with pytest.raises(StorageError, match="unknown kind") as refused:
        entry_of((*body, "", crc32(msgspec.msgpack.encode(body))))
    assert refused.value.code is Code.STORAGE_CORRUPT


def a_directory(storage: Storage, clock: FakeClock, rules: Rules) -> Directory:
    world = World(rules=rules, storage=storage, clock=clock)
    return Directory(world.env, defaults=HubSettings(), builtin_rules=rules, allow_dynamic=True)


async def test_one_damaged_value_shuts_neither_its_hub_nor_the_node(tmp_path: Path) -> None:
    """Seen: a retained message or an epoch's note with a wrong check sum kept its whole hub from opening, and
    one among the revocations would have kept the node from starting."""
    clock = FakeClock()
    storage = await open_sqlite(tmp_path, "n", clock)
    stored = Rules(store=When.ALL, retain=When.ALL, client_publish=True)
    hub = await a_directory(storage, clock, stored).get("shop")
    for name in ("a", "b"):
        channel = await hub.open_channel(name)
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        draft = PublishItem(channel=name, payload=b"x")
        channel.publish(draft, NOBODY, lambda *answer, done=done: done.set_result(answer))
        await done
    await hub.close()
    await RevokedUsers(Revocations(clock), storage.kv, clock).keep("shop", "eve", clock.wall_ms())
    await storage.close()

    with sqlite3.connect(tmp_path / DATABASE_NAME) as database:
        spoilt = "UPDATE kv SET crc = crc + 1 WHERE key NOT LIKE '%:b'"
        assert database.execute(spoilt).rowcount >= 4  # retained, epoch, settings, revocation

    storage = await open_sqlite(tmp_path, "n", clock)
    revocations = Revocations(clock)
    await RevokedUsers(revocations, storage.kv, clock).load()
    eve = Identity("eve", issued_ms=clock.wall_ms() - 1)
    assert revocations.is_revoked("shop", eve)
    hub = await a_directory(storage, clock, stored).get("shop")
    assert (hub.retained.get("a"), len(hub.retained)) == (None, 1)
    assert (await hub.open_channel("a")).offset == 0, "an epoch of which nothing is known goes on"
    assert (await hub.open_channel("b")).offset == 1
    await hub.close()
    await storage.close()
