"""The bounded queue between the connection and a consumer."""

import asyncio

import pytest

from arauto.client.inbox import Inbox
from arauto.errors import ArautoError, Code


def _boom() -> ArautoError:
    return ArautoError(Code.SLOW_CONSUMER, "boom")


async def test_items_come_out_in_order() -> None:
    inbox: Inbox[int] = Inbox(10, 100)
    for item in range(3):
        inbox.put(item, 1)
    assert [inbox.pop() for _ in range(4)] == [0, 1, 2, None]


async def test_it_is_full_in_number_and_in_bytes() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    inbox.put(1, 60)
    assert not inbox.fits(41)
    assert inbox.fits(40)
    inbox.put(2, 40)
    assert not inbox.fits(0)
    assert inbox.size_bytes == 100
    inbox.pop()
    assert inbox.size_bytes == 40


async def test_an_empty_inbox_takes_one_item_of_any_size() -> None:
    assert Inbox[int](2, 100).fits(10**9)


async def test_whoever_waits_is_woken_by_an_item() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    waiting = asyncio.ensure_future(inbox.wait())
    await asyncio.sleep(0)
    inbox.put(1, 1)
    assert await waiting
    assert inbox.pop() == 1


async def test_the_end_comes_after_the_last_item() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    inbox.put(1, 1)
    inbox.end()
    inbox.put(2, 1)
    assert await inbox.wait()
    assert inbox.pop() == 1
    assert not await inbox.wait()


async def test_the_error_comes_after_the_last_item_and_stays() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    inbox.put(1, 1)
    inbox.end(_boom())
    assert await inbox.wait()
    inbox.pop()
    for _ in range(2):
        with pytest.raises(ArautoError, match="boom"):
            await inbox.wait()


async def test_the_end_wakes_whoever_waits() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    waiting = asyncio.ensure_future(inbox.wait())
    await asyncio.sleep(0)
    inbox.end(_boom())
    with pytest.raises(ArautoError):
        await waiting


async def test_cancelling_a_waiter_loses_nothing() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    waiting = asyncio.ensure_future(inbox.wait())
    await asyncio.sleep(0)
    inbox.put(1, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await inbox.wait()
    assert inbox.pop() == 1


async def test_two_consumers_at_once_are_refused_rather_than_confused() -> None:
    inbox: Inbox[int] = Inbox(2, 100)
    first = asyncio.ensure_future(inbox.wait())
    await asyncio.sleep(0)
    with pytest.raises(ArautoError) as caught:
        await inbox.wait()
    assert caught.value.code is Code.CONFLICT
    inbox.put(1, 1)
    assert await first


async def test_waiting_for_space_ends_when_something_is_taken() -> None:
    inbox: Inbox[int] = Inbox(1, 100)
    inbox.put(1, 1)
    waiting = [asyncio.ensure_future(inbox.wait_space(1)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(waiter.done() for waiter in waiting)
    inbox.pop()
    assert await asyncio.gather(*waiting) == [True, True]


async def test_waiting_for_space_ends_with_the_inbox() -> None:
    inbox: Inbox[int] = Inbox(1, 100)
    inbox.put(1, 1)
    waiting = asyncio.ensure_future(inbox.wait_space(1))
    await asyncio.sleep(0)
    inbox.end()
    assert not await waiting


async def test_one_who_stops_waiting_for_space_does_not_stop_the_others() -> None:
    inbox: Inbox[int] = Inbox(1, 100)
    inbox.put(1, 1)
    gone, stays = (asyncio.ensure_future(inbox.wait_space(1)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    inbox.pop()
    assert await stays
