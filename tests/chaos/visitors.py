"""Sessions that come, use channels nobody used before or will again, and go: each in one of several ways."""

import asyncio
import itertools
import time

import jwt

from arauto.codec.events import (
    Ack,
    CloseRequest,
    DocumentChangeReply,
    DocumentChangeRequest,
    Event,
    Operation,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeRequest,
)
from tests.chaos.link import Link, open_link

__all__ = ["JWT_SECRET", "Visit", "visit_all"]

JWT_SECRET = "a secret of those who come and go, long enough"

_AT_ONCE = 100
#: One visitor in so many stores a message, and one in so many changes a document.
_RARE = 50


class Visit:
    """One session and its channels. `number` is never used twice."""

    def __init__(self, url: str, hub: str, number: int, channels: int) -> None:
        self._url = url
        self._hub = hub
        self._number = number
        # By name, under a pattern, and under a topic.
        self._names = [f"room:{number}.{n}" for n in range(channels - 3)]
        self._names += [f"/t/{number}/1", f"note:{number}", f"once:{number}"]
        self._heard = 0
        self._all_heard = asyncio.Event()

    async def make(self) -> int:
        """Come, do, go; return how many channels were used."""
        number = self._number
        token = _token(self._hub, f"user{number}") if number % 2 else ""
        link = await open_link(self._url, self._hub, token=token, on_event=self._note)
        items = tuple(
            SubscribeItem(channel=name)
            for name in (f"room:{number}.*", f"room:{number}.0", f"/t/{number}", *self._names[-2:])
        )
        reply = await link.call(SubscribeRequest(items=items))
        assert isinstance(reply, SubscribeReply), reply
        assert all(result.error is None for result in reply.results), reply
        used = await self._publish(link)
        await self._all_heard.wait()
        await self._go(link)
        return used + bool(token)  # the channel of the user

    async def _publish(self, link: Link) -> int:
        names = list(self._names)
        if self._number % _RARE == 0:
            names.append(f"log:{self._number}")
        drafts = tuple(
            PublishItem(
                channel=name,
                payload=b"x" * 100,
                retain=name.startswith("note"),
                idempotency_key="k" if name.startswith("once") else "",
            )
            for name in names
        )
        while drafts:
            ack = await link.call(PublishRequest(items=drafts))
            assert isinstance(ack, Ack), ack
            refused = [result.error for result in ack.results if result.error is not None]
            # A channel may close again before a slow machine gets to use it.
            assert all(error.retryable for error in refused), ack
            answers = zip(drafts, ack.results, strict=True)
            drafts = tuple(draft for draft, result in answers if result.error is not None)
        if self._number % _RARE == 1:
            names.append(f"doc:{self._number}")
            change = Operation(op="add", path="/a", value=1)
            done = await link.call(DocumentChangeRequest(channel=names[-1], operations=(change,)))
            assert isinstance(done, DocumentChangeReply), done
        return len(names)

    async def _go(self, link: Link) -> None:
        way = self._number % 4
        if way == 0:
            link.tell(CloseRequest())
            await link.lost.wait()
        elif way == 1:
            link.tell(UnsubscribeRequest(channels=(self._names[-1],)))
            link.say_goodbye()
            await link.lost.wait()
        else:
            await link.close()

    def _note(self, event: Event) -> None:
        if isinstance(event, Publication):
            self._heard += 1
            if self._heard == len(self._names):
                self._all_heard.set()


async def visit_all(url: str, hubs: list[str], numbers: range, channels: int) -> int:
    """One visit per number, some at a time; return how many channels they used."""
    waiting = iter(zip(numbers, itertools.cycle(hubs), strict=False))
    used = 0

    async def keep_visiting() -> None:
        nonlocal used
        for number, hub in waiting:
            count = await Visit(url, hub, number, channels).make()
            used += count

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(keep_visiting())
    return used


def _token(hub: str, user: str) -> str:
    claims = {"sub": user, "aud": hub, "exp": int(time.time()) + 3_600}
    return jwt.encode(claims, JWT_SECRET, "HS256")
