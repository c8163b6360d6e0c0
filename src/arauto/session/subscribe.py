"""Subscribing: channels, patterns and topics; recovery; and the re-check when settings change.

Two steps. First, whatever needs waiting: opening stored channels, reading missed messages from the store.
Then, without waiting in between, the session joins, the reply is queued and the missed messages follow;
so nothing can slip in between the reply, the replay and the first live message.
"""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from arauto.codec.events import (
    ErrorEvent,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.flow.authorise import subscribe_refusal
from arauto.hub.channel import Channel
from arauto.hub.recovery import Recovery
from arauto.model import Message, Serial
from arauto.names import check_pattern, is_pattern, is_topic, matches
from arauto.storage.base import HistoryQuery

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = [
    "Plan",
    "handle_subscribe",
    "handle_unsubscribe",
    "prepare",
    "recheck_subscriptions",
    "subscribe_now",
]

_PREFETCH_TRIES = 3


class Plan:
    """One item on its way to a result."""

    __slots__ = ("error", "item", "prefetched")

    def __init__(self, item: SubscribeItem) -> None:
        self.item = item
        self.error: ArautoError | None = None
        self.prefetched: dict[str, list[Message] | None] = {}
        """Missed messages read from the store, by channel; None where some are gone for good."""


def handle_subscribe(
    session: "Session", request: SubscribeRequest
) -> Coroutine[Any, Any, None] | None:
    plans = [Plan(item) for item in request.items]
    if all(not _must_wait(session, plan) for plan in plans):
        _answer(session, request.id, plans)
        return None
    return _subscribe_later(session, request.id, plans)


async def _subscribe_later(session: "Session", id: int, plans: list[Plan]) -> None:
    await prepare(session, plans)
    if not session.has_ended():
        _answer(session, id, plans)


def _answer(session: "Session", id: int, plans: list[Plan]) -> None:
    results, welcomes = subscribe_now(session, plans)
    if id:
        session.send(SubscribeReply(id=id, results=results))
    else:
        # Without an id only what went wrong is worth a word.
        failed = tuple(result for result in results if result.error is not None)
        if failed:
            session.send(SubscribeReply(id=0, results=failed))
    for welcome in welcomes:
        welcome.send(session)
    session.state_changed()


class _Room:
    """What may be replayed in answer to one request. A client that wants more reads it page by page."""

    __slots__ = ("_left_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes

    def take(self, messages: Sequence[Message]) -> bool:
        """Whether these fit too."""
        size_bytes = sum(len(message.payload) for message in messages)
        if size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        return True


class _Welcome:
    """What follows a successful result."""

    __slots__ = ("channel", "recovered", "replay")

    def __init__(self, channel: Channel | None, replay: Sequence[Message], recovered: bool) -> None:
        self.channel = channel
        self.replay = replay
        self.recovered = recovered

    def send(self, session: "Session") -> None:
        if self.channel is not None:
            self.channel.welcome(session.subscriber, self.replay, recovered=self.recovered)
        else:
            encode = session.outbox.format.encode_message
            for message in self.replay:
                if not session.subscriber.is_excluded(message):
                    session.outbox.put(encode(message))


# --- step one: waiting --------------------------------------------------------------------------------


def _must_wait(session: "Session", plan: Plan) -> bool:
    """Check the item and say whether something has to be opened or read first."""
    item = plan.item
    try:
        _check(session, item)
        names = [item.channel] if not _is_wide(item.channel) else _stored_positions(session, item)
        for name in names:
            channel = session.hub.channel(name)
            if channel is None:
                return True
            since = _since(item, name)
            if since is not None and channel.recovery_from(since) is Recovery.FROM_STORE:
                return True
    except ArautoError as error:
        plan.error = error
    return False


async def prepare(session: "Session", plans: list[Plan]) -> None:
    """Open and read whatever the items need."""
    for plan in plans:
        if plan.error is not None:
            continue
        item = plan.item
        try:
            _check(session, item)
            wide = _is_wide(item.channel)
            for name in _stored_positions(session, item) if wide else [item.channel]:
                channel = await session.hub.open_channel(name)
                since = _since(item, name)
                if since is not None:
                    plan.prefetched[name] = await _prefetch(channel, since)
        except ArautoError as error:
            plan.error = error


async def _prefetch(channel: Channel, since: Serial) -> list[Message] | None:
    """Read missed messages until live history covers the rest; None if the oldest are gone.

    Where stored messages are kept for a time only, the first one missed must still be there: what is
    kept no longer leaves no trace.
    """
    found: list[Message] = []
    at = since
    for _ in range(_PREFETCH_TRIES):
        if channel.recovery_from(at) is not Recovery.FROM_STORE:
            break
        query = HistoryQuery(
            hub=channel.hub.name,
            channel=channel.name,
            now_ms=channel.env.clock.wall_ms(),
            since=at,
            until=Serial(at.epoch + 1, 0),
            limit=channel.env.limits.recovery_len_max,
        )
        page = await channel.env.storage.journal.history(query)
        starts_late = not page or page[0].offset != since.offset + 1
        if at is since and channel.rules.store_s and starts_late:
            return None
        if not page:
            # Everything up to here has expired or is not yet durable: live history has the rest.
            break
        found.extend(page)
        at = page[-1].serial
    return found


def _stored_positions(session: "Session", item: SubscribeItem) -> list[str]:
    """Channels a returning pattern names that are closed here but may be resumed from the store."""
    if item.positions is None:
        return []
    hub = session.hub
    return [
        name
        for name, serial in item.positions.items()
        if serial.epoch & 1 and name not in hub.channels and _may_open(session, item, name)
    ]


def _may_open(session: "Session", item: SubscribeItem, name: str) -> bool:
    try:
        check_pattern(name)
    except ArautoError:
        return False
    if is_pattern(name) or not matches(item.channel, name):
        return False
    return session.may_read(name, session.hub.state.resolve_rules(name))


# --- step two: joining --------------------------------------------------------------------------------


def subscribe_now(
    session: "Session", plans: list[Plan]
) -> tuple[tuple[SubscribeResult, ...], list[_Welcome]]:
    """Join everything that can be joined. Queue the reply next, then send the welcomes."""
    results: list[SubscribeResult] = []
    welcomes: list[_Welcome] = []
    room = _Room(session.env.hub.limits.replay_bytes_max)
    for plan in plans:
        try:
            if plan.error is not None:
                raise plan.error
            _check(session, plan.item)
            join = _join_wide if _is_wide(plan.item.channel) else _join_channel
            results.append(join(session, plan, welcomes, room))
            session.subscription_began(plan.item.channel)
            session.errors = 0
        except ArautoError as error:
            session.note_refusal(error, "subscribe", plan.item.channel)
            results.append(SubscribeResult(channel=plan.item.channel, error=ErrorEvent.of(error)))
    return tuple(results), welcomes


def _join_channel(
    session: "Session", plan: Plan, welcomes: list[_Welcome], room: _Room
) -> SubscribeResult:
    item = plan.item
    channel = session.hub.channel(item.channel)
    if channel is None:
        raise ArautoError(
            Code.STORAGE_UNAVAILABLE, "the channel closed again; retry", field="channel"
        )
    recovered, replay = False, list[Message]()
    if item.since is not None:
        recovered, replay = _missed(session, channel, item.since, plan, room)
    channel.subscribe(session.subscriber)
    session.subscriptions[item.channel] = channel
    welcomes.append(_Welcome(channel, replay, recovered))
    return SubscribeResult(
        channel=item.channel,
        serial=channel.serial,
        recovered=recovered,
        recovered_count=len(replay),
    )


def _join_wide(
    session: "Session", plan: Plan, welcomes: list[_Welcome], room: _Room
) -> SubscribeResult:
    item = plan.item
    hub = session.hub
    already = {c.name for c in hub.matching(item.channel) if c.has(session.subscriber)}
    covered = hub.add_pattern(item.channel, session.subscriber)
    session.subscriptions[item.channel] = None
    limit = session.env.hub.limits.pattern_positions_len_max
    unrecovered: list[str] = []
    count = 0
    for channel in covered:
        replay: list[Message] = []
        if item.positions is not None:
            # A covered channel the client has never seen counts as seen up to before its first message.
            since = item.positions.get(channel.name, Serial(channel.epoch, 0))
            whole, replay = _missed(session, channel, since, plan, room)
            if not whole:
                unrecovered.append(channel.name)
        if channel.name not in already:
            welcomes.append(_Welcome(channel, replay, recovered=True))
        elif replay:
            # Already here by another subscription, which need not have brought the same place along.
            welcomes.append(_Welcome(None, replay, recovered=True))
        count += len(replay)
    if item.positions is not None:
        live = {channel.name for channel in covered}
        unrecovered += [n for n in item.positions if n not in live and matches(item.channel, n)]
    else:
        retained = [m for m in hub.retained.matching(item.channel) if _may_have(session, m)]
        welcomes.append(_Welcome(None, retained, recovered=True))
    complete = len(covered) <= limit
    return SubscribeResult(
        channel=item.channel,
        recovered=item.positions is not None and not unrecovered and complete,
        recovered_count=count,
        positions={channel.name: channel.serial for channel in covered[:limit]},
        unrecovered=tuple(unrecovered[:limit]),
    )


def _may_have(session: "Session", message: Message) -> bool:
    name = message.channel
    return session.may_read(name, session.hub.state.resolve_rules(name))


def _missed(
    session: "Session", channel: Channel, since: Serial, plan: Plan, room: _Room
) -> tuple[bool, list[Message]]:
    """(whether everything after `since` is here, the messages that are for this session)."""
    whole, messages = _all_missed(channel, since, plan.prefetched.get(channel.name, []))
    messages = channel.due(session.subscriber, messages)
    return (whole, messages) if room.take(messages) else (False, [])


def _all_missed(
    channel: Channel, since: Serial, prefetched: list[Message] | None
) -> tuple[bool, list[Message]]:
    if prefetched is None:
        return False, []
    # The store may be a step ahead: what it has and nobody was given yet will come by itself.
    delivered = channel.serial
    prefetched = [message for message in prefetched if message.serial <= delivered]
    if prefetched:
        at = prefetched[-1].serial
        if at.epoch == delivered.epoch and at.offset >= channel.recent_floor:
            return True, prefetched + list(channel.recent_after(at.offset))
        return False, []
    how = channel.recovery_from(since)
    if how is Recovery.NOTHING_MISSED:
        return True, []
    if how is Recovery.FROM_MEMORY:
        return True, list(channel.recent_after(since.offset))
    return False, []


# --- leaving and re-checking --------------------------------------------------------------------------


def handle_unsubscribe(session: "Session", request: UnsubscribeRequest) -> None:
    unknown = [name for name in request.channels if name not in session.subscriptions]
    for name in request.channels:
        session.drop_subscription(name)
    session.state_changed()
    if unknown:
        raise ArautoError(
            Code.NOT_SUBSCRIBED,
            f"{len(unknown)} of these are not subscriptions of this session",
            field="channels",
        )
    if request.id:
        session.send(UnsubscribeReply(id=request.id, channels=request.channels))


def recheck_subscriptions(session: "Session") -> None:
    """End what is no longer allowed and tell the client; join the user channel if there is one."""
    state = session.hub.state
    by_error: dict[Code, tuple[ArautoError, list[str]]] = {}
    for name in list(session.subscriptions):
        refusal = subscribe_refusal(session, name, state.resolve_rules(name), state.settings)
        if refusal is not None:
            session.drop_subscription(name)
            by_error.setdefault(refusal.code, (refusal, []))[1].append(name)
    for error, names in by_error.values():
        session.send(UnsubscribeReply(channels=tuple(names), error=ErrorEvent.of(error)))
    _join_user_channel(session)


def _join_user_channel(session: "Session") -> None:
    settings = session.hub.state.settings
    if not settings.user_channel or not session.user:
        return
    name = f"{settings.user_channel_namespace}:{session.user}"
    if name in session.subscriptions:
        return
    plans = [Plan(SubscribeItem(channel=name))]
    if not _must_wait(session, plans[0]):
        _announce(session, plans)
    else:
        session.env.hub.tasks.spawn(_join_user_channel_later(session, plans))


async def _join_user_channel_later(session: "Session", plans: list[Plan]) -> None:
    await prepare(session, plans)
    _announce(session, plans)


def _announce(session: "Session", plans: list[Plan]) -> None:
    if session.has_ended() or plans[0].item.channel in session.subscriptions:
        return
    results, welcomes = subscribe_now(session, plans)
    session.send(SubscribeReply(id=0, results=results))
    for welcome in welcomes:
        welcome.send(session)


# --- helpers ------------------------------------------------------------------------------------------


def _check(session: "Session", item: SubscribeItem) -> None:
    name = check_pattern(item.channel)
    if name in session.subscriptions:
        raise ArautoError(
            Code.ALREADY_SUBSCRIBED, "this session already holds that subscription", field="channel"
        )
    hub = session.hub
    limit = hub.quotas.subscriptions_per_session_max
    if limit and len(session.subscriptions) >= limit:
        raise ArautoError(
            Code.TOO_MANY_SUBSCRIPTIONS, f"a session of this hub has at most {limit} subscriptions"
        )
    refusal = subscribe_refusal(session, name, hub.state.resolve_rules(name), hub.state.settings)
    if refusal is not None:
        raise refusal


def _is_wide(name: str) -> bool:
    return is_pattern(name) or is_topic(name)


def _since(item: SubscribeItem, name: str) -> Serial | None:
    if item.positions is not None:
        return item.positions.get(name)
    return item.since
