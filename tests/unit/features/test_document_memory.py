"""Open documents are bounded in bytes, per hub and per node: opening and growing are refused."""

import sys
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.channel import DocumentChannel
from arauto.hub.hub import Hub
from arauto.hub.share import Pool
from arauto.settings import HubSettings, Quotas
from arauto.storage.memory import MemoryKeyValueStore
from tests.unit.hub.world import NOBODY, World


class Kv(MemoryKeyValueStore):
    fails = False

    async def push(self, hub: str, key: str, value: bytes) -> int:
        if self.fails:
            raise StorageError(Code.STORAGE_FULL, "the disk is full")
        return await super().push(hub, key, value)


class Case:
    def __init__(self, *, hub_bytes: int = 0, node_bytes: int = 0) -> None:
        quotas = Quotas(documents_bytes_max=hub_bytes)
        self.world = World(settings=HubSettings(quotas=quotas))
        self.kv = Kv(self.world.clock)
        object.__setattr__(self.world.storage, "kv", self.kv)
        pools = replace(self.world.env.pools, documents=Pool(node_bytes, leaves_room=True))
        self.world.env = replace(self.world.env, pools=pools)
        self.hubs: dict[str, Hub] = {}

    def hub(self, name: str = "shop") -> Hub:
        if name not in self.hubs:
            self.hubs[name] = self.world.hub(name)
        return self.hubs[name]

    async def open(self, name: str, hub: str = "shop") -> DocumentChannel:
        channel = await self.hub(hub).open_channel(name)
        assert isinstance(channel, DocumentChannel)
        return channel

    async def write(self, channel: DocumentChannel, path: str, size_bytes: int) -> int:
        """Set a member to a text of that length; return the error's code, 0 if it is done."""
        return await self.change(channel, Operation(op="add", path=path, value="x" * size_bytes))

    async def change(self, channel: DocumentChannel, *operations: Operation) -> int:
        outcome: list[ArautoError | None] = []
        channel.change(
            operations, -1, NOBODY, lambda version, error, visited: outcome.append(error)
        )
        await self.world.settle()
        [error] = outcome
        return int(error.code) if error is not None else 0

    @property
    def used_bytes(self) -> int:
        return self.hub().holdings.documents.used_bytes


def memory_of(channel: DocumentChannel) -> int:
    """What Python takes for the document, after it was encoded for a reader and each part was rounded up."""
    value = channel._document.value
    msgspec.msgpack.encode(value)
    size_bytes, level = 0, [value]
    while level:
        size_bytes += sum(-(-sys.getsizeof(item) // 16) * 16 for item in level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend([*item, *item.values()])
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return size_bytes


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(["a" * 20_000], id="letters"),
        pytest.param(["\N{GRINNING FACE}" + "a" * 20_000], id="one-emoji-among-letters"),
        pytest.param(["\N{SNOWMAN}" * 20_000], id="two-bytes-a-character"),
        pytest.param(["é" + "a" * 20_000], id="latin-text"),
        pytest.param(["ção"] * 500, id="short-words"),
        pytest.param([b"a"] * 500, id="short-bytes"),
        pytest.param({"\N{GRINNING FACE}" + "a" * 20_000: 0}, id="a-wide-name"),
        pytest.param([{"a": number + 1_000} for number in range(500)], id="objects-of-one-member"),
        pytest.param([dict.fromkeys("abcdef") for _ in range(500)], id="objects-of-six-members"),
        pytest.param({str(number): 0 for number in range(2_731)}, id="a-large-object"),
        pytest.param([[] for _ in range(500)], id="empty-arrays"),
        pytest.param([[[0]] for _ in range(500)], id="arrays-in-arrays"),
        pytest.param([2**62] * 500, id="large-numbers"),
        pytest.param([0.5] * 500, id="fractions"),
    ],
)
async def test_what_is_counted_for_a_document_is_what_it_takes_or_more(value: Any) -> None:
    case = Case()
    channel = await case.open("doc:1")
    assert await case.change(channel, Operation(op="add", path="/a", value=value)) == 0
    assert memory_of(channel) <= case.used_bytes <= 2.5 * memory_of(channel)


async def test_an_object_that_lost_its_members_keeps_no_memory_for_them() -> None:
    case = Case()
    channel = await case.open("doc:1")
    many = {str(number): 0 for number in range(3_000)}
    assert await case.change(channel, Operation(op="add", path="/a", value=many)) == 0
    for first in range(0, 2_990, 1_000):
        names = [str(number) for number in range(first, min(first + 1_000, 2_990))]
        removals = [Operation(op="remove", path=f"/a/{name}") for name in names]
        assert await case.change(channel, *removals) == 0
        assert memory_of(channel) <= case.used_bytes
    assert channel._document.value == {"a": dict.fromkeys(list(many)[-10:], 0)}


async def test_a_change_that_failed_half_way_leaves_no_memory_behind() -> None:
    case = Case()
    channel = await case.open("doc:1")
    additions = [Operation(op="add", path=f"/{number}", value=0) for number in range(900)]
    failing = Operation(op="test", path="/none", value=0)
    assert await case.change(channel, *additions, failing) == Code.TEST_FAILED
    assert memory_of(channel) <= max(case.used_bytes, 64)


async def test_a_document_that_would_outgrow_the_hubs_bytes_stays_as_it_was() -> None:
    case = Case(hub_bytes=30_000)
    one, other = await case.open("doc:1"), await case.open("doc:2")
    assert await case.write(one, "/a", 10_000) == 0
    assert await case.write(other, "/a", 10_000) == 0
    assert await case.write(one, "/b", 10_000) == Code.DOCUMENTS_FULL
    assert one.version == 1
    assert await case.write(one, "/a", 5_000) == 0, "shrinking is always allowed"
    assert await case.write(one, "/a", 12_000) == 0
    assert 22_000 < case.used_bytes <= 30_000


async def test_an_opening_for_which_there_is_no_room_is_refused_and_takes_nothing() -> None:
    case = Case(hub_bytes=25_000)
    assert await case.write(await case.open("doc:1"), "/a", 20_000) == 0
    await case.hub()._close_channel(await case.open("doc:1"))
    assert case.used_bytes == 0
    assert await case.write(await case.open("doc:2"), "/a", 20_000) == 0
    before_bytes = case.used_bytes
    with pytest.raises(ArautoError) as refused:
        await case.open("doc:1")
    assert refused.value.code is Code.DOCUMENTS_FULL
    assert refused.value.retryable
    assert case.used_bytes == before_bytes
    await case.hub()._close_channel(await case.open("doc:2"))
    assert (await case.open("doc:1")).version == 1


async def test_a_change_that_could_not_be_stored_takes_and_gives_no_bytes() -> None:
    case = Case(hub_bytes=30_000)
    channel = await case.open("doc:1")
    assert await case.write(channel, "/a", 10_000) == 0
    before_bytes = case.used_bytes
    case.kv.fails = True
    for size_bytes in (100, 15_000):
        assert await case.write(channel, "/a", size_bytes) == Code.STORAGE_FULL
        assert case.used_bytes == before_bytes


async def test_a_hub_with_very_large_documents_leaves_room_to_the_others() -> None:
    case = Case(node_bytes=100_000)
    large = await case.open("doc:1", "large")
    codes = [await case.write(large, f"/{number}", 10_000) for number in range(10)]
    assert codes == [0] * 4 + [Code.DOCUMENTS_FULL] * 6
    small = await case.open("doc:1", "small")
    assert await case.write(small, "/a", 20_000) == 0
    await case.hub("large").close()
    assert await case.write(small, "/b", 20_000) == 0


async def test_a_document_that_opens_while_its_hub_closes_keeps_nothing_of_the_pool() -> None:
    case = Case(node_bytes=1_000_000)
    hub = case.hub()
    assert await case.write(await case.open("doc:1"), "/a", 10_000) == 0
    await hub._close_channel(await case.open("doc:1"))
    channel = DocumentChannel(hub, "doc:1")
    await channel.open()
    await hub.close()
    await channel.close()
    pool = case.world.env.pools.documents
    assert (case.used_bytes, pool.granted_bytes, pool.shares) == (0, 0, {})
