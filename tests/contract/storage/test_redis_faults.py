"""Redis dies, restarts or is set up carelessly."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import KeyValueStore, StorageCounters, WriteLimits
from arauto.storage.redis import open_redis
from tests.services.redis import RedisServer
from tests.stored import stored

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[RedisServer]:
    """A server of this module's own, because its tests kill it."""
    server = RedisServer()
    yield server
    server.remove()


@pytest.fixture
async def kv(mortal_server: RedisServer) -> AsyncIterator[KeyValueStore]:
    mortal_server.flush()
    store = await open_redis(mortal_server.url)
    yield store
    await store.close()


async def test_what_was_confirmed_survives_killing_the_server(
    mortal_server: RedisServer, kv: KeyValueStore
) -> None:
    await asyncio.gather(*(kv.put("h", f"k{i}", b"%d" % i) for i in range(100)))
    for i in range(50):
        await kv.push("h", "list", b"%d" % i)
    await asyncio.to_thread(mortal_server.kill)
    with pytest.raises(StorageError) as refused:
        await kv.get("h", "k1")
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    await asyncio.to_thread(mortal_server.start)
    assert [await kv.get("h", f"k{i}") for i in range(100)] == [b"%d" % i for i in range(100)]
    assert list(await kv.items("h", "list")) == [b"%d" % i for i in range(50)]


async def test_a_push_is_never_repeated_by_itself(
    mortal_server: RedisServer, kv: KeyValueStore
) -> None:
    confirmed = 0
    for _ in range(3):
        pushes = [asyncio.ensure_future(kv.push("h", "l", b"x")) for _ in range(500)]
        await asyncio.wait(pushes, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(mortal_server.kill)
        answers = await asyncio.gather(*pushes, return_exceptions=True)
        confirmed += sum(isinstance(answer, int) for answer in answers)
        assert all(isinstance(answer, int | StorageError) for answer in answers)
        await asyncio.to_thread(mortal_server.start)
    assert confirmed <= len(await kv.items("h", "l")) <= 1500


async def test_values_expire_by_the_servers_clock(kv: KeyValueStore) -> None:
    await kv.put("h", "gone", b"v", ttl_s=0.001)
    while await kv.get("h", "gone") is not None:
        pass
    await kv.put("h", "kept", b"v", ttl_s=1000)
    assert await kv.get("h", "kept") == b"v"
    await kv.put("h", "kept", b"w")
    assert [pair async for pair in _pairs(kv)] == [("kept", b"w")]


async def _pairs(kv: KeyValueStore) -> AsyncIterator[tuple[str, bytes | None]]:
    for pair in await stored(kv, "h", "", 10):
        yield pair


async def test_too_many_waiting_commands_are_refused(mortal_server: RedisServer) -> None:
    counters = StorageCounters()
    kv = await open_redis(mortal_server.url, WriteLimits(pending_entries_max=10), counters)
    answers = await asyncio.gather(
        *(kv.put(f"h{i}", "k", b"v") for i in range(30)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, StorageError)]
    assert len(refused) == 20
    assert {error.code for error in refused} == {Code.STORAGE_UNAVAILABLE}
    assert (counters.refused, counters.refused_shares) == (20, 0)
    await kv.close()
    with pytest.raises(StorageError, match="closed"):
        await kv.get("h", "k")


async def test_a_hub_has_no_more_commands_waiting_than_it_leaves_to_others(
    mortal_server: RedisServer,
) -> None:
    counters = StorageCounters()
    kv = await open_redis(mortal_server.url, WriteLimits(pending_entries_max=12), counters)
    for _ in range(2):
        answers = await asyncio.gather(
            *(kv.put(hub, f"k{i}", b"v") for hub in ("greedy", "modest") for i in range(8)),
            return_exceptions=True,
        )
        assert [answer is None for answer in answers] == (
            [True] * 6 + [False] * 2 + [True] * 3 + [False] * 5
        )
        refused = [answer for answer in answers if isinstance(answer, StorageError)]
        assert {error.code for error in refused} == {Code.STORAGE_SHARE_FULL}
    assert (counters.refused, counters.refused_shares) == (14, 14)
    await kv.close()


async def test_a_durable_server_is_opened_without_a_warning(
    kv: KeyValueStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert "Redis" not in caplog.text


async def test_a_server_that_may_forget_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    server = await asyncio.to_thread(RedisServer, durable=False)
    try:
        await (await open_redis(server.url)).close()
    finally:
        await asyncio.to_thread(server.remove)
    assert "may forget confirmed writes" in caplog.text
    assert "(now no and always)" in caplog.text


async def test_a_server_that_is_not_there_is_reported_without_the_password() -> None:
    with pytest.raises(StorageError) as refused:
        await open_redis("redis://:hunter2@127.0.0.1:1/0")
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert "hunter2" not in str(refused.value)


async def test_a_full_server_says_so(mortal_server: RedisServer, kv: KeyValueStore) -> None:
    assert mortal_server.ask(b"CONFIG SET maxmemory 1\r\n") == b"+OK\r\n"
    try:
        with pytest.raises(StorageError) as refused:
            await kv.put("h", "k", b"v")
    finally:
        mortal_server.ask(b"CONFIG SET maxmemory 0\r\n")
    assert refused.value.code is Code.STORAGE_FULL
    await kv.put("h", "k", b"v")
