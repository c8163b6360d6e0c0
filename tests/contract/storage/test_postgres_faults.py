"""PostgreSQL dies, restarts, loses connections under load: nothing is acknowledged falsely or doubled."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import Storage, WriteLimits
from arauto.storage.postgres import open_postgres
from arauto.testing.clock import FakeClock
from tests.contract.storage.journal_helpers import append_all, message
from tests.services.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[PostgresServer]:
    """A server of this module's own, because its tests kill it."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
async def url(mortal_server: PostgresServer) -> str:
    return await mortal_server.new_schema()


class Load:
    """Appends without pause, some in flight at any time, and keeps the answers."""

    def __init__(self, storage: Storage, in_flight: int = 200) -> None:
        self._storage = storage
        self._in_flight = in_flight
        self._sent = 0
        self.acked: list[int] = []
        self.failed: dict[int, StorageError] = {}
        self.kv_acked: list[int] = []
        self._news = asyncio.Event()

    def _answer(self, offset: int, error: StorageError | None) -> None:
        if error is None:
            self.acked.append(offset)
        else:
            self.failed[offset] = error
        self._news.set()

    async def run(self) -> None:
        while True:
            while self._sent - len(self.acked) - len(self.failed) < self._in_flight:
                self._sent += 1
                self._storage.journal.append(message(self._sent), partial(self._answer, self._sent))
            self._news.clear()
            await self._news.wait()

    async def run_kv(self) -> None:
        n = 0
        while True:
            n += 1
            try:
                if await self._storage.kv.push("h", "list", b"%d" % n):
                    self.kv_acked.append(n)
            except StorageError:
                n -= 1  # the same again: it must not have happened

    async def until_acked(self, more: int) -> None:
        goal = len(self.acked) + more
        while len(self.acked) < goal:
            await self._news.wait()
            await asyncio.sleep(0)


@asynccontextmanager
async def under_load(storage: Storage) -> AsyncIterator[Load]:
    load = Load(storage)
    tasks = [asyncio.create_task(load.run()), asyncio.create_task(load.run_kv())]
    try:
        yield load
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await storage.journal.flush()


async def check(storage: Storage, load: Load) -> None:
    rows = await storage.journal.read(0, 10_000_000)
    assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1)), "numbered without holes"
    stored = [entry.offset for _, entry in rows]
    assert stored == sorted(set(stored)), "in order, none twice"
    assert load.acked == sorted(load.acked), "acknowledged in order"
    assert set(load.acked) == set(stored), "acknowledged and stored are the same"
    assert not set(load.failed) & set(stored), "what failed was not written"
    pushed = [int(item) for item in await storage.kv.items("h", "list")]
    assert pushed == list(range(1, len(pushed) + 1)), "no push twice"
    assert len(load.kv_acked) <= len(pushed) <= len(load.kv_acked) + 1, (
        "one may be cancelled unheard"
    )


Trouble = Callable[[PostgresServer, str], Awaitable[None]]


async def _kill_server(server: PostgresServer, url: str) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def _restart_server(server: PostgresServer, url: str) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)


async def _end_sessions(server: PostgresServer, url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'arauto' AND pid <> pg_backend_pid()"
    )
    await connection.close()


@pytest.mark.parametrize("trouble", [_kill_server, _restart_server, _end_sessions])
async def test_what_was_acknowledged_is_exactly_what_is_stored(
    mortal_server: PostgresServer, url: str, trouble: Trouble
) -> None:
    storage = await open_postgres(url, "n", FakeClock(), WriteLimits(commit_entries_max=50))
    async with under_load(storage) as load:
        for _ in range(4):
            await load.until_acked(500)
            await trouble(mortal_server, url)
            await load.until_acked(100)
    await check(storage, load)
    assert storage.counters.reopened >= 4
    await storage.close()


class Proxy:
    """Stands between the node and the server, and cuts the connection at a chosen message, once.

    What is on its way when the message is seen does not arrive, on either side.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self.directory = Path(tempfile.mkdtemp(prefix="arauto-proxy-"))
        self.cut_request = b""
        self.cut_answer = b""
        self.cuts = 0
        self.stays_cut = False
        """Whether nobody gets through any more after a cut."""

    async def __aenter__(self) -> "Proxy":
        self._listener = await asyncio.start_unix_server(
            self._connected, self.directory / ".s.PGSQL.5432"
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        shutil.rmtree(self.directory)

    def url(self, url: str) -> str:
        return url.replace(str(self._server.directory), str(self.directory))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cuts and self.stays_cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there = await asyncio.open_unix_connection(self._server.directory / ".s.PGSQL.5432")
        try:
            requests = asyncio.ensure_future(self._pass(reader, there[1], "cut_request"))
            answers = asyncio.ensure_future(self._pass(there[0], writer, "cut_answer"))
            await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
            for direction in (requests, answers):
                direction.cancel()
        finally:
            writer.transport.abort()
            there[1].transport.abort()
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: str
    ) -> None:
        while data := await reader.read(1 << 16):
            marker = getattr(self, cut)
            if marker and marker in data:
                setattr(self, cut, b"")
                self.cuts += 1
                return
            writer.write(data)


@pytest.mark.parametrize(
    ("cut", "marker", "with_values"),
    [
        ("cut_answer", b"COPY 3\0", False),  # the rows are in, the node does not hear of it
        ("cut_request", b"PGCOPY\n", False),  # the rows never arrive
        ("cut_answer", b"COMMIT\0", True),  # the transaction is in, the node does not hear of it
        ("cut_request", b"COMMIT\0", True),  # the request to commit never arrives
        ("cut_answer", b"COPY 3\0", True),  # in the middle of a transaction
    ],
)
async def test_a_commit_whose_answer_was_lost_is_neither_doubled_nor_denied(
    mortal_server: PostgresServer, url: str, cut: str, marker: bytes, with_values: bool
) -> None:
    async with Proxy(mortal_server) as proxy:
        storage = await open_postgres(proxy.url(url), "n", FakeClock())
        await append_all(storage.journal, [message(1)])
        assert await storage.kv.push("h", "l", b"0") == 1
        setattr(proxy, cut, marker)
        pushes = []
        if with_values:
            pushes = [asyncio.ensure_future(storage.kv.push("h", "l", b"%d" % i)) for i in (1, 2)]
            await asyncio.sleep(0)  # they are queued now, for the same commit as the entries
        outcomes = await append_all(storage.journal, [message(i) for i in (2, 3, 4)])
        assert proxy.cuts == 1
        assert outcomes == [None] * 3
        assert [await push for push in pushes] == [2, 3][: len(pushes)]
        rows = await storage.journal.read(0, 10)
        assert [(seq, e.offset) for seq, e in rows] == [(i, i) for i in (1, 2, 3, 4)]
        assert len(await storage.kv.items("h", "l")) == 1 + len(pushes)
        assert storage.counters.reopened == 1
        await storage.close()


def appended(storage: Storage, offset: int) -> asyncio.Future[StorageError | None]:
    """Append without waiting for anything else: what its `done` is told."""
    told: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    storage.journal.append(message(offset), told.set_result)
    return told


async def test_only_the_commit_in_doubt_waits_for_a_server_that_stays_away(
    mortal_server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is behind it used to wait without an answer, however long."""
    monkeypatch.setattr("arauto.storage.postgres.writer._PATIENCE_S", 0.2)
    async with Proxy(mortal_server) as proxy, asyncio.timeout(30):
        storage = await open_postgres(proxy.url(url), "n", FakeClock())
        await append_all(storage.journal, [message(1)])
        proxy.cut_answer, proxy.stays_cut = b"COPY 1\0", True
        in_doubt = appended(storage, 2)
        await asyncio.sleep(0)  # handed over, so that what follows is another commit's
        through = asyncio.ensure_future(storage.journal.flush())
        behind = await appended(storage, 3)
        later = await appended(storage, 4)
        with pytest.raises(StorageError):
            await storage.kv.put("h", "k", b"v")
        assert proxy.cuts == 1
        assert [e.code for e in (behind, later) if e] == [Code.STORAGE_UNAVAILABLE] * 2
        assert not in_doubt.done()
        assert not through.done(), "a flush is over when nothing before it is open any more"
        proxy.stays_cut = False
        assert await in_doubt is None
        await through
        assert await appended(storage, 5) is None
        rows = await storage.journal.read(0, 10)
        assert [(seq, e.offset) for seq, e in rows] == [(1, 1), (2, 2), (3, 5)]
        await storage.close()


async def test_writes_fail_while_the_server_is_away_and_succeed_when_it_is_back(
    mortal_server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.storage.postgres.writer._PATIENCE_S", 0.2)
    storage = await open_postgres(url, "n", FakeClock())
    await append_all(storage.journal, [message(1)])
    await asyncio.to_thread(mortal_server.stop)
    try:
        outcomes = await append_all(storage.journal, [message(i) for i in range(2, 12)])
        assert {e.code for e in outcomes if e} == {Code.STORAGE_UNAVAILABLE}
        assert len(outcomes) == 10
        for call in (storage.kv.put("h", "k", b"v"), storage.kv.get("h", "k")):
            with pytest.raises(StorageError) as refused:
                await call
            assert refused.value.code is Code.STORAGE_UNAVAILABLE
    finally:
        await asyncio.to_thread(mortal_server.start)
    while (await append_all(storage.journal, [message(20)]))[0] is not None:
        pass
    rows = await storage.journal.read(0, 100)
    assert [(seq, e.offset) for seq, e in rows] == [(1, 1), (2, 20)]
    assert storage.counters.failed >= 10
    await storage.close()


async def test_closing_while_the_server_is_away_ends_and_answers(
    mortal_server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arauto.storage.postgres.opening._CLOSE_GRACE_S", 0.1)
    storage = await open_postgres(url, "n", FakeClock())
    await asyncio.to_thread(mortal_server.stop)
    try:
        outcomes: list[StorageError | None] = []
        storage.journal.append(message(1), outcomes.append)
        await storage.close()
        assert [e.code for e in outcomes if e] == [Code.STORAGE_UNAVAILABLE]
    finally:
        await asyncio.to_thread(mortal_server.start)


async def test_a_database_that_is_read_only_says_so_and_recovers(url: str) -> None:
    storage = await open_postgres(url, "n", FakeClock())
    writer = storage.journal._engine._writer  # type: ignore[attr-defined]
    await writer._link.connection.execute("SET default_transaction_read_only = on")
    (refused,) = await append_all(storage.journal, [message(1)])
    assert refused is not None
    assert refused.code is Code.STORAGE_READ_ONLY
    await writer._link.connection.execute("SET default_transaction_read_only = off")
    assert await append_all(storage.journal, [message(2)]) == [None]
    assert [(s, e.offset) for s, e in await storage.journal.read(0, 9)] == [(1, 2)]
    await storage.close()


async def test_nodes_that_lock_each_others_values_both_get_through(url: str) -> None:
    one = await open_postgres(url, "one", FakeClock())
    two = await open_postgres(url, "two", FakeClock())
    await asyncio.gather(*(one.kv.push("h", f"k{i}", b"0") for i in range(20)))
    for _ in range(5):
        forth = [one.kv.push("h", f"k{i}", b"1") for i in range(20)]
        back = [two.kv.push("h", f"k{i}", b"2") for i in reversed(range(20))]
        await asyncio.gather(*forth, *back)
    assert [len(await one.kv.items("h", f"k{i}")) for i in range(20)] == [11] * 20
    await one.close()
    await two.close()


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/x", "postgresql://u:hunter2@/x?host=/nonexistent"]
)
async def test_a_server_that_is_not_there_is_reported_without_the_password(url: str) -> None:
    with pytest.raises(StorageError) as refused:
        await open_postgres(url, "n", FakeClock())
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert "hunter2" not in str(refused.value)
