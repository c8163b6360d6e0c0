"""What every store of settings promises."""

import pytest

from arauto.errors import StorageError
from arauto.storage.base import Storage
from tests.contract.storage.backends import Backend


async def test_settings_are_put_got_and_deleted(storage: Storage) -> None:
    settings = storage.settings
    assert await settings.get("rules", "shop", "r") is None
    await settings.put("rules", "shop", "r", b'{"public":true}')
    await settings.put("hub", "shop", "", b"{}")
    assert await settings.get("rules", "shop", "r") == b'{"public":true}'
    await settings.put("rules", "shop", "r", b"{}")
    assert await settings.get("rules", "shop", "r") == b"{}"
    assert await settings.delete("rules", "shop", "r") is True
    assert await settings.delete("rules", "shop", "r") is False
    assert await settings.get("hub", "shop", "") == b"{}"


async def test_kinds_hubs_and_ids_are_apart(storage: Storage) -> None:
    places = [
        ("rules", "a", "b"),
        ("rules", "a:b", ""),
        ("namespace", "a", "b"),
        ("rules", "ab", ""),
    ]
    for i, place in enumerate(places):
        await storage.settings.put(*place, b"%d" % i)
    for i, place in enumerate(places):
        assert await storage.settings.get(*place) == b"%d" % i


IDS = ["B", "a", "a-1", "a.", "b", "ä", "日", "🎈"]


async def test_lists_come_in_code_point_order_and_in_pages(storage: Storage) -> None:
    settings = storage.settings
    everything = sorted((hub, id) for hub in ("H", "h", "h-1", "é") for id in IDS)
    for hub, id in reversed(everything):
        await settings.put("rules", hub, id, f"{hub}/{id}".encode())
        await settings.put("channel", hub, id, b"other kind")
    seen: list[tuple[str, str]] = []
    while True:
        page = await settings.list("rules", None, after=seen[-1] if seen else ("", ""), limit=5)
        if not page:
            break
        assert len(page) <= 5
        assert all(value == f"{hub}/{id}".encode() for hub, id, value in page)
        seen += [(hub, id) for hub, id, _ in page]
    assert seen == everything
    one = await settings.list("rules", "h", after=("h", "a-1"), limit=3)
    assert [(hub, id) for hub, id, _ in one] == [("h", "a."), ("h", "b"), ("h", "ä")]
    assert [id for _, id, _ in await settings.list("rules", "h")] == IDS
    assert list(await settings.list("rules", "nobody")) == []
    assert len(await settings.list("rules", None, limit=1000)) == len(everything)


async def test_load_gives_everything_of_one_hub(storage: Storage) -> None:
    await storage.settings.put("hub", "shop", "", b"1")
    await storage.settings.put("rules", "shop", "r", b"2")
    await storage.settings.put("channel", "shop", "stock:1", b"3")
    await storage.settings.put("hub", "shop2", "", b"other")
    assert list(await storage.settings.load("shop")) == [
        ("channel", "stock:1", b"3"),
        ("hub", "", b"1"),
        ("rules", "r", b"2"),
    ]
    assert list(await storage.settings.load("nobody")) == []


async def test_text_no_database_can_hold_is_refused(storage: Storage) -> None:
    for bad in ("\ud800", "a\0"):
        with pytest.raises(StorageError):
            await storage.settings.put("rules", "shop", bad, b"{}")


async def test_settings_are_there_after_opening_again(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    await storage.settings.put("hub", "shop", "", b"{}")
    await storage.close()
    storage = await durable_backend.open()
    assert await storage.settings.get("hub", "shop", "") == b"{}"
    await storage.close()
