"""One client's context, whatever transport carries it: identity, subscriptions, limits, heartbeat.

A gateway feeds it whole messages with `receive` and implements the outbox's `Sink`. Requests are handled in
order: a handler that must wait (authentication, opening a stored channel) holds back the requests behind
it, and the gateway is told to stop reading meanwhile. `commands.py` holds the handlers.
"""

from asyncio import Future
from collections import deque
from collections.abc import Generator
from functools import partial
from math import inf

import structlog

from arauto.codec.events import (
    AuthRequest,
    CloseRequest,
    ErrorEvent,
    Event,
    Ping,
    Pong,
    PublishRequest,
    Request,
    RestoreRequest,
)
from arauto.errors import ArautoError, Code
from arauto.grants import GrantSet
from arauto.hub.channel import Channel
from arauto.hub.fanout import Format
from arauto.hub.hub import Hub
from arauto.hub.outbox import Outbox
from arauto.hub.quota import TokenBucket
from arauto.hub.reconsider import reconsider
from arauto.hub.refusals import Asker
from arauto.hub.sender import Sender
from arauto.hub.subscriber import Subscriber
from arauto.model import Identity, Serial
from arauto.session import commands, heartbeat, held
from arauto.session.access import granted_to, may_read
from arauto.session.connection import Connection, EndedConnection
from arauto.session.cost import LARGE_BYTES, admit_beat, hear, rate_error, request_cost
from arauto.session.environment import SessionEnvironment
from arauto.session.greeter import Greeter
from arauto.session.greeting import auth_reply, session_info
from arauto.session.publish import handle_publish
from arauto.session.record import journal
from arauto.session.restorable import Restorable
from arauto.session.tolerance import read_known, refuse_unreadable
from arauto.settings import Rules
from arauto.storage.base import Kind
from arauto.tasks import in_turns

__all__ = ["Session"]

_log = structlog.get_logger("arauto.session")

_USES_NO_RIGHT = frozenset({Ping, Pong, AuthRequest, RestoreRequest, CloseRequest})
_NOT_THE_CLIENTS_DOING = frozenset({Code.HUB_RATE_LIMITED, Code.UNKNOWN_EVENT, Code.NOT_AVAILABLE})


class Session:
    """Implements `HubSession`."""

    __slots__ = (
        "_counters",
        "_decode",
        "_greeter",
        "_has_ended",
        "_now_s",
        "_started",
        "auth_by_s",
        "beats",
        "beats_s",
        "bucket",
        "connection",
        "env",
        "errors",
        "expires_ms",
        "granted",
        "has_ignored",
        "history_requests",
        "hub",
        "identity",
        "is_restoring",
        "is_strict",
        "opened_ms",
        "opened_s",
        "outbox",
        "pinged_s",
        "places",
        "queue",
        "restorable",
        "seen_s",
        "sender",
        "showing",
        "subscriber",
        "subscriptions",
        "targets",
        "targets_generation",
    )

    def __init__(
        self,
        env: SessionEnvironment,
        hub: Hub,
        connection: Connection,
        format: Format,
        *,
        id: str = "",
        is_strict: bool = False,
    ) -> None:
        """Join a hub, with the id under which the client has authenticated already, if it has. A strict
        session refuses the fields this version does not know, where others are spared them.

        Raises:
            ArautoError: TOO_MANY_SESSIONS.
        """
        self.env = env
        self.hub = hub
        self.connection: Connection = connection
        self._has_ended = False
        self.identity: Identity | None = None
        self.expires_ms = 0
        """When the identity ends; 0 = it does not. Looked at when a right is used, and by the wheel."""
        self.granted: GrantSet | None = None
        limit_bytes, memory = connection.send_buffer_bytes, hub.holdings.backlogs
        self.outbox = Outbox(connection, format, env.hub.turn, hub.counters, limit_bytes, memory)
        self.subscriber = Subscriber(id or env.new_id(), self.outbox, self)
        self.sender = Sender(session=self.subscriber.id)
        self.subscriptions: dict[str, Channel | None] = {}
        """By name; None for patterns and topics."""
        self.places: dict[str, Serial] = {}
        """Where those that cover many began."""
        self._greeter: Greeter | None = None
        self.targets: set[str] | None = None
        """Channels this session may publish to, as of `targets_generation`."""
        self.targets_generation = hub.generation
        self.history_requests = 0
        self.showing: Future[None] | None = None
        """What a request waits for that the connection has to take."""
        self._decode = format.codec.decode_request
        self._counters = hub.counters
        self.errors = 0
        """Refusals since the last request that succeeded."""
        self.is_strict = is_strict
        self.has_ignored = False
        """Whether a field was ignored that this version does not know."""
        self.queue: deque[Request | bytes] | None = None  # see `held.py`; large ones as they came
        self.restorable = Restorable(self)
        self.is_restoring = False  # waiting for what it is to join as who it has become
        self._now_s = env.hub.clock.monotonic_s
        now_s = self._now_s()
        self.bucket = TokenBucket(hub.quotas.session_messages_per_s, now_s)
        self.beats = self.beats_s = 0
        """Heartbeats in the second of the last one."""
        self.seen_s = now_s
        self.pinged_s = 0.0
        self._started = False
        """Whether the client was let in: who is turned away at the door neither begins nor ends."""
        self.opened_s = now_s
        self.opened_ms = env.hub.clock.wall_ms()
        self.auth_by_s = 0.0
        try:
            hub.add_session(self.subscriber)
        except ArautoError:
            self._let_go()
            raise

    # --- life --------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.subscriber.id

    def has_ended(self) -> bool:
        """Whether the connection is gone. A method, since it changes behind any await."""
        return self._has_ended

    def is_revoked(self) -> bool:
        """Whether its identity was withdrawn; it is about to end then, or has. Changes behind any await."""
        identity = self.identity
        return identity is not None and self.env.authenticator.is_revoked(self.hub.name, identity)

    @property
    def user(self) -> str:
        return self.identity.user if self.identity is not None else ""

    def start(self, identity: Identity | None = None) -> None:
        """Greet the client; start its heartbeat and, where the hub refuses anonymous ones, its deadline.

        `identity` is what a token in the connection request proved.
        """
        if identity is not None:
            self._adopt(identity)
        deadline_s = self._renew_deadline()
        self.send(session_info(self, deadline_s))
        self.look_within(self.env.limits.ping_interval_s)
        if deadline_s:
            self.look_within(deadline_s)
        self._started = True
        self.hub.counters.sessions_started += 1
        journal(self, Kind.SESSION_START, {})
        if identity is not None:
            self.send(auth_reply(self, 0))
            self.recheck()

    def heard(self) -> bool:
        """The connection is alive: a frame came that is no request. Whether that is within the rate."""
        self.seen_s = self._now_s()
        return hear(self, self.seen_s)

    def _renew_deadline(self) -> float:
        """Give an anonymous session a deadline if the hub wants none; return the time left, 0 = none."""
        if self.identity is not None or self.hub.state.settings.allow_anonymous:
            self.auth_by_s = 0.0
            return 0.0
        if not self.auth_by_s:
            self.auth_by_s = self.env.hub.clock.monotonic_s() + self.env.limits.auth_deadline_s
        return max(0.001, self.auth_by_s - self.env.hub.clock.monotonic_s())

    def disconnect(self, code: Code, reason: str) -> None:
        """Tell the client why, then end the connection."""
        if self.has_ended():
            return
        self.send(ErrorEvent.of(ArautoError(code, reason), 0))
        self.outbox.flush()
        self.connection.close(code, reason)

    def lost(self, code: Code) -> None:
        """The connection is gone: send nothing more, and let go of everything when it is this one's turn."""
        if not self.has_ended():
            self.outbox.close()
            if self not in self.env.large_work:  # else when it is done with what came before
                self.env.line.add(self, partial(self.closed, code))

    def closed(self, code: Code) -> None:
        """The connection is gone: let go of everything now."""
        if self.has_ended():
            return
        clock = self.env.hub.clock
        self.restorable.closed(code)
        self._has_ended = True
        for name in list(self.subscriptions):
            self.drop_subscription(name)
        self.hub.remove_session(self.subscriber)
        self._let_go()
        if not self._started:
            return
        duration_ms = int((clock.monotonic_s() - self.opened_s) * 1000)
        self.hub.counters.sessions_ended += 1
        self.hub.counters.session_duration_ms += duration_ms
        journal(self, Kind.SESSION_END, {"durationMs": duration_ms, "code": int(code)})

    def _let_go(self) -> None:
        """Part from whatever holds this session as it holds it, so that it goes with its connection."""
        self.env.wheel.forget(self)
        self.env.large_work.forget(self)
        self.env.pages.forget(self)
        self.connection = EndedConnection(self.connection)
        self.outbox.close()
        self.subscriber.leave()
        self.restorable.leave()
        if self.showing is not None:
            self.showing.cancel()
        self._greeter = None
        self.targets = None

    def on_timer(self, now_s: float) -> float:
        """Heartbeat, deadline, expiry: called by the wheel."""
        if self.auth_by_s and now_s >= self.auth_by_s and self.identity is None:
            self.disconnect(Code.AUTH_DEADLINE, "the session did not authenticate in time")
            return 0
        if self._expires_in_s() <= 0:
            self.env.line.add(self, self.check_expiry)
        wait_s = heartbeat.look(self, now_s)
        if wait_s <= 0:
            self.disconnect(Code.HEARTBEAT_LOST, "nothing was heard from the client in time")
            return 0
        if self.auth_by_s:
            wait_s = min(wait_s, self.auth_by_s - now_s)
        return max(min(wait_s, self._expires_in_s()), 0.001)

    def look_within(self, delay_s: float) -> None:
        """Have the wheel look at this session no later than that."""
        if delay_s < inf:
            self.env.wheel.schedule(self, delay_s)

    # --- receiving ---------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take one whole message from the client."""
        size_bytes = len(data)
        if size_bytes >= LARGE_BYTES:
            held.receive_large(self, data)
            return
        counters = self._counters
        counters.messages_in += 1
        counters.bytes_in += size_bytes
        now_s = self.seen_s = self._now_s()
        bucket = self.bucket
        try:
            request = self._decode(data)
        except ArautoError as error:
            known = read_known(self, data, error)
            if isinstance(known, ArautoError):
                refuse_unreadable(self, data, known)
                return
            request = known
        if bucket.rate_per_s:
            # Most of what comes costs one; the same as `request_cost`, on the shortest way.
            is_small = type(request) is PublishRequest and len(request.items) == 1
            cost = 1 if is_small else request_cost(request, size_bytes)
            if not (bucket.take(now_s, cost) if cost else admit_beat(self, now_s)):
                self.refuse(rate_error(self.hub.quotas), getattr(request, "id", 0), request)
                return
        if self.queue is not None:
            self.queue.append(request)
        elif type(request) is not PublishRequest:
            self.handle(request)
        else:
            # Most of what comes; the same as `handle`, on the shortest way.
            if self.expires_ms:
                self.check_expiry()
            work = handle_publish(self, request)
            if work is not None:
                held.hold(self, work, request)

    def decode(self, data: bytes) -> Request:
        """Raises ArautoError if it is none."""
        return self._decode(data)

    def handle(self, request: Request) -> None:
        """Run a request's handler; one that must wait holds back the requests behind it."""
        if self.has_ended():
            return
        if self.expires_ms and type(request) not in _USES_NO_RIGHT:
            self.check_expiry()
        try:
            work = commands.HANDLERS[type(request)](self, request)
        except ArautoError as error:
            self.refuse(error, getattr(request, "id", 0), request)
            return
        if work is not None:
            held.hold(self, work, request)

    def held_back(self) -> deque[Request | bytes] | None:
        """What waits, and nothing more is read meanwhile; None if nothing does. Changes behind any call."""
        return self.queue

    # --- sending -----------------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        self.outbox.send(event)

    def refuse(self, error: ArautoError, id: int, request: Request | None = None) -> None:
        """Answer a request with an error; `request` is None if it could not even be read."""
        self.send(ErrorEvent.of(error, id))
        name = type(request).__name__.removesuffix("Request").lower() if request else ""
        self.note_refusal(error, name, getattr(request, "channel", ""))

    def note_refusal(
        self, error: ArautoError, request: str, channel: str = "", *, counts: bool = True
    ) -> None:
        """A request, or its part for a channel, was refused, whatever way the client was told. A client
        whose requests only produce errors is disconnected; however many parts of one are refused, it
        `counts` once.
        """
        connection = self.connection
        asker = Asker(self.id, self.user, connection.transport, connection.address)
        self.hub.refusals.note(error, asker, request=request, channel=channel)
        if error.code in _NOT_THE_CLIENTS_DOING or error.code >= Code.STORAGE_FAILED:
            return  # nobody is sent away for good over a full disk, or for being newer than the node
        if not counts:
            return
        self.errors += 1
        limit = self.env.limits.errors_max
        if limit and self.errors > limit:
            self.disconnect(
                Code.TOO_MANY_ERRORS, "the client keeps sending requests that are refused"
            )

    # --- identity ----------------------------------------------------------------------------------

    def become(
        self, identity: Identity | None, granted: GrantSet | None = None
    ) -> Generator[None, None, int]:
        """Take on a new identity (or none), with its grants if they are at hand, and re-check what is held by
        name; what this returns does so for the channels of patterns, which may be many, and comes to how many
        they were."""
        held = tuple(self.subscriptions)
        before, who = self.identity, (self.subscriber.user, self.subscriber.extra)
        self._adopt(identity, granted)
        self.recheck()
        renamed = who != (self.subscriber.user, self.subscriber.extra)
        if not renamed and before and identity and before.grants == identity.grants:
            held = ()  # only its time is another
        left = [name for name in held if name in self.subscriptions]
        return reconsider(self.hub, self.subscriber, left, renamed=renamed)

    def resume_as(self, id: str, identity: Identity) -> None:
        """Take on the id and identity of an earlier session; its subscriptions are the caller's to join."""
        self.hub.rename_session(self.subscriber, id)
        self._adopt(identity)
        # What follows may wait, and must not outlast the authentication.
        self.look_within(max(self._expires_in_s(), 0.001))

    def _adopt(self, identity: Identity | None, granted: GrantSet | None = None) -> None:
        hub = self.hub
        hub.forget_user(self.subscriber)
        self.granted = granted or granted_to(self, identity)
        self.identity = identity
        self.expires_ms = identity.expires_ms if identity is not None else 0
        self.subscriber.user = self.user
        self.subscriber.extra = identity.extra if identity is not None else {}
        self.sender = Sender(session=self.id, user=self.user)
        hub.know_user(self.subscriber)
        if identity is not None:
            self.env.directory.adopt(hub.name)
        self.targets = None
        self._renew_deadline()

    def check_expiry(self) -> None:
        """Become nobody if the authentication is over."""
        if self._expires_in_s() <= 0:
            error = ArautoError(Code.TOKEN_EXPIRED, "the authentication expired")
            self.send(ErrorEvent.of(error, 0))
            self.env.hub.tasks.spawn(in_turns(self.become(None)))

    def _expires_in_s(self) -> float:
        if not self.expires_ms:
            return inf
        return (self.expires_ms - self.env.hub.clock.wall_ms()) / 1000

    # --- subscriptions -----------------------------------------------------------------------------

    def may_read(self, channel: str, rules: Rules) -> bool:
        return may_read(self, channel, rules)

    def recheck(self) -> int:
        """End the subscriptions that settings or identity no longer allow. How many it looked at."""
        if self.has_ended() or self.outbox.closed:  # a lost one hears of it when it is restored
            return 0
        looked_len = len(self.subscriptions)
        self.bucket.set_rate(self.hub.quotas.session_messages_per_s)
        self.look_within(min(self._renew_deadline() or inf, max(self._expires_in_s(), 0.001)))
        commands.recheck_subscriptions(self)
        return looked_len

    def greet(self, name: str, place_ms: int) -> None:
        """Send what is retained for a new subscription; its reply is queued already."""
        if self._greeter is None:
            self._greeter = Greeter(self)
        self._greeter.greet(name, place_ms)

    def held(self) -> dict[str, Serial | None]:
        return {name: self.places.get(name) for name in self.subscriptions}

    def subscription_began(self, name: str) -> None:
        """It is among `subscriptions` now: count it and put it on record."""
        channel = self.subscriptions[name]
        self.hub.subscription_count += 1
        self.hub.attendance.began(self.subscriber, name, channel.rules if channel else None)

    def drop_subscription(self, name: str) -> None:
        """Leave a channel or pattern, without telling the client."""
        if name not in self.subscriptions:
            return
        channel = self.subscriptions.pop(name)
        self.hub.subscription_count -= 1
        if not self.has_ended():  # else the record of its end says it for all of them
            self.hub.attendance.ended(self.subscriber, name, channel.rules if channel else None)
        if channel is None:
            self.places.pop(name, None)
            self.hub.drop_pattern(name, self.subscriber)
        else:
            channel.unsubscribe(self.subscriber)
