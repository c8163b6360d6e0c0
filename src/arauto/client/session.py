"""The client's session: everything that outlives a single connection.

It owns the requests, the subscriptions and the identity, takes every event the node sends, and writes
once per turn of the event loop. `supervisor.py` gives it one connection after another, `renewal.py` keeps it
authenticated; `client.py` is its public face.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from arauto.client.attachments import Attachments
from arauto.client.failures import ConnectionLostError, closed_by_client, from_event
from arauto.client.heartbeat import Heartbeat
from arauto.client.home import Home
from arauto.client.options import CredentialsSource, Tuning
from arauto.client.past import Past
from arauto.client.proof import Proof, check_success, read_credentials
from arauto.client.renewal import Renewal
from arauto.client.requests import Requests
from arauto.client.router import Router
from arauto.client.standing import Standing
from arauto.client.state import State, Trigger, next_state
from arauto.client.subscription import Subscription
from arauto.client.wire import Wire
from arauto.clock import Clock
from arauto.codec.events import (
    Ack,
    AuthReply,
    AuthRequest,
    CloseRequest,
    DocumentChangeReply,
    DocumentGetReply,
    DocumentInfo,
    DocumentUpdated,
    ErrorEvent,
    Event,
    Gap,
    HistoryReply,
    Join,
    Leave,
    Occupancy,
    Ping,
    Pong,
    Presence,
    Publication,
    Restored,
    RestoreKey,
    SessionInfo,
    SubscribeReply,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.entropy import Entropy
from arauto.errors import ArautoError, Code
from arauto.tasks import TaskSet

__all__ = ["OnState", "Session"]

_log = logging.getLogger("arauto.client")

#: Ends of a connection that an error sent just before explains better.
_VAGUE = frozenset({Code.CONNECTION_LOST, Code.HANDSHAKE_REFUSED, Code.OVERLOADED})

OnState = Callable[[State, State], object]
"""Told the state before and the state now."""


class Session:
    """One client's dealings with a hub, over as many connections as it takes."""

    __slots__ = (
        "_flush_due",
        "_handlers",
        "_heartbeat",
        "_last_word",
        "_on_state",
        "_unrouted",
        "attachments",
        "clock",
        "entropy",
        "error",
        "hello",
        "home",
        "is_ready",
        "lost",
        "past",
        "proof",
        "renewal",
        "requests",
        "restore_key",
        "router",
        "standing",
        "state",
        "tasks",
        "tuning",
        "wire",
    )

    def __init__(
        self,
        tuning: Tuning,
        clock: Clock,
        entropy: Entropy,
        on_state: OnState | None,
        proof: Proof,
    ) -> None:
        self.home = Home()
        self.tuning = tuning
        self.clock = clock
        self.entropy = entropy
        self._on_state = on_state
        self.state = State.NEW
        self.error: ArautoError | None = None
        """What made it fail."""
        self.standing = Standing()
        self.restore_key: tuple[str, float] | None = None
        """The single-use key to take this session up again, and when it expires (monotonic)."""
        self.wire: Wire | None = None
        self.is_ready = False
        """Whether requests may be sent: there is a connection, and the node knows who we are."""
        self.hello: asyncio.Future[SessionInfo] | None = None
        self.lost: asyncio.Future[ArautoError] | None = None
        self._last_word: ArautoError | None = None
        self._flush_due = False
        self._heartbeat: Heartbeat | None = None
        self._unrouted = 0
        self.tasks = TaskSet(self._on_task_error)
        self.proof = proof
        self.renewal = Renewal(
            proof,
            clock,
            entropy,
            tuning.backoff,
            self.tasks,
            ask=self._renew,
            on_failure=self._on_renewal_failure,
            on_release=self.wake,
        )
        holds_back = self.renewal.holds_back
        self.requests = Requests(tuning, clock, self.wake, holds_back, self._explained)
        self.past = Past(self.requests, self.check_usable)
        self.router = Router()
        self.attachments = Attachments(
            self.router,
            clock,
            entropy,
            tuning.backoff,
            self.requests.new_id,
            self.wake,
            holds_back,
            self._explained,
        )
        self._handlers = self._make_handlers()

    # --- connections -------------------------------------------------------------------------------

    def use(self, wire: Wire) -> None:
        """Take a new connection; events may come at once."""
        loop = asyncio.get_running_loop()
        self.wire = wire
        self._last_word = None
        self.hello = loop.create_future()
        self.lost = loop.create_future()

    def make_ready(self, interval_s: float) -> None:
        """The session stands: subscribe again, then send what waits."""
        assert self.wire is not None
        self.is_ready = True
        self._heartbeat = Heartbeat(
            self.clock, self.wire, interval_s, ping=self._ping, lost=self._give_up
        )
        self.attachments.attach_all()
        self._flush()

    def handle_lost(self, wire: Wire, error: ArautoError) -> None:
        """The connection is gone."""
        if wire is not self.wire:
            return
        self._unplug()
        if error.code in _VAGUE and self._last_word is not None:
            error = self._last_word
        if error.code is Code.AUTH_DEADLINE and self.standing.error is not None:
            # It had been somebody, and this is why it was nobody for too long.
            error = self.standing.error
        self.attachments.detach_all()
        self.requests.connection_lost()
        if self.hello is not None and not self.hello.done():
            self.hello.set_exception(error)
            self.hello.exception()
        if self.lost is not None and not self.lost.done():
            self.lost.set_result(error)

    def _unplug(self) -> None:
        self.wire = None
        self.is_ready = False
        self.renewal.disconnected()
        self._stop_heartbeat()

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    def step(self, trigger: Trigger) -> None:
        """Take a step of the state table and tell whoever wants to know."""
        before, self.state = self.state, next_state(self.state, trigger)
        _log.info("%s -> %s", before, self.state)
        if self._on_state is not None:
            try:
                self._on_state(before, self.state)
            except Exception:
                _log.exception("on_state_change failed")

    def say_goodbye(self) -> None:
        """Send what waits, then Close: the node forgets how to restore the session."""
        self._stop_heartbeat()
        if self.wire is not None:
            if self.is_ready:
                self._flush()
            self.wire.send(CloseRequest())
            self.wire.close()

    async def end(self, error: ArautoError | None) -> None:
        """Nothing more will come or go: tell everyone who waits."""
        self.error = error
        self._unplug()
        self.proof.stop()
        for subscription in self.router:
            self.router.remove(subscription)
            subscription.end(error)
        self.requests.end(error or closed_by_client())
        await self.tasks.close()

    # --- sending -----------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Refuse work that could never be done.

        Raises:
            ArautoError: what made the client fail; CLOSED_BY_CLIENT; CONFLICT on another event loop.
        """
        self.home.check()
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.state in (State.CLOSING, State.CLOSED):
            raise closed_by_client()

    def wake(self) -> None:
        """See to it that what waits is sent at the end of this turn of the event loop."""
        if not self._flush_due:
            self._flush_due = True
            self.clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self.wire is not None and self.is_ready and not self.renewal.is_holding:
            self.attachments.flush(self.wire)
            self.requests.flush(self.wire)

    # --- subscriptions (this is the `Owner` of each) -----------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        self.check_usable()
        self.router.add(subscription)
        self.attachments.want(subscription)
        self.wake()

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End it here and on the node. A lost connection counts as done: nothing subscribes it again."""
        self.home.check()
        if not self._forget(subscription) or not self.is_ready or self.wire is None:
            return
        request = UnsubscribeRequest(channels=(subscription.channel,))
        try:
            await self.requests.ask_now(self.wire, request)
        except ArautoError as error:
            _log.info("unsubscribing from %s: %s", subscription.channel, error)

    def drop(self, subscription: Subscription) -> None:
        if self._forget(subscription) and self.is_ready and self.wire is not None:
            self.wire.send(UnsubscribeRequest(channels=(subscription.channel,)))

    def _forget(self, subscription: Subscription) -> bool:
        known = self.router.remove(subscription)
        subscription.end(None)
        # A subscription the node made for us is the node's to end.
        return known and not self.attachments.is_made_by_node(subscription.channel)

    def fill(self, subscription: Subscription, gap: Gap) -> None:
        self.tasks.spawn(self.past.fill(subscription, gap))

    # --- events ------------------------------------------------------------------------------------

    def handle_event(self, event: Event) -> None:
        """Take one event from the node. Kinds this client has no use for are ignored."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _make_handlers(self) -> dict[type, Callable[[Any], None]]:
        answer = self.requests.answer
        return {
            Publication: self._on_publication,
            Ping: self._on_ping,
            Pong: lambda event: None,
            SessionInfo: self._on_session_info,
            RestoreKey: self._on_restore_key,
            Restored: self._on_restored,
            AuthReply: self._on_auth,
            SubscribeReply: self.attachments.handle_reply,
            UnsubscribeReply: self._on_unsubscribe,
            Ack: self.requests.acknowledge,
            Join: self._on_channel_event,
            Leave: self._on_channel_event,
            Presence: self._on_channel_event,
            Occupancy: self._on_channel_event,
            HistoryReply: answer,
            Gap: self._on_gap,
            DocumentInfo: self._on_document,
            DocumentUpdated: self._on_document,
            DocumentGetReply: answer,
            DocumentChangeReply: answer,
            ErrorEvent: self._on_error,
        }

    def _on_publication(self, event: Publication) -> None:
        message = event.message
        subscriptions = self.router.route(message.channel)
        for subscription in subscriptions:
            subscription.handle_message(message)
        if not subscriptions:
            # A user channel nobody iterates over, or one that was just given up.
            self._unrouted += 1

    @property
    def unrouted(self) -> int:
        """Messages that came for no subscription of this client."""
        return self._unrouted

    def _on_gap(self, event: Gap) -> None:
        for subscription in self.router.route(event.channel):
            subscription.handle_gap(event)

    def _on_channel_event(self, event: Join | Leave | Presence | Occupancy) -> None:
        if isinstance(event, Presence | Occupancy) and event.id:
            self.requests.answer(event)
            return
        for subscription in self.router.route(event.channel):
            subscription.handle_event(event)

    def _on_document(self, event: DocumentInfo | DocumentUpdated) -> None:
        for subscription in self.router.route(event.channel):
            subscription.handle_document(event)

    def _on_session_info(self, event: SessionInfo) -> None:
        same = self.standing if event.user and event.user == self.standing.user else Standing()
        self.standing = msgspec.structs.replace(
            same,
            session=event.session,
            node=event.node,
            user=event.user,
            authenticated=event.authenticated,
            message_bytes_max=event.message_bytes_max,
        )
        if self.hello is not None and not self.hello.done():
            self.hello.set_result(event)

    def _on_restore_key(self, event: RestoreKey) -> None:
        self.restore_key = (event.key, self.clock.monotonic_s() + event.ttl_ms / 1000)

    def _on_restored(self, event: Restored) -> None:
        # At once: what was missed may follow in the same read.
        self.renewal.authenticated(event.expires_in_ms)
        self.attachments.handle_restored(event.results)
        self.requests.answer(event)

    def _on_auth(self, event: AuthReply) -> None:
        if event.success:
            self.renewal.authenticated(event.expires_in_ms)
            self.standing = msgspec.structs.replace(
                self.standing,
                user=event.user,
                authenticated=True,
                grants=event.grants,
                extra=event.extra,
                token=event.token,
                token_expires_ms=event.token_expires_ms,
                error=None,
            )
        self.requests.answer(event)

    def _on_unsubscribe(self, event: UnsubscribeReply) -> None:
        if event.id:
            self.requests.answer(event)
            return
        error = from_event(self._explained(event.error)) if event.error is not None else None
        for name in event.channels:
            self.attachments.forget_made(name)
            subscription = self.router.get(name)
            if subscription is None:
                continue
            if event.error is not None and self.renewal.holds_back(event.error.code):
                self.attachments.postpone(subscription)
            else:
                self.router.remove(subscription)
                subscription.end(error)

    def _explained(self, refusal: ErrorEvent) -> ErrorEvent:
        # While it is about to be somebody again, refusals are for now only.
        return refusal if self.renewal.is_holding else self.standing.explained(refusal)

    def _on_error(self, event: ErrorEvent) -> None:
        error = from_event(event)
        if event.id:
            if not self.attachments.handle_refusal(event.id, error):
                self.requests.refuse(event.id, from_event(self._explained(event)))
            return
        if 4000 <= event.code < 6000 or not self.is_ready:
            self._last_word = error
        _log.warning("the node says: %s", error)
        if event.code == Code.TOKEN_EXPIRED and self.hello is not None and self.hello.done():
            # The session goes on as nobody; its key would bring back nobody either.
            self.restore_key = None
            self.standing = self.standing.nobody(error)
            self.renewal.expired()

    # --- identity ----------------------------------------------------------------------------------

    async def authenticate(self, credentials: CredentialsSource) -> None:
        """Become who these credentials prove, now and from now on.

        Raises:
            ArautoError: the refusal; then the session stays what it was.
        """
        source = self.proof.source(credentials)
        request = AuthRequest(credentials=await read_credentials(source))
        self.renewal.pause()
        try:
            if self.renewal.is_holding and self.wire is not None:
                # What waits in the queue waits for this.
                reply = await self.requests.ask_now(self.wire, request)
            else:
                reply = await self.requests.call(request, resend=True)
            check_success(reply)
            self.proof.use(source)
        finally:
            self.renewal.resume()

    async def _renew(self, credentials: bytes) -> None:
        if self.wire is None or not self.is_ready:
            raise ConnectionLostError("there is no connection to authenticate on")
        reply = await self.requests.ask_now(self.wire, AuthRequest(credentials=credentials))
        check_success(reply)

    def _on_renewal_failure(self, error: ArautoError) -> None:
        if self.standing.error is not None:
            self.standing = msgspec.structs.replace(self.standing, error=error)

    # --- heartbeat ---------------------------------------------------------------------------------

    def _on_ping(self, event: Ping) -> None:
        if self.wire is not None:
            self.wire.send(Pong(id=event.id))

    def _ping(self) -> None:
        if self.wire is not None:
            self.wire.send(Ping(id=self.requests.new_id()))

    def _give_up(self) -> None:
        if self.wire is not None:
            self.wire.abort(
                ConnectionLostError("nothing was heard from the node", Code.HEARTBEAT_LOST)
            )

    def _on_task_error(self, error: BaseException) -> None:
        _log.error("a background task failed", exc_info=error)
