"""What every key-value store promises."""

import asyncio

import pytest

from arauto.errors import Code, StorageError
from arauto.storage.base import KeyValueStore
from tests.contract.storage.backends import Backend
from tests.stored import stored


async def test_a_value_is_there_until_it_is_deleted(kv: KeyValueStore) -> None:
    assert await kv.get("h", "k") is None
    await kv.put("h", "k", b"one")
    assert await kv.get("h", "k") == b"one"
    await kv.put("h", "k", b"two")
    assert await kv.get("h", "k") == b"two"
    assert await kv.delete("h", "k") is True
    assert await kv.delete("h", "k") is False
    assert await kv.get("h", "k") is None


@pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"x" * 5_000_000])
async def test_any_bytes_come_back_whole(kv: KeyValueStore, value: bytes) -> None:
    await kv.put("h", "k", value)
    assert await kv.get("h", "k") == value
    assert await kv.push("h", "k", value) == 1
    assert list(await kv.items("h", "k")) == [value]
    assert await kv.take("h", "k") == value


async def test_take_gives_a_value_once(kv: KeyValueStore) -> None:
    assert await kv.take("h", "k") is None
    await kv.put("h", "k", b"v")
    assert await kv.take("h", "k") == b"v"
    assert await kv.take("h", "k") is None
    assert await kv.get("h", "k") is None


async def test_of_many_concurrent_takers_one_receives_the_value(kv: KeyValueStore) -> None:
    for i in range(10):
        await kv.put("h", f"k{i}", b"v")
        taken = await asyncio.gather(*(kv.take("h", f"k{i}") for _ in range(20)))
        assert sorted(taken, key=bool) == [None] * 19 + [b"v"]


async def test_calls_take_effect_in_the_order_they_were_made(kv: KeyValueStore) -> None:
    calls = []
    for i in range(50):
        calls += [
            kv.put("h", "k", b"%d" % i),
            kv.get("h", "k"),
            kv.take("h", "k"),
            kv.get("h", "k"),
        ]
    answers = await asyncio.gather(*(asyncio.ensure_future(call) for call in calls))
    assert answers[2::4] == [b"%d" % i for i in range(50)], "each take sees the put before it"
    await kv.put("h", "k", b"end")
    assert await kv.get("h", "k") == b"end"


async def test_a_read_made_after_a_write_sees_it_without_awaiting_it_first(
    kv: KeyValueStore,
) -> None:
    for i in range(20):
        _, seen = await asyncio.gather(kv.put("h", "k", b"%d" % i), kv.get("h", "k"))
        assert seen == b"%d" % i


async def test_lists_grow_at_the_end_and_shrink_at_the_start(kv: KeyValueStore) -> None:
    assert list(await kv.items("h", "l")) == []
    for i in range(5):
        assert await kv.push("h", "l", b"%d" % i) == i + 1
    await kv.drop_first("h", "l", 2)
    assert list(await kv.items("h", "l")) == [b"2", b"3", b"4"]
    await kv.drop_first("h", "l", 0)
    assert await kv.push("h", "l", b"5") == 4
    await kv.drop_first("h", "l", 100)
    assert list(await kv.items("h", "l")) == []
    await kv.drop_first("h", "l", 1)
    assert await kv.push("h", "l", b"new") == 1
    assert list(await kv.items("h", "l")) == [b"new"]


async def test_concurrent_pushes_keep_their_order_and_count(kv: KeyValueStore) -> None:
    lengths = await asyncio.gather(*(kv.push("h", "l", b"%d" % i) for i in range(200)))
    assert lengths == list(range(1, 201))
    assert list(await kv.items("h", "l")) == [b"%d" % i for i in range(200)]


async def test_a_value_and_a_list_under_one_key_do_not_see_each_other(kv: KeyValueStore) -> None:
    await kv.put("h", "k", b"value")
    assert list(await kv.items("h", "k")) == []
    await kv.push("h", "k", b"item")
    assert await kv.get("h", "k") == b"value"
    assert await kv.take("h", "k") == b"value"
    assert list(await kv.items("h", "k")) == [b"item"]
    assert await kv.delete("h", "k") is True, "a list alone counts"
    assert list(await kv.items("h", "k")) == []
    await kv.put("h", "k", b"value")
    await kv.push("h", "k", b"item")
    assert await kv.delete("h", "k") is True
    assert await kv.get("h", "k") is None
    assert await kv.push("h", "k", b"again") == 1


PLACES = [
    ("a", "b:c"),
    ("a:b", "c"),
    ("a", "b"),
    ("ab", "c"),
    ("a:1:b", "c"),
    ("1:a", ":b:c"),
    ("A", "b:c"),
    ("a", ""),
    ("", "a"),
    ("a*", "b:c"),
    ("é", "日本:🎈"),
]


async def test_no_hub_reaches_anothers_keys(kv: KeyValueStore) -> None:
    for i, (hub, key) in enumerate(PLACES):
        await kv.put(hub, key, b"v%d" % i)
        await kv.push(hub, key, b"l%d" % i)
    for i, (hub, key) in enumerate(PLACES):
        assert await kv.get(hub, key) == b"v%d" % i
        assert list(await kv.items(hub, key)) == [b"l%d" % i]
    await kv.delete("a", "b:c")
    await kv.take("ab", "c")
    left = [i for i, (hub, key) in enumerate(PLACES) if await kv.get(hub, key) is not None]
    assert left == [1, 2, 4, 5, 6, 7, 8, 9, 10]


async def test_scan_finds_values_of_one_hub_by_prefix_in_key_order(kv: KeyValueStore) -> None:
    keys = ["r:b", "r:a", "r:", "r", "r;", "r:é", "r:\U0010ffff", "R:a", "s:a", "r:*", "r:[a]"]
    for key in keys:
        await kv.put("h", key, key.encode())
        await kv.put("h2", key, b"other hub")
    await kv.push("h", "r:list", b"item")
    found = await stored(kv, "h", "r:", 100)
    assert [key for key, _ in found] == sorted(k for k in keys if k.startswith("r:"))
    assert all(value == key.encode() for key, value in found)
    assert [key for key, _ in await stored(kv, "h", "r:", 2)] == ["r:", "r:*"]
    assert [key for key, _ in await stored(kv, "h", "r:[a", 9)] == ["r:[a]"]
    assert [key for key, _ in await stored(kv, "h", "", 100)] == sorted(keys)
    assert list(await stored(kv, "h", "x", 100)) == []
    assert list(await stored(kv, "h3", "", 100)) == []


async def test_a_scan_of_very_many_comes_in_pages_that_miss_and_repeat_nothing(
    kv: KeyValueStore,
) -> None:
    keys = [f"r:{n:04}" for n in range(1_000)]
    for at in range(0, len(keys), 200):
        await asyncio.gather(*(kv.put("h", key, key.encode()) for key in keys[at : at + 200]))
    pages = [page async for page in kv.scan("h", "r:", 5_000)]
    assert [pair for page in pages for pair in page] == [(key, key.encode()) for key in keys]
    assert max(map(len, pages)) <= 250
    for limit in (0, 1, 250, 251, 1_000):
        assert [key for key, _ in await stored(kv, "h", "r:", limit)] == keys[:limit]


@pytest.mark.parametrize("bad", ["\ud800", "a\0b"])
async def test_text_no_database_can_hold_is_refused_alone(kv: KeyValueStore, bad: str) -> None:
    good = asyncio.ensure_future(kv.put("h", "k", b"v"))
    for call in (kv.put("h", bad, b"v"), kv.put(bad, "k", b"v"), kv.push("h", bad, b"v")):
        with pytest.raises(StorageError) as refused:
            await call
        assert refused.value.code is Code.STORAGE_FAILED
    await good
    assert await kv.get("h", "k") == b"v"


async def test_values_expire_and_can_be_put_again(backend: Backend) -> None:
    storage = await backend.open()
    kv, clock = storage.kv, backend.clock
    await kv.put("h", "short", b"s", ttl_s=10)
    await kv.put("h", "long", b"l", ttl_s=1000)
    await kv.put("h", "for ever", b"e")
    clock.advance(9.999)
    assert await kv.get("h", "short") == b"s"
    clock.advance(0.001)
    assert await kv.get("h", "short") is None
    assert [key for key, _ in await stored(kv, "h", "", 9)] == ["for ever", "long"]
    assert await kv.take("h", "short") is None
    await kv.put("h", "short", b"again", ttl_s=5)
    assert await kv.get("h", "short") == b"again"
    clock.advance(5)
    assert await kv.delete("h", "short") is False, "what has expired is not there"
    await kv.put("h", "long", b"kept")
    clock.advance(100_000)
    await kv.put("h", "other", b"o")
    assert await kv.get("h", "long") == b"kept", "putting without an expiry removes the old one"
    assert await kv.get("h", "for ever") == b"e"
    await storage.close()


async def test_values_and_lists_are_there_after_opening_again(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    await storage.kv.put("h", "k", b"v", ttl_s=10)
    await storage.kv.push("h", "l", b"1")
    await storage.kv.push("h", "l", b"2")
    await storage.close()
    storage = await durable_backend.open()
    assert await storage.kv.get("h", "k") == b"v"
    assert await storage.kv.push("h", "l", b"3") == 3
    assert list(await storage.kv.items("h", "l")) == [b"1", b"2", b"3"]
    await storage.close()
    with pytest.raises(StorageError) as refused:
        await storage.kv.put("h", "k", b"late")
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
