"""A hub in a bottle: fake time, memory storage, and readers that keep what they were sent."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from arauto.codec.events import Event, Gap, Publication, PublishItem
from arauto.codec.proto import ProtoCodec
from arauto.entropy import SeededEntropy
from arauto.errors import ArautoError, Code, StorageError
from arauto.hub.channel import Channel
from arauto.hub.environment import Environment, HubLimits
from arauto.hub.fanout import Format, Turn
from arauto.hub.hub import Hub
from arauto.hub.outbox import Outbox
from arauto.hub.rules import HubState
from arauto.hub.sender import Sender
from arauto.hub.subscriber import Subscriber
from arauto.model import Message, Serial
from arauto.registry import CHANNEL_TYPES, FEATURES
from arauto.settings import ChannelSettings, HubSettings, NamespaceSettings, Rules
from arauto.storage.base import Done, Journal, JournalEntry, Storage
from arauto.storage.memory import MemoryJournal, open_memory
from arauto.tasks import TaskSet
from arauto.telemetry.metrics import Metrics
from arauto.testing.clock import FakeClock

__all__ = [
    "LIMITS",
    "NOBODY",
    "OPEN",
    "OTHER_FORMAT",
    "WIRE",
    "NoTasks",
    "Outcome",
    "Reader",
    "SlowDisk",
    "World",
    "join",
    "message",
    "split",
]

T = TypeVar("T")
_codec = ProtoCodec()


OPEN = Rules(public=True, client_publish=True)
DEFAULTS = HubSettings()
LIMITS = HubLimits()
NOBODY = Sender()


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


#: Length-prefixed protobuf, so that what was written can be taken apart again.
WIRE = Format("wire", _codec, _frame)
OTHER_FORMAT = Format("other", _codec, _frame)


def split(data: bytes) -> list[Event]:
    """Take apart what an outbox wrote."""
    events = []
    while data:
        size_bytes = int.from_bytes(data[:4], "big")
        events.append(_codec.decode_event(data[4 : 4 + size_bytes]))
        data = data[4 + size_bytes :]
    return events


def message(
    offset: int, payload: bytes = b"x", channel: str = "c", epoch: int = 2, **fields: object
) -> Message:
    return Message("shop", channel, payload, epoch, offset, offset, **fields)  # type: ignore[arg-type]


class Reader:
    """A session's receiving end without a session: the outbox's sink and the hub's view of a session."""

    def __init__(
        self, hub: Hub, id: str = "r", *, format: Format = WIRE, limit_bytes: int = 1_000_000
    ) -> None:
        self.hub = hub
        self.written: list[bytes] = []
        self.closed_with: Code | None = None
        self.forbidden: set[str] = set()
        self.outbox = Outbox(
            self, format, hub.env.turn, hub.counters, limit_bytes, hub.holdings.backlogs
        )
        self.subscriber = Subscriber(id, self.outbox, self)

    @property
    def events(self) -> list[Event]:
        return split(b"".join(self.written))

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def payloads(self) -> list[bytes]:
        return [event.message.payload for event in self.of(Publication)]

    @property
    def serials(self) -> list[Serial]:
        return [event.message.serial for event in self.of(Publication)]

    @property
    def gaps(self) -> list[Gap]:
        return self.of(Gap)

    # The outbox's sink.

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close_slow(self, code: Code, reason: str) -> None:
        self.closed_with = code

    # The hub's session.

    def may_read(self, channel: str, rules: Rules) -> bool:
        return channel not in self.forbidden

    def recheck(self) -> int:
        return 0  # nothing is held here

    def held(self) -> dict[str, Serial | None]:
        return {}

    def disconnect(self, code: Code, reason: str) -> None:
        self.closed_with = code

    def closed(self, code: Code) -> None:
        self.closed_with = code


class Outcome:
    """What became of a publication."""

    def __init__(self) -> None:
        self.answers: list[tuple[Serial | None, bool, ArautoError | None]] = []

    def __call__(self, serial: Serial | None, duplicate: bool, error: ArautoError | None) -> None:
        self.answers.append((serial, duplicate, error))

    @property
    def is_in(self) -> bool:
        return bool(self.answers)

    @property
    def serial(self) -> Serial:
        [(serial, _, error)] = self.answers
        assert error is None
        assert serial is not None
        return serial

    @property
    def error(self) -> ArautoError:
        [(serial, _, error)] = self.answers
        assert serial is None
        assert error is not None
        return error


class SlowDisk(MemoryJournal):
    """A journal whose commits wait until the test lets them through, or fails them."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.waiting: list[tuple[JournalEntry, Done]] = []

    def append(self, entry: JournalEntry, done: Done) -> None:
        self.waiting.append((entry, done))

    def commit(self, count: int = 1, error: StorageError | None = None) -> None:
        """Finish the oldest waiting entries."""
        for _ in range(min(count, len(self.waiting))):
            entry, done = self.waiting.pop(0)
            if error is None:
                self._last_seq += 1
                self._rows.append((self._last_seq, entry))
            done(error)

    def refuse_newest(self, error: StorageError) -> None:
        """Fail the newest waiting entry, while nothing is known of those before it."""
        _, done = self.waiting.pop()
        done(error)

    async def flush(self) -> None:
        self.commit(len(self.waiting))


class NoTasks(TaskSet):
    """Starts nothing: for tests that run without an event loop."""

    def __init__(self) -> None:
        super().__init__(lambda error: None)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        work.close()


class World:
    """Everything a hub needs, under the test's control."""

    def __init__(
        self,
        *,
        rules: Rules = OPEN,
        settings: HubSettings = DEFAULTS,
        limits: HubLimits = LIMITS,
        clock: FakeClock | None = None,
        storage: Storage | None = None,
        journal: Journal | None = None,
        tasks: TaskSet | None = None,
        seed: int = 1,
    ) -> None:
        self.clock = clock or FakeClock()
        kept = storage or open_memory(self.clock)
        if journal is not None:
            kept = Storage(
                journal=journal,
                settings=kept.settings,
                kv=kept.kv,
                documents=kept.documents,
                counters=kept.counters,
                url="",
                close=kept.close,
            )
        self.storage = kept
        self.failures: list[BaseException] = []
        self.tasks = tasks if tasks is not None else TaskSet(self.failures.append)
        self.env = Environment(
            node="node-1",
            clock=self.clock,
            entropy=SeededEntropy(seed),
            turn=Turn(self.clock),
            storage=kept,
            metrics=Metrics(),
            tasks=self.tasks,
            features=FEATURES,
            channel_types=CHANNEL_TYPES,
            limits=limits,
        )
        self.rules = rules
        self.settings = settings

    def state(
        self,
        settings: HubSettings | None = None,
        rules: dict[str, Rules] | None = None,
        namespaces: dict[str, NamespaceSettings] | None = None,
        channels: dict[str, ChannelSettings] | None = None,
        builtin: Rules | None = None,
    ) -> HubState:
        return HubState(
            settings or self.settings,
            rules or {},
            namespaces or {},
            channels or {},
            builtin or self.rules,
        )

    def hub(self, name: str = "shop") -> Hub:
        return Hub(name, self.state(), self.env)

    async def reopened(self, name: str = "shop") -> Hub:
        """A hub as it comes back after a restart."""
        await self.settle()
        hub = self.hub(name)
        await hub.retained.load()
        await hub.continuity.load()
        await hub.stored_keys.load(hub.state.idempotency_s_max)
        return hub

    async def channel(self, name: str = "c", hub: Hub | None = None) -> Channel:
        return await (hub or self.hub()).open_channel(name)

    async def settle(self) -> None:
        """Run everything that is due now, until nothing is left to run."""
        quiet = 0
        while quiet < 3:
            ran = self.clock.run_soon()
            quiet = 0 if ran or len(self.tasks) else quiet + 1
            await asyncio.sleep(0)

    def publish(
        self, channel: Channel, *payloads: bytes, sender: Sender = NOBODY, **options: object
    ) -> list[Outcome]:
        outcomes = []
        for payload in payloads:
            draft = PublishItem(channel=channel.name, payload=payload, **options)  # type: ignore[arg-type]
            outcomes.append(Outcome())
            channel.publish(draft, sender, outcomes[-1])
        return outcomes


def join(channel: Channel, *readers: Reader) -> None:
    """Subscribe readers by name and greet them."""
    for reader in readers:
        channel.subscribe(reader.subscriber)
        channel.welcome(reader.subscriber, (), recovered=False)
