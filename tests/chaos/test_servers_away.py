"""PostgreSQL and Redis go away under a running node and come back: refused meanwhile, nothing lost."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from arauto.codec.events import Ack, PublishItem, PublishRequest
from arauto.errors import Code
from arauto.storage.postgres import open_postgres
from arauto.testing.clock import FakeClock
from tests.chaos.bystander import Bystander, put_free_namespace
from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.link import Link, open_link
from tests.chaos.load import Load, Plan
from tests.chaos.processes import NodeProcess
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer

pytestmark = pytest.mark.slow


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, because it is killed."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.remove()


async def database(server: PostgresServer) -> dict[str, Any]:
    """A configuration that keeps everything in a new database of the server."""
    connection = await asyncpg.connect(server.url())
    await connection.execute("CREATE DATABASE arauto")
    await connection.close()
    url = f"postgresql://arauto@/arauto?host={server.directory}"
    storage = await open_postgres(url, "node-1", FakeClock())
    await put_free_namespace(storage)
    await storage.close()
    login = {"host": str(server.directory), "user": "arauto", "sslMode": "disable"}
    return {"kind": "postgres", "postgres": login}


class Probe:
    """Publishes to a stored channel, one message after the other."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def is_taken(self) -> bool:
        """Whether one message was stored; any refusal must say that the store is away."""
        item = PublishItem(channel="probe", payload=b"?")
        ack = await self._link.call(PublishRequest(items=(item,)))
        assert isinstance(ack, Ack), ack
        error = ack.results[0].error
        assert error is None or error.code == Code.STORAGE_UNAVAILABLE
        return error is None

    async def until_refused(self, more: int) -> None:
        while more:
            more -= not await self.is_taken()


async def check_all(node: NodeProcess, load: Load) -> int:
    await load.check()
    await load.check_documents()
    assert node.complaints() == []
    assert [link.close_code for link in load.links if link.close_code] == [], "nobody was sent away"
    await node.kill()
    await node.start()
    return ((await load.check(again=True)) + (await load.check_documents())).ok


@pytest.mark.postgres
@within(180)
async def test_while_postgresql_is_away_publishes_are_refused_and_nothing_acknowledged_is_lost(
    postgres: PostgresServer, start_process: StartProcess, say: Say
) -> None:
    node = await start_process(storage=await database(postgres))
    load = Load(node, Plan(publishers=2, in_flight=64))
    bystander = Bystander(node)
    await bystander.start()
    probe = Probe(await open_link(node.url))
    assert await probe.is_taken()
    load.start()
    try:
        end: Callable[[], None]
        for end in (postgres.kill, postgres.stop):
            await load.until_acked(300)
            await asyncio.to_thread(end)
            # Not the load's own: all it has in flight may be in one commit, and nobody can tell what
            # became of that before the server is back.
            await probe.until_refused(3)
            await bystander.check()
            await bystander.check_newcomer()
            await asyncio.to_thread(postgres.start)
            await load.until_acked(300)
        await load.stop()
        ok = await check_all(node, load)
    finally:
        await load.abandon()
        await bystander.close()
    assert set(load.codes) <= {Code.STORAGE_UNAVAILABLE}
    say(
        f"PostgreSQL killed and restarted: {ok} ok, 0 lost, 0 duplicated, {load.unanswered} "
        f"indefinite, {load.refusals} refused with 6002"
    )


@pytest.mark.redis
@within(180)
async def test_while_redis_is_away_changes_are_refused_and_nothing_acknowledged_is_lost(
    redis: RedisServer, start_process: StartProcess, say: Say
) -> None:
    node = await start_process(keyValue={"kind": "redis"}, redis={"address": redis.url})
    load = Load(node, Plan(publishers=1, in_flight=8, changers=4))
    load.start()

    def changes() -> int:
        return sum(len(book.acked) for book in load.documents.values())

    try:
        for _ in range(3):
            goal = changes() + 100
            await load.until(lambda goal=goal: changes() >= goal)  # type: ignore[misc]
            await asyncio.to_thread(redis.kill)
            await load.until_refused(50)
            messages = load.acks - changes()
            await load.until(lambda m=messages: load.acks - changes() > m)  # type: ignore[misc]
            await asyncio.to_thread(redis.start)
        goal = changes() + 100
        await load.until(lambda: changes() >= goal)
        await load.stop()
        ok = await check_all(node, load)
    finally:
        await load.abandon()
    assert set(load.codes) == {Code.STORAGE_UNAVAILABLE}
    say(
        f"Redis killed × 3: {ok} ok, 0 lost, 0 duplicated, {load.unanswered} indefinite, "
        f"{load.refusals} changes refused with 6002; messages in SQLite went on"
    )
