"""Many clients that come back together: each remembers its place, its key and what it has seen."""

import asyncio
import itertools
import time
from collections.abc import Callable

import jwt

from arauto.codec.events import (
    Ack,
    ErrorEvent,
    Event,
    Publication,
    PublishItem,
    PublishRequest,
    Restored,
    RestoreKey,
    RestoreRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
)
from arauto.model import Serial
from tests.chaos.link import Link, open_link
from tests.chaos.processes import NodeProcess

__all__ = ["JWT_SECRET", "Swarm"]

JWT_SECRET = "a secret of the reconnect storm, long enough"


class Member:
    """One client, subscribed to one channel. With a user it restores its session, else it subscribes anew."""

    def __init__(self, swarm: "Swarm", channel: str, user: str) -> None:
        self._swarm = swarm
        self.channel = channel
        self.user = user
        self.session = ""
        self.link: Link | None = None
        self.seen: list[Serial] = []
        self.unrecovered = 0
        self._place: Serial | None = None
        self._key = ""
        self._got_key = asyncio.Event()

    async def join(self) -> None:
        """The first connection."""
        token = _token(self.user) if self.user else ""
        self.link = link = await open_link(self._swarm.node.url, token=token, on_event=self._note)
        greeting = link.greeting.result()
        assert greeting is not None
        self.session = greeting.session
        assert greeting.user == self.user
        result = await self._subscribe(None)
        self._place = result.serial
        if self.user:
            await self._got_key.wait()

    async def come_back(self) -> None:
        """Connect again and take up where it was, trying as long as nobody listens."""
        self._got_key.clear()
        self.link = await self._swarm.connect(self._note)
        if not self.user:
            result = await self._subscribe(self._place)
        else:
            assert self._place is not None
            request = RestoreRequest(key=self._key, positions={self.channel: self._place})
            restored = await self.link.call(request)
            assert isinstance(restored, Restored), restored
            assert (restored.session, restored.user) == (self.session, self.user)
            result = next(r for r in restored.results if r.channel == self.channel)
        if result.error is not None or not result.recovered:
            self.unrecovered += 1

    async def _subscribe(self, since: Serial | None) -> SubscribeResult:
        assert self.link is not None
        item = SubscribeItem(channel=self.channel, since=since)
        reply = await self.link.call(SubscribeRequest(items=(item,)))
        assert isinstance(reply, SubscribeReply), reply
        return reply.results[0]

    def _note(self, event: Event) -> None:
        if isinstance(event, Publication):
            self._place = event.message.serial
            self.seen.append(event.message.serial)
            self._swarm.heard()
        elif isinstance(event, RestoreKey):
            self._key = event.key
            self._got_key.set()
        else:
            assert not isinstance(event, ErrorEvent) or event.code >= 4000, event


class Swarm:
    """All of them, and a publisher."""

    def __init__(self, node: NodeProcess, size: int, channels: int) -> None:
        self.node = node
        self.channels = [f"news:{number}" for number in range(channels)]
        names = itertools.cycle(self.channels)
        self.members = [
            Member(self, next(names), f"user{at}" if at % 2 else "") for at in range(size)
        ]
        self.published: dict[str, list[Serial]] = {name: [] for name in self.channels}
        self._news = asyncio.Event()

    def heard(self) -> None:
        self._news.set()

    async def join(self) -> None:
        for at in range(0, len(self.members), 100):
            await asyncio.gather(*(member.join() for member in self.members[at : at + 100]))

    async def connect(self, on_event: Callable[[Event], None]) -> Link:
        while True:
            await self.node.wait_up()
            try:
                return await open_link(self.node.url, on_event=on_event)
            except ConnectionError:
                await asyncio.sleep(0)

    def drop(self) -> None:
        """Break every connection at once, without a word."""
        for member in self.members:
            if member.link is not None:
                member.link.drop()

    async def until_lost(self) -> None:
        for member in self.members:
            assert member.link is not None
            await member.link.lost.wait()

    async def come_back(self) -> float:
        """All at once; return the seconds until the last one is back with its session."""
        began_s = time.monotonic()
        await asyncio.gather(*(member.come_back() for member in self.members))
        return time.monotonic() - began_s

    async def publish(self, per_channel: int) -> None:
        """Some messages in every channel, each acknowledged."""
        link = await self.connect(lambda event: None)
        for name in self.channels:
            items = (PublishItem(channel=name, payload=b"news"),) * per_channel
            ack = await link.call(PublishRequest(items=items))
            assert isinstance(ack, Ack)
            for result in ack.results:
                assert result.serial is not None, result
                self.published[name].append(result.serial)
        await link.close()

    async def until_all_heard(self) -> None:
        """Wait until every member has as many messages as its channel."""
        waiting = list(self.members)
        while waiting:
            waiting = [m for m in waiting if len(m.seen) < len(self.published[m.channel])]
            if waiting:
                self._news.clear()
                await self._news.wait()

    def check(self) -> tuple[int, int]:
        """(messages lost, messages doubled) over all members; order is asserted."""
        lost = doubled = 0
        for member in self.members:
            wanted = self.published[member.channel]
            lost += len(set(wanted) - set(member.seen))
            doubled += len(member.seen) - len(set(member.seen))
            assert member.seen == sorted(member.seen)
        return lost, doubled

    async def close(self) -> None:
        self.drop()
        for member in self.members:
            if member.link is not None:
                await member.link.close()


def _token(user: str) -> str:
    claims = {"sub": user, "aud": "shop", "exp": int(time.time()) + 3_600}
    return jwt.encode(claims, JWT_SECRET, "HS256")
