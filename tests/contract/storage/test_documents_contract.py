"""What every store of document snapshots promises."""

import pytest

from arauto.errors import StorageError
from arauto.storage.base import Snapshot, Storage
from tests.contract.storage.backends import Backend


async def test_the_latest_snapshot_is_kept(storage: Storage) -> None:
    documents = storage.documents
    assert await documents.load("shop", "d:1") is None
    await documents.save("shop", "d:1", Snapshot(1, b"{}"))
    await documents.save("shop", "d:1", Snapshot(2**63 - 1, b"\0\xff" * 100_000))
    assert await documents.load("shop", "d:1") == Snapshot(2**63 - 1, b"\0\xff" * 100_000)
    assert await documents.delete("shop", "d:1") is True
    assert await documents.delete("shop", "d:1") is False
    assert await documents.load("shop", "d:1") is None


async def test_hubs_and_channels_are_apart(storage: Storage) -> None:
    places = [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("ab", "c"), ("A", "b")]
    for i, place in enumerate(places):
        await storage.documents.save(*place, Snapshot(i, b"%d" % i))
    await storage.documents.delete("a", "b")
    found = [await storage.documents.load(*place) for place in places]
    assert [s.version if s else None for s in found] == [0, 1, None, 3, 4]


async def test_text_no_database_can_hold_is_refused(storage: Storage) -> None:
    for bad in ("\ud800", "a\0"):
        with pytest.raises(StorageError):
            await storage.documents.save("shop", bad, Snapshot(1, b""))


async def test_snapshots_are_there_after_opening_again(durable_backend: Backend) -> None:
    storage = await durable_backend.open()
    await storage.documents.save("shop", "d:1", Snapshot(3, b"state"))
    await storage.close()
    storage = await durable_backend.open()
    assert await storage.documents.load("shop", "d:1") == Snapshot(3, b"state")
    await storage.close()
