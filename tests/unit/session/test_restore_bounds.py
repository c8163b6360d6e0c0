"""How much the sessions of a hub may have written to be restored, and what becomes of the rest."""

import pytest
import structlog

from arauto.errors import ArautoError, Code, StorageError
from arauto.model import Identity, Serial
from arauto.session.restore import Restorer, SessionState
from arauto.storage.memory import MemoryKeyValueStore
from arauto.testing.clock import FakeClock
from tests.stored import stored

MIB = 1_024 * 1_024


class Keys(MemoryKeyValueStore):
    """Counts what is written, and refuses it when told to."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.written_bytes = 0
        self.error: StorageError | None = None
        self.is_away = False

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        if self.error is not None:
            raise self.error
        self.written_bytes += len(value)
        await super().put(hub, key, value, ttl_s)

    async def delete(self, hub: str, key: str) -> bool:
        if self.is_away:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the store is away")
        return await super().delete(hub, key)


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.keys = Keys(self.clock)
        self.restorer = Restorer(self.keys, self.clock, 120)

    async def save(self, key: str, names_len: int, hub: str = "shop") -> None:
        names: dict[str, Serial | None] = {f"{n:04}" * 60: None for n in range(names_len)}
        await self.restorer.save(hub, key, SessionState("s", Identity("ann"), names))

    async def works(self, key: str, hub: str = "shop") -> bool:
        try:
            await self.restorer.take(hub, key)
        except ArautoError as error:
            if error.code is not Code.BAD_RESTORE_KEY:
                raise
            return False
        return True


async def test_sessions_with_many_subscriptions_that_come_and_go_write_no_more_than_their_hub_may() -> (
    None
):
    """150 of them once wrote 185 MB in ten seconds."""
    scene = Scene()
    for turn in range(10):
        for session in range(150):
            await scene.save(f"{turn}-{session}", 1_000)
        scene.clock.advance(1)
    assert 30 * MIB < scene.keys.written_bytes < (32 + 10 * 2 + 1) * MIB
    assert scene.restorer.left_out > 1_000
    assert await scene.works("0-0")
    assert not await scene.works("9-149"), "it was not kept, and its client subscribes by name"
    await scene.save("other", 1_000, "bank")
    assert await scene.works("other", "bank"), "a hub has its own measure"
    scene.clock.advance(1)
    await scene.save("later", 1_000)
    assert await scene.works("later")


async def test_ordinary_states_are_always_written() -> None:
    scene = Scene()
    for session in range(300):
        await scene.save(f"large-{session}", 1_000)
    assert scene.restorer.left_out
    before = scene.restorer.left_out
    for session in range(1_000):
        await scene.save(f"small-{session}", 10)
    assert scene.restorer.left_out == before


@pytest.mark.parametrize("why", ["too much of the hub", "the hub's share of the store is full"])
async def test_a_state_that_is_not_written_leaves_no_older_one_behind(why: str) -> None:
    """The older one may hold more than the session had in the end."""
    scene = Scene()
    await scene.save("key", 5)
    assert await stored(scene.keys, "shop", "", 10)
    if why == "too much of the hub":
        for session in range(300):
            await scene.save(f"large-{session}", 1_000)
    else:
        scene.keys.error = StorageError(Code.STORAGE_SHARE_FULL, "too many writes")
    await scene.save("key", 1_000)
    scene.keys.error = None
    assert not await scene.works("key")


async def test_a_state_that_was_not_written_is_logged_once_a_second_with_their_number() -> None:
    scene = Scene()
    scene.keys.error = StorageError(Code.STORAGE_SHARE_FULL, "too many writes")
    scene.keys.is_away = True
    with structlog.testing.capture_logs() as lines:
        for _ in range(100):
            await scene.save("key", 1)
        scene.clock.advance(1)
        await scene.save("key", 1)
    assert [(line["hub"], line["count"]) for line in lines] == [("shop", 1), ("shop", 100)]
