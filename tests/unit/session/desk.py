"""Sessions without sockets: fake time, memory storage, connections that keep what they were sent."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from arauto.codec.events import (
    Event,
    Publication,
    PublishItem,
    PublishRequest,
    Request,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.codec.proto import ProtoCodec
from arauto.errors import ArautoError, Code
from arauto.hub.directory import Directory
from arauto.hub.environment import HubLimits
from arauto.hub.made_on_use import StrangerLimits
from arauto.hub.refusals import Refusals
from arauto.model import Grant, Grants, Identity, Serial
from arauto.session.environment import SessionEnvironment, SessionLimits
from arauto.session.restore import Restorer
from arauto.session.session import Session
from arauto.session.wheel import TimerWheel
from arauto.settings import HubSettings, Rules
from arauto.storage.base import Journal, Storage
from arauto.testing.clock import FakeClock
from tests.unit.hub.world import LIMITS, WIRE, World, split

__all__ = ["Client", "Desk", "Doorman", "grants", "publish", "subscribe"]

T = TypeVar("T")
_codec = ProtoCodec()

PUBLIC = HubSettings(default_public=True)
OPEN = Rules(client_publish=True)
SESSION_LIMITS = SessionLimits()


def grants(*patterns: str) -> Grants:
    return Grants(channels=tuple(Grant(p, publish=True, subscribe=True) for p in patterns))


def publish(channel: str, *payloads: bytes, id: int = 0, **options: Any) -> PublishRequest:
    return PublishRequest(
        id=id, items=tuple(PublishItem(channel=channel, payload=p, **options) for p in payloads)
    )


def subscribe(*channels: str, id: int = 900, since: Serial | None = None) -> SubscribeRequest:
    return SubscribeRequest(
        id=id, items=tuple(SubscribeItem(channel=name, since=since) for name in channels)
    )


class Doorman:
    """Knows people by their credentials. Can be told to take its time."""

    def __init__(self) -> None:
        self.people: dict[tuple[str, bytes], Identity] = {}
        self.revoked: set[tuple[str, str]] = set()
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    def know(self, hub: str, credentials: bytes, identity: Identity) -> None:
        self.people[hub, credentials] = identity

    async def authenticate(
        self, hub: str, settings: HubSettings, session: str, credentials: bytes, address: str
    ) -> Identity:
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        found = self.people.get((hub, credentials))
        if found is None:
            raise ArautoError(Code.AUTH_FAILED, "the credentials were refused", field="credentials")
        return found

    def issue_token(self, hub: str, session: str, identity: Identity) -> tuple[str, int]:
        return f"token of {identity.user}", 0

    def is_revoked(self, hub: str, identity: Identity) -> bool:
        return (hub, identity.user) in self.revoked


class Client:
    """A connection and its session, seen from the client."""

    address = "10.0.0.1"
    transport = "test"

    def __init__(self, desk: "Desk", send_buffer_bytes: int) -> None:
        self.desk = desk
        self.send_buffer_bytes = send_buffer_bytes
        self.session: Session
        self.inbox: list[Event] = []
        self.closed_with: Code | None = None
        self._reads = True

    # The session's connection.

    def write(self, data: bytes) -> None:
        self.inbox += split(data)

    def close(self, code: Code, reason: str) -> None:
        if self.closed_with is None:
            self.closed_with = code
        self.session.closed(code)

    def close_slow(self, code: Code, reason: str) -> None:
        self.close(code, reason)

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True

    def is_connected(self) -> bool:
        return self.closed_with is None

    def is_read(self) -> bool:
        """Whether the session takes more requests."""
        return self._reads

    # The test's side.

    def send(self, request: Request) -> None:
        self.session.receive(_codec.encode_request(request))

    async def do(self, request: Request) -> None:
        """Send a request and let everything it leads to happen."""
        self.send(request)
        await self.desk.settle()

    async def ask(self, request: Request, kind: type[T]) -> T:
        """Send a request and take its answer out of the inbox."""
        await self.do(request)
        id = request.id  # type: ignore[union-attr]
        return self.take(kind, lambda event: getattr(event, "id", id) == id)

    async def subscribe(
        self, *channels: str, id: int = 900, since: Serial | None = None
    ) -> SubscribeReply:
        return await self.ask(subscribe(*channels, id=id, since=since), SubscribeReply)

    def take(self, kind: type[T], where: Callable[[T], bool] = lambda _: True) -> T:
        for index, event in enumerate(self.inbox):
            if isinstance(event, kind) and where(event):
                del self.inbox[index]
                return event
        raise AssertionError(f"no {kind.__name__} among {self.inbox}")

    def take_all(self, kind: type[T]) -> list[T]:
        found: list[T] = [event for event in self.inbox if isinstance(event, kind)]
        self.inbox = [event for event in self.inbox if not isinstance(event, kind)]
        return found

    def payloads(self) -> list[bytes]:
        """What was delivered since the last look."""
        return [event.message.payload for event in self.take_all(Publication)]

    async def drop(self, code: Code = Code.CONNECTION_LOST) -> None:
        """The connection breaks."""
        self.closed_with = code
        self.session.closed(code)
        await self.desk.settle()


class Desk:
    """A node from the sessions down."""

    def __init__(
        self,
        *,
        rules: Rules = OPEN,
        settings: HubSettings = PUBLIC,
        hub_limits: HubLimits = LIMITS,
        limits: SessionLimits = SESSION_LIMITS,
        allow_dynamic: bool = True,
        own_hub: str = "",
        hubs_max: int = 1_000,
        strangers: StrangerLimits | None = None,
        restore_ttl_s: float = 120,
        clock: FakeClock | None = None,
        storage: Storage | None = None,
        journal: Journal | None = None,
        seed: int = 1,
    ) -> None:
        self.world = World(
            rules=rules,
            settings=settings,
            limits=hub_limits,
            clock=clock,
            storage=storage,
            journal=journal,
            seed=seed,
        )
        self.clock = self.world.clock
        self.storage = self.world.storage
        self.doorman = Doorman()
        self.directory = Directory(
            self.world.env,
            defaults=settings,
            builtin_rules=rules,
            allow_dynamic=allow_dynamic,
            own_hub=own_hub,
            hubs_max=hubs_max,
            strangers=strangers,
        )
        self.env = SessionEnvironment(
            hub=self.world.env,
            directory=self.directory,
            authenticator=self.doorman,
            restorer=Restorer(self.storage.kv, self.clock, restore_ttl_s),
            wheel=TimerWheel(self.clock),
            limits=limits,
            refusals=Refusals("", self.world.env.metrics.node, self.clock, self.storage.journal),
        )
        self.directory.start()
        self.env.wheel.start()

    async def settle(self) -> None:
        await self.world.settle()
        assert not self.world.failures, self.world.failures

    async def advance(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time pass, step by step, with everything that is due on the way."""
        while seconds > 0:
            self.clock.advance(min(step_s, seconds))
            seconds -= step_s
            await self.settle()

    async def connect(
        self,
        hub: str = "shop",
        *,
        credentials: bytes = b"",
        send_buffer_bytes: int = 1_000_000,
        stranger: str | None = None,
    ) -> Client:
        """Open a session; with credentials as a token in the connection request would."""
        client = Client(self, send_buffer_bytes)
        found = await self.directory.get(hub, stranger=stranger)
        client.session = Session(self.env, found, client, WIRE)
        identity = None
        if credentials:
            identity = await self.doorman.authenticate(
                hub, found.state.settings, "", credentials, ""
            )
        client.session.start(identity)
        if identity is not None:
            client.session.restorable.give_key()
        await self.settle()
        return client

    async def set(self, kind: str, hub: str, id: str, value: Any) -> None:
        """Change a setting as an administrator would."""
        await self.storage.settings.put(kind, hub, id, msgspec.json.encode(value))
        await self.directory.refresh(hub)
        await self.settle()

    async def close(self) -> None:
        await self.directory.close()
        self.env.wheel.stop()
        await self.settle()
        await self.world.tasks.close()
