"""A session that is ended while its state is on its way to the store does not come back."""

import asyncio

import pytest

from arauto.errors import ArautoError, Code
from arauto.model import Identity
from arauto.session.restore import Restorer, SessionState
from arauto.storage.memory import MemoryKeyValueStore
from arauto.testing.clock import FakeClock


class SlowKeys(MemoryKeyValueStore):
    """What is put is there only once it may be; what comes later waits behind it, as in a queue of writes."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.is_putting = asyncio.Event()
        self.may_put = asyncio.Event()
        self._writes = asyncio.Lock()

    async def put(self, hub: str, key: str, value: bytes, ttl_s: float = 0) -> None:
        async with self._writes:
            self.is_putting.set()
            await self.may_put.wait()
            await super().put(hub, key, value, ttl_s)

    async def delete(self, hub: str, key: str) -> bool:
        async with self._writes:
            return await super().delete(hub, key)


@pytest.fixture
def keys() -> SlowKeys:
    keys = SlowKeys(FakeClock())
    keys.may_put.set()
    return keys


@pytest.fixture
def restorer(keys: SlowKeys) -> Restorer:
    return Restorer(keys, FakeClock(), 120)


def state(session: str) -> SessionState:
    return SessionState(session, Identity("ann"), {})


async def works(restorer: Restorer, key: str, hub: str = "shop") -> bool:
    try:
        await restorer.take(hub, key)
    except ArautoError as error:
        if error.code is not Code.BAD_RESTORE_KEY:
            raise
        return False
    return True


@pytest.mark.parametrize("session", ["s", ""])
async def test_a_state_that_is_not_written_yet_ends_with_its_session(
    restorer: Restorer, session: str
) -> None:
    writing = restorer.save("shop", "key", state("s"))
    assert await restorer.end("shop", session)
    await writing
    assert not await works(restorer, "key")


async def test_an_older_state_under_the_same_key_ends_with_it(restorer: Restorer) -> None:
    await restorer.save("shop", "key", state("s"))
    writing = restorer.save("shop", "key", state("s"))
    assert await restorer.end("shop", "s")
    await writing
    assert not await works(restorer, "key")


@pytest.mark.parametrize("session", ["s", ""])
async def test_a_state_that_is_being_written_ends_with_its_session(
    restorer: Restorer, keys: SlowKeys, session: str
) -> None:
    keys.may_put.clear()
    writing = asyncio.create_task(restorer.save("shop", "key", state("s")))
    await keys.is_putting.wait()
    ending = asyncio.create_task(restorer.end("shop", session))
    keys.may_put.set()
    assert await ending
    await writing
    assert not await works(restorer, "key")


async def test_other_sessions_and_hubs_keep_what_is_not_written_yet(restorer: Restorer) -> None:
    writing = [restorer.save("shop", "other", state("o")), restorer.save("bank", "key", state("s"))]
    forgetting = restorer.forget("shop", "old")
    assert not await restorer.end("shop", "s")
    await asyncio.gather(*writing, forgetting)
    assert await works(restorer, "other")
    assert await works(restorer, "key", "bank")
    assert not await works(restorer, "old")
