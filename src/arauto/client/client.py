"""The asynchronous client: the public face of everything beside this file."""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from arauto.client.document import Document
from arauto.client.drafts import Draft, PublishOptions, to_item
from arauto.client.failures import (
    ConnectionLostError,
    PartialPublishError,
    closed_by_client,
)
from arauto.client.history import History, to_ms
from arauto.client.options import CredentialsSource, Target, TokenSource, Tuning
from arauto.client.positions import Positions, check_place, check_places
from arauto.client.proof import Proof, check_token
from arauto.client.received import SubscriptionEvent
from arauto.client.session import OnState, Session
from arauto.client.standing import Standing
from arauto.client.state import State, Trigger
from arauto.client.subscription import Overflow, Subscription
from arauto.client.supervisor import Supervisor, websocket_url
from arauto.clock import Clock, SystemClock
from arauto.codec.base import Codec
from arauto.codec.events import (
    HistoryRequest,
    Occupancy,
    OccupancyRequest,
    Presence,
    PresenceRequest,
    PublishItem,
)
from arauto.entropy import Entropy, SystemEntropy
from arauto.errors import ArautoError, Code
from arauto.grants import GrantSet
from arauto.limits import HISTORY_PAGE_LEN_MAX
from arauto.model import Direction, Grants, Identity, Serial
from arauto.names import check_channel, check_pattern

__all__ = ["Client", "Flavour"]

Flavour = Literal["proto", "json"]

_MANY_LEN = 1_000


class Client:
    """A connection to one hub that keeps itself alive.

    Args:
        url: `ws://host:port` or `wss://host`.
        hub: the tenant.
        token: connects authenticated; a string, or a function, async or not, that returns a fresh one. A
            function is asked before each connection and before the authentication expires; one that is not
            async must not block.
        credentials: sent to the hub's auth provider after connecting; bytes, text or anything JSON can
            hold, or a function that returns such. Used again before the authentication expires, and
            whenever the session cannot be restored.
        flavour: "proto" (binary, smaller and faster) or "json" (readable).
        strict_grants: refuse locally what the grants received at authentication do not cover. Leave it
            off where channels are open to everybody by their rules: those need no grant.
        on_state_change: called with the state before and the state now; must not block.
        tuning: bounds and times.
        ssl_context: for `wss` with certificates of your own.
        clock, entropy: for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        hub: str,
        token: TokenSource | None = None,
        credentials: CredentialsSource = None,
        flavour: Flavour = "proto",
        strict_grants: bool = False,
        on_state_change: OnState | None = None,
        tuning: Tuning | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        websocket_url(url, hub)
        if token is not None and not callable(token):
            check_token(token)
        self._target = Target(url=url, hub=hub, token=token, ssl_context=ssl_context)
        self._codec = _codec_for(flavour)
        self._credentials = credentials
        self._strict_grants = strict_grants
        self._on_state_change = on_state_change
        self._tuning = tuning or Tuning()
        self._clock = clock
        self._entropy = entropy or SystemEntropy()
        self._key_prefix = self._entropy.token(12)
        self._key_count = 0
        self._session: Session | None = None
        self._supervisor: Supervisor | None = None
        self._task: asyncio.Task[None] | None = None
        self._compiled: tuple[Grants, GrantSet] | None = None

    # --- life --------------------------------------------------------------------------------------

    async def connect(self) -> Self:
        """Connect and wait until the session stands. Retries within `tuning.connect_timeout_s`.

        Raises:
            ArautoError: the node's refusal, or why it could not be reached.
        """
        if self._session is not None:
            raise ArautoError(Code.CONFLICT, "a client connects once; make another one")
        clock = self._clock or SystemClock(asyncio.get_running_loop())
        timeout_s = self._tuning.handshake_timeout_s
        proof = Proof(self._target.token, self._credentials, clock, timeout_s)
        session = Session(self._tuning, clock, self._entropy, self._on_state_change, proof)
        supervisor = Supervisor(session, self._target, self._codec)
        self._session, self._supervisor = session, supervisor
        self._task = asyncio.create_task(supervisor.run(), name="arauto-client")
        timer = clock.call_later(self._tuning.connect_timeout_s, partial(_give_up, supervisor))
        try:
            await supervisor.started
        except BaseException:
            await self.close()
            raise
        finally:
            timer.cancel()
        return self

    async def close(self) -> None:
        """Say goodbye and release everything. Subscriptions end, requests under way fail.

        Raises:
            ArautoError: CONFLICT on another event loop than the client's, unless that has ended.
        """
        session = self._session
        if session is None or session.home.is_gone:
            return
        session.home.check()
        task, self._task = self._task, None
        if task is None:
            return
        if session.state is not State.FAILED:
            session.step(Trigger.CLOSE)
        task.cancel()
        try:
            await asyncio.wait([task])
            await self._say_goodbye(session)
        finally:
            # Also if this was cancelled on the way: nothing stays open.
            if session.wire is not None:
                session.wire.abort(closed_by_client())
            if session.state is State.CLOSING:
                await session.end(None)
                session.step(Trigger.ENDED)

    async def _say_goodbye(self, session: Session) -> None:
        wire = session.wire
        if wire is None:
            return
        too_late = partial(wire.abort, closed_by_client())
        timer = session.clock.call_later(self._tuning.close_timeout_s, too_late)
        try:
            session.say_goodbye()
            await wire.wait_lost()
        finally:
            timer.cancel()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # --- what there is to see ----------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._session.state if self._session is not None else State.NEW

    @property
    def error(self) -> ArautoError | None:
        """What made the client fail."""
        return self._session.error if self._session is not None else None

    @property
    def session(self) -> str:
        """The session's id; survives reconnects if the session could be restored."""
        return self._standing.session

    @property
    def user(self) -> str:
        """Who the client is authenticated as; "" if anonymous."""
        return self._standing.user

    @property
    def grants(self) -> Grants:
        """What authentication granted. Channels that are open by their rules need no grant."""
        return self._standing.grants

    @property
    def standing(self) -> Standing:
        """All the node said about this session: session, node, user, grants, token …"""
        return self._standing

    @property
    def pending(self) -> int:
        """Requests waiting to be sent or answered."""
        return len(self._session.requests) if self._session is not None else 0

    def may_publish(self, channel: str) -> bool:
        """Whether a grant lets this client publish there."""
        return self._granted().may_publish(channel)

    def may_subscribe(self, channel: str) -> bool:
        """Whether a grant lets this client subscribe to the channel or pattern."""
        return self._granted().may_subscribe(channel)

    # --- subscribing -------------------------------------------------------------------------------

    def subscribe(
        self,
        channel: str,
        *,
        since: Serial | Mapping[str, Serial] | None = None,
        fill_gaps: bool = False,
        overflow: Overflow = Overflow.FAIL,
        queue_len_max: int | None = None,
        queue_bytes_max: int | None = None,
        on_event: Callable[[SubscriptionEvent], object] | None = None,
    ) -> Subscription:
        """Subscribe to a channel, a pattern (`stock:*`, `a:#:b`) or a topic (`/a` and all below).

        Returns at once; iterate, or wait for `ready()` to know that the node agreed.

        Args:
            channel: what to subscribe to. A client subscribes to each name once.
            since: continue after this place (for patterns and topics: a dict of places by
                channel, with the one under `*` from `SubscribeResult.positions`).
            fill_gaps: where messages were lost, fetch them from history and deliver them in place.
            overflow: what happens when messages are not taken fast enough.
            queue_len_max: how many messages wait for the consumer.
            queue_bytes_max: the same, in bytes.
            on_event: called with everything `Subscription.events` yields; must not block.

        Raises:
            ArautoError: BAD_CHANNEL_NAME, BAD_FIELD, ALREADY_SUBSCRIBED; SUBSCRIBE_DENIED under strict
                grants.
        """
        session = self._usable()
        check_pattern(channel)
        if self._is_refused_here(self.may_subscribe, channel):
            raise ArautoError(Code.SUBSCRIBE_DENIED, f"no grant covers {channel}", field="channel")
        tuning = self._tuning
        subscription = Subscription(
            session,
            channel,
            Positions(channel, check_places(channel, since)),
            queue_len_max=tuning.queue_len_max if queue_len_max is None else queue_len_max,
            queue_bytes_max=tuning.queue_bytes_max if queue_bytes_max is None else queue_bytes_max,
            overflow=overflow,
            fill_gaps=fill_gaps,
            on_event=on_event,
        )
        session.subscribe(subscription)
        return subscription

    def document(self, channel: str) -> Document:
        """A live copy of a document (`doc:…`): `async with c.document("doc:board") as d: d.value`.

        Raises:
            ArautoError: BAD_CHANNEL_NAME, ALREADY_SUBSCRIBED.
        """
        check_channel(channel)
        return Document(self._usable(), self.subscribe(channel))

    # --- publishing --------------------------------------------------------------------------------

    async def publish(
        self,
        channel: str,
        data: Any,
        *,
        timeout_s: float | None = None,
        **options: Unpack[PublishOptions],
    ) -> Serial:
        """Publish and wait for the acknowledgement; the options are those of `Draft`.

        While disconnected the message waits in a bounded queue. If the connection breaks before the
        acknowledgement it is sent again with the same idempotency key, and delivered once.

        Raises:
            ArautoError: the node's refusal; TOO_MANY_PENDING; RequestTimeoutError.
        """
        item = self._item(Draft(channel=channel, data=data, **options))
        [result] = await self._usable().requests.publish([item], timeout_s)
        if isinstance(result, ArautoError):
            raise result
        return result

    def publish_nowait(self, channel: str, data: Any, **options: Unpack[PublishOptions]) -> None:
        """Publish without waiting and without acknowledgement; the options are those of `Draft`.

        Raises:
            ArautoError: TOO_MANY_PENDING.
        """
        item = self._item(Draft(channel=channel, data=data, **options))
        self._usable().requests.publish_nowait(item)

    async def publish_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None
    ) -> list[Serial]:
        """Publish many messages, in order, with few round trips.

        Raises:
            PartialPublishError: some were refused; its `results` tell which.
        """
        items = [self._item(draft) for draft in drafts]
        results: list[Serial | ArautoError] = []
        for start in range(0, len(items), _MANY_LEN):
            batch = items[start : start + _MANY_LEN]
            results += await self._usable().requests.publish(batch, timeout_s)
        serials = [result for result in results if isinstance(result, Serial)]
        if len(serials) < len(results):
            raise PartialPublishError(tuple(results))
        return serials

    def _item(self, draft: Draft) -> PublishItem:
        if self._is_refused_here(self.may_publish, draft.channel):
            raise ArautoError(
                Code.PUBLISH_DENIED, f"no grant covers {draft.channel}", field="channel"
            )
        self._key_count += 1
        key = f"{self._key_prefix}-{self._key_count}"
        return to_item(draft, key, self._standing.message_bytes_max)

    # --- asking ------------------------------------------------------------------------------------

    def history(
        self,
        channel: str,
        *,
        since: Serial | None = None,
        until: Serial | None = None,
        from_time: datetime | int | None = None,
        to_time: datetime | int | None = None,
        limit: int | None = None,
        direction: Direction = Direction.FORWARD,
        page_len: int = HISTORY_PAGE_LEN_MAX // 10,
    ) -> History:
        """A channel's past: iterate for messages, or over its `pages()`.

        Args:
            channel: whose past.
            since, until: places, both exclusive.
            from_time, to_time: times, both inclusive; with a zone, or milliseconds since 1970.
            limit: messages in all; None = the whole range.
            direction: oldest first, or latest first.
            page_len: messages per round trip.

        Raises:
            ArautoError: BAD_CHANNEL_NAME, BAD_FIELD. While iterating: the node's refusal.
        """
        request = HistoryRequest(
            channel=check_channel(channel),
            since=check_place(since, "since"),
            until=check_place(until, "until"),
            from_ms=to_ms(from_time, "from_time"),
            to_ms=to_ms(to_time, "to_time"),
            direction=direction,
        )
        return self._usable().past.history(request, limit, page_len)

    async def presence(self, channel: str) -> Presence:
        """Who is subscribed: `members`, and `total`, which may be more than are listed.

        Raises:
            ArautoError: FEATURE_OFF and other refusals.
        """
        request = PresenceRequest(channel=check_pattern(channel))
        reply = await self._usable().requests.call(request, resend=True)
        assert isinstance(reply, Presence)
        return reply

    async def occupancy(self, channel: str) -> int:
        """How many are subscribed.

        Raises:
            ArautoError: FEATURE_OFF and other refusals.
        """
        request = OccupancyRequest(channel=check_pattern(channel))
        reply = await self._usable().requests.call(request, resend=True)
        assert isinstance(reply, Occupancy)
        return reply.count

    async def authenticate(self, credentials: CredentialsSource) -> Identity:
        """Authenticate, or change who this session is, without reconnecting.

        The credentials are used again to renew the authentication, and whenever the session cannot be
        restored. If they are refused, the session stays what it was.

        Raises:
            ArautoError: AUTH_FAILED, TOKEN_INVALID, AUTH_UNAVAILABLE …
        """
        session = self._usable()
        await session.authenticate(credentials)
        standing = session.standing
        return Identity(
            user=standing.user,
            grants=standing.grants,
            extra=standing.extra,
            expires_ms=standing.token_expires_ms,
        )

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _standing(self) -> Standing:
        return self._session.standing if self._session is not None else Standing()

    def _granted(self) -> GrantSet:
        """The grants, by the node's own rule; made anew when they have changed."""
        grants = self.grants
        if self._compiled is None or self._compiled[0] is not grants:
            self._compiled = (grants, GrantSet(grants))
        return self._compiled[1]

    def _is_refused_here(self, may: Callable[[str], bool], channel: str) -> bool:
        """Under strict grants: whether none covers it. While the authentication is renewed there are none,
        and what is asked for waits for them."""
        if not self._strict_grants or may(channel):
            return False
        return self._session is None or not self._session.renewal.is_holding

    def _usable(self) -> Session:
        if self._session is None:
            raise ArautoError(Code.CONFLICT, "connect first: `async with Client(…) as c:`")
        self._session.check_usable()
        return self._session


def _codec_for(flavour: Flavour) -> Codec:
    if flavour == "proto":
        from arauto.codec.proto import ProtoCodec

        return ProtoCodec()
    if flavour == "json":
        from arauto.codec.json import JsonCodec

        return JsonCodec()
    raise ArautoError(Code.BAD_FIELD, 'must be "proto" or "json"', field="flavour")


def _give_up(supervisor: Supervisor) -> None:
    if not supervisor.started.done():
        reason = supervisor.last_error or ConnectionLostError("the node did not answer in time")
        supervisor.started.set_exception(reason)
