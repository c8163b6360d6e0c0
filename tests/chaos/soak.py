"""The load of a soak: ten tenants, half of what the machine can do, and clients that come and go."""

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from arauto.codec.events import (
    Ack,
    Event,
    Gap,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.model import Serial
from tests.chaos.link import Link, open_link

__all__ = ["Interval", "Tenant"]

_CHANNELS = ("feed", "feed", "feed", "feed", "feed", "feed", "feed", "feed", "feed", "orders")
"""One message in ten is stored."""
_PAYLOAD_BYTES = 100
_CALIBRATION_IN_FLIGHT = 8
_BATCH = 10


@dataclass
class Interval:
    """What happened between two looks at the node."""

    latencies_ms: list[float] = field(default_factory=list)
    published: int = 0
    refused: int = 0
    reconnects: int = 0
    deliveries: int = 0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies_ms) or [0.0]
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Tenant:
    """One hub: a publisher, a reader that checks everything, others that count, and some who come and go."""

    def __init__(self, url: str, name: str, interval: Callable[[], Interval]) -> None:
        self._url = url
        self._name = name
        self._interval = interval
        self._links: list[Link] = []
        self._publisher: Link | None = None
        self._places: dict[str, Serial] = {}
        self._turn = 0
        self.holes: list[str] = []
        self.unanswered = 0
        """Publish requests that were refused whole, or whose connection ended."""
        self._closing = False

    async def open(self, readers: int) -> None:
        self._publisher = await open_link(self._url, self._name)
        checker = await open_link(self._url, self._name, on_event=self._note)
        await _subscribe(checker, None)
        self._links = [checker]
        for _ in range(readers - 1):
            link = await open_link(self._url, self._name)
            await _subscribe(link, None)
            link.is_deaf = True
            self._links.append(link)

    async def close(self) -> None:
        self._closing = True
        for link in [*self._links, self._publisher]:
            if link is not None:
                await link.close()

    @property
    def lost_readers(self) -> int:
        return sum(link.lost.is_set() for link in self._links)

    def deliveries(self) -> int:
        """Publications that readers got so far, without the checking one's."""
        return sum(link.frames for link in self._links)

    # --- publishing --------------------------------------------------------------------------------

    def publish(self, count: int, due_s: float) -> None:
        """Send messages that were due at a time; their latency counts from then."""
        assert self._publisher is not None
        stamp = struct.pack("!d", due_s).ljust(_PAYLOAD_BYTES, b".")
        items = []
        for _ in range(count):
            self._turn += 1
            channel = _CHANNELS[self._turn % len(_CHANNELS)]
            items.append(PublishItem(channel=channel, payload=stamp))
        self._publisher.ask(PublishRequest(items=tuple(items)), self._answered)

    def _answered(self, event: Event | None) -> None:
        if not isinstance(event, Ack):
            self.unanswered += event is not None or not self._closing
            return
        interval = self._interval()
        for result in event.results:
            if result.error is None:
                interval.published += 1
            else:
                interval.refused += 1

    async def saturate(self, seconds: float) -> int:
        """Publish as fast as answers come; return how many were answered in that time."""
        assert self._publisher is not None
        end_s = time.perf_counter() + seconds
        done = 0

        async def window() -> None:
            nonlocal done
            while time.perf_counter() < end_s:
                items = tuple(
                    PublishItem(channel=channel, payload=struct.pack("!d", 0).ljust(_PAYLOAD_BYTES))
                    for channel in _CHANNELS
                )
                assert self._publisher is not None
                await self._publisher.call(PublishRequest(items=items))
                done += len(items)

        await asyncio.gather(*(window() for _ in range(_CALIBRATION_IN_FLIGHT)))
        return done

    # --- reading -----------------------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        if isinstance(event, Publication):
            message = event.message
            before = self._places.get(message.channel)
            if before is not None and message.serial != Serial(before.epoch, before.offset + 1):
                self.holes.append(f"{self._name} {message.channel}: {before} → {message.serial}")
            self._places[message.channel] = message.serial
            due_s = struct.unpack("!d", message.payload[:8])[0]
            if due_s:
                interval = self._interval()
                interval.latencies_ms.append((time.perf_counter() - due_s) * 1000)
        elif isinstance(event, Gap):
            self.holes.append(f"{self._name}: {event}")

    async def visit(self) -> None:
        """Connect, catch up from where the checking reader stands, leave without a word."""
        link = await open_link(self._url, self._name)
        await _subscribe(link, self._places.get("feed"))
        self._interval().reconnects += 1
        await link.close()


async def _subscribe(link: Link, since: Serial | None) -> None:
    items = (SubscribeItem(channel="feed", since=since), SubscribeItem(channel="orders"))
    reply = await link.call(SubscribeRequest(items=items))
    assert isinstance(reply, SubscribeReply), reply
    assert all(result.error is None for result in reply.results), reply
