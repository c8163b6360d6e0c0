"""Names that the system looks up for minutes, and the sign-ins of other hubs meanwhile."""

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from arauto.session.auth.resolver import SystemResolver

ANSWER = "192.0.2.7"


class Names:
    """A system that answers at once, but for names that hang until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []
        self.hanging = 0
        self.hanging_most = 0
        self._lock = threading.Lock()

    def look_up(self, host: str, port: int) -> list[str]:
        with self._lock:
            self.asked.append(host)
            if host.startswith("slow"):
                self.hanging += 1
                self.hanging_most = max(self.hanging_most, self.hanging)
        if host.startswith("slow"):
            self.let_go.wait()
            with self._lock:
                self.hanging -= 1
        if host.endswith("nowhere"):
            raise OSError("no such name")
        return [ANSWER]


@pytest.fixture
def names() -> Iterator[Names]:
    names = Names()
    yield names
    names.let_go.set()


@pytest.fixture
def resolver(names: Names) -> Iterator[SystemResolver]:
    resolver = SystemResolver(names.look_up, threads=4)
    yield resolver
    names.let_go.set()
    resolver.close()


async def test_names_of_one_hub_that_hang_leave_the_other_hubs_their_sign_ins(
    names: Names, resolver: SystemResolver
) -> None:
    waiting = [
        asyncio.ensure_future(resolver.resolve("slow-shop", f"slow{i}.example", 443))
        for i in range(32)
    ]
    await asyncio.sleep(0)
    for i in range(10):
        found = await resolver.resolve("bank", f"auth{i}.example", 443)
        assert [str(address) for address in found] == [ANSWER]
    assert names.hanging_most == 2
    names.let_go.set()
    await asyncio.gather(*waiting)
    assert len(names.asked) == 42, "what waited was looked up in its turn"
    assert names.hanging_most == 2


async def test_a_place_is_free_when_the_thread_ends_and_not_when_its_caller_gives_up(
    names: Names, resolver: SystemResolver
) -> None:
    for i in range(12):
        call = asyncio.ensure_future(resolver.resolve("slow-shop", f"slow{i}.example", 443))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await resolver.resolve("bank", "auth.example", 443)
    assert [name for name in names.asked if name.startswith("slow")] == [
        "slow0.example",
        "slow1.example",
    ]
    names.let_go.set()
    assert await resolver.resolve("slow-shop", "auth.example", 443)


async def test_all_sign_ins_share_one_look_up_of_their_provider(
    names: Names, resolver: SystemResolver
) -> None:
    first = asyncio.ensure_future(resolver.resolve("shop", "slow.example", 443))
    others = [
        asyncio.ensure_future(resolver.resolve(f"hub{i % 5}", "slow.example", 443))
        for i in range(20)
    ]
    await asyncio.sleep(0)
    first.cancel()
    names.let_go.set()
    assert len({tuple(found) for found in await asyncio.gather(*others)}) == 1
    assert names.asked == ["slow.example"]
    await resolver.resolve("shop", "slow.example", 443)
    assert len(names.asked) == 2, "an answer is not kept"


async def test_everyone_who_shares_a_look_up_is_told_that_it_failed(
    names: Names, resolver: SystemResolver
) -> None:
    calls = [resolver.resolve("shop", "slow.nowhere", 443) for _ in range(3)]
    answers = asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(0)
    names.let_go.set()
    assert [type(answer) for answer in await answers] == [OSError] * 3


async def test_a_name_that_fails_after_all_have_given_up_is_no_mistake_of_ours(
    names: Names, resolver: SystemResolver
) -> None:
    """Seen: asyncio wrote a traceback to the log for each, which nobody limits."""
    loop = asyncio.get_running_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    asking = asyncio.ensure_future(resolver.resolve("shop", "slow.nowhere", 443))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    under_way = [answer for _, answer in resolver._under_way.values()]
    names.let_go.set()
    await asyncio.wait(under_way)
    del asking, under_way
    gc.collect()
    assert complaints == []
