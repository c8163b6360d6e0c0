"""Subscribing: channels, patterns and topics; recovery; and the re-check when settings change.

Two steps. First, whatever needs waiting: opening stored channels, reading missed messages from the
store, walking over very many channels. Then, without waiting in between, the session joins, the reply
is queued and the missed messages follow; so nothing can slip in between the reply, the replay and the
first live message.
"""

from collections.abc import Coroutine, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
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
from arauto.flow.authorise import Who, subscribe_refusal
from arauto.hub.channel import Channel
from arauto.hub.matcher import is_compiled
from arauto.hub.recovery import Recovery
from arauto.hub.rules import HubState
from arauto.model import Message, Serial
from arauto.names import ALL_CHANNELS, check_pattern, compiled, is_wide, matches
from arauto.session.access import (
    Deciding,
    check_readable,
    decide,
    must_try,
    open_channel,
    open_now,
)
from arauto.session.catchup import Catchup, Room
from arauto.session.cost import covered_cost, page_cost, pattern_cost
from arauto.session.looking import look, walk
from arauto.session.welcome import Welcome

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = [
    "Plan",
    "handle_subscribe",
    "handle_unsubscribe",
    "pointless",
    "prepare",
    "recheck_subscriptions",
    "subscribe_now",
]

#: A pattern that covers no more open channels than this is joined at once.
_AT_ONCE_LEN = 100
#: So many times what may be replayed is held of what was read: some of it is not for this session, or several
#: items want it.
_READ_TIMES = 4


class Plan:
    """One item on its way to a result."""

    __slots__ = ("catchup", "covered", "error", "is_joined", "item", "opened")

    def __init__(self, item: SubscribeItem) -> None:
        self.item = item
        self.error: ArautoError | None = None
        self.catchup = Catchup(item)
        self.covered: dict[str, None] | None = None
        """The open channels that were found beforehand."""
        self.opened: list[str] = []
        """The channels that opened since."""
        self.is_joined = False
        """Whether it covers so many channels that they were joined beforehand."""

    def refuse(self, error: ArautoError) -> None:
        # Where it was raised is told by frames that hold this plan and the session.
        self.error = error.with_traceback(None)

    def channels(self, session: "Session") -> list[Channel]:
        """The open channels it covers, now."""
        hub, name = session.hub, self.item.channel
        if not is_wide(name):
            return [hub.channels[name]] if name in hub.channels else []
        if self.covered is None:
            return hub.matching(name)
        for opened in self.opened:
            if matches(name, opened):
                self.covered[opened] = None
        return [hub.channels[found] for found in self.covered if found in hub.channels]


def pointless(
    names: Iterable[str], who: Who | None = None, state: HubState | None = None
) -> ArautoError | None:
    """Why none of the names can be subscribed to, told of the first; None if one can. With a hub's settings
    also: may. Asked before a hub is opened for it."""
    first: ArautoError | None = None
    for name in names:
        refusal: ArautoError | None = None
        try:
            check_pattern(name)
            if who is not None and state is not None:
                rules = state.resolve_rules(name)
                refusal = subscribe_refusal(who, name, rules, state.settings)
        except ArautoError as error:
            refusal = error
        if refusal is None:
            return None
        first = first or refusal
    return first


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
    session.restorable.changed()


# --- step one: waiting --------------------------------------------------------------------------------


def _must_wait(session: "Session", plan: Plan) -> bool:
    """Check the item and say whether something has to be opened, read or walked over first, or enough was
    tried in this turn."""
    item = plan.item
    if session.env.hub.trying.is_spent:
        return True
    try:
        _check(session, item)
        if is_wide(item.channel):
            if is_compiled(item.channel):
                return True
            found, more = look(session, item.channel, "", _AT_ONCE_LEN)
            must_decide = bool(found) and must_try(session)
            return bool(more) or must_decide or item.positions is not None
        channel = open_now(session, item.channel)
        if channel is None:
            return True
        since = item.since
        return since is not None and channel.recovery_from(since) is Recovery.FROM_STORE
    except ArautoError as error:
        plan.refuse(error)
    return False


async def prepare(session: "Session", plans: list[Plan]) -> None:
    """Open, read and walk over whatever the items need. Go on at once: which channels open is noted
    until this returns."""
    room = Room(_READ_TIMES * session.env.hub.limits.replay_bytes_max)
    with ExitStack() as watching:
        for plan in plans:
            await session.env.hub.trying.turn()
            if plan.error is not None or session.has_ended():
                continue
            try:
                _check(session, plan.item)
                if is_wide(plan.item.channel):
                    plan.opened = watching.enter_context(session.hub.watching())
                    await _prepare_wide(session, plan, room)
                else:
                    channel = await open_channel(session, plan.item.channel)
                    if plan.item.since is not None:
                        await plan.catchup.prepare(channel, session.subscriber, room)
            except ArautoError as error:
                plan.refuse(error)


async def _prepare_wide(session: "Session", plan: Plan, room: Room) -> None:
    name = plan.item.channel
    limit = session.env.hub.limits.pattern_positions_len_max
    if is_compiled(name):
        compiled(name)
        session.env.hub.trying.spend(pattern_cost(name))
    covered: dict[str, None] = {}
    async for names in walk(session, name):
        covered |= dict.fromkeys(names)
        if len(covered) > limit:
            await _join_many(session, plan)
            return
    if must_try(session):
        await decide(session, covered)
    plan.covered = covered
    if plan.item.positions is None:
        return
    for closed in await plan.catchup.find_closed(session):
        await open_channel(session, closed)
    for channel in plan.channels(session):
        await plan.catchup.prepare(channel, session.subscriber, room)


async def _join_many(session: "Session", plan: Plan) -> None:
    """Join more channels than can be recovered, slice by slice. What is published on them meanwhile may
    come before the reply."""
    name = plan.item.channel
    by = (name,)
    trying = session.env.hub.trying
    # The walk to here took its time.
    if session.has_ended():
        return
    _check(session, plan.item)
    _hold(session, plan)
    async for names in walk(session, name):
        if session.has_ended() or name not in session.subscriptions:
            return
        session.bucket.owe(covered_cost(len(names)))
        deciding = Deciding(session)
        for found in names:
            if trying.is_spent:
                await trying.turn()
                if session.has_ended() or name not in session.subscriptions:
                    return
            channel = session.hub.channels.get(found)
            if channel is not None and channel.cover(session.subscriber, by):
                session.bucket.owe(page_cost(channel.greeting_len, 0))
                channel.welcome(session.subscriber, (), recovered=True)
        deciding.charge()


def _hold(session: "Session", plan: Plan) -> None:
    """Begin a pattern subscription."""
    session.bucket.owe(pattern_cost(plan.item.channel))
    session.hub.hold_pattern(plan.item.channel, session.subscriber)
    session.subscriptions[plan.item.channel] = None
    session.subscription_began(plan.item.channel)
    plan.is_joined = True


# --- step two: joining --------------------------------------------------------------------------------


class _Replays:
    """What one request replays: each channel once, from the place furthest back among its items."""

    __slots__ = ("_due", "_fitting", "_outcomes")

    def __init__(self, session: "Session", plans: Sequence[Plan]) -> None:
        self._outcomes: dict[tuple[Plan, Channel], tuple[bool, int]] = {}
        self._due: dict[Channel, list[Message]] = {}
        for plan in plans:
            if plan.error is None and plan.catchup.is_asked and not plan.is_joined:
                for channel in plan.channels(session):
                    whole, missed = plan.catchup.missed(channel)
                    due = channel.due(session.subscriber, missed)
                    self._outcomes[plan, channel] = (whole, len(due))
                    if len(due) > len(self._due.get(channel, ())):
                        self._due[channel] = due
        room = Room(session.env.hub.limits.replay_bytes_max)
        self._due = {channel: due for channel, due in self._due.items() if room.take(due)}
        self._fitting = dict.fromkeys(self._due)

    def outcome(self, plan: Plan, channel: Channel) -> tuple[bool, int]:
        """(whether the item gets all it missed, how many messages that is)."""
        whole, count = self._outcomes.get((plan, channel), (False, 0))
        return (whole, count) if not count or channel in self._fitting else (False, 0)

    def take(self, channel: Channel) -> Sequence[Message]:
        """What to send of a channel: the first time all of it, then nothing."""
        return self._due.pop(channel, ())


def subscribe_now(
    session: "Session", plans: list[Plan]
) -> tuple[tuple[SubscribeResult, ...], list[Welcome]]:
    """Join everything that can be joined. Queue the reply next, then send the welcomes. Who is sent away on
    the way, for one refusal too many, joins nothing more."""
    results: list[SubscribeResult] = []
    welcomes: list[Welcome] = []
    replays = _Replays(session, plans)
    refused_len = 0
    for plan in plans:
        if session.has_ended():
            break
        if plan.error is not None:
            results.append(_refused(session, plan, plan.error, counts=not refused_len))
            refused_len += 1
            continue
        try:
            if plan.is_joined:
                results.append(_joined_many(session, plan, welcomes))
            else:
                _check(session, plan.item, is_admitted=plan.covered is not None)
                join = _join_wide if is_wide(plan.item.channel) else _join_channel
                results.append(join(session, plan, welcomes, replays))
            session.errors = 0
        except ArautoError as error:
            results.append(_refused(session, plan, error, counts=not refused_len))
            refused_len += 1
    if session.has_ended():
        welcomes.clear()
    return tuple(results), welcomes


def _refused(
    session: "Session", plan: Plan, error: ArautoError, *, counts: bool
) -> SubscribeResult:
    session.note_refusal(error, "subscribe", plan.item.channel, counts=counts)
    return SubscribeResult(channel=plan.item.channel, error=ErrorEvent.of(error))


def _join_channel(
    session: "Session", plan: Plan, welcomes: list[Welcome], replays: _Replays
) -> SubscribeResult:
    name = plan.item.channel
    channel = session.hub.channel(name)
    if channel is None:
        raise ArautoError(
            Code.STORAGE_UNAVAILABLE, "the channel closed again; retry", field="channel"
        )
    recovered, count = replays.outcome(plan, channel)
    channel.subscribe(session.subscriber)
    session.subscriptions[name] = channel
    session.subscription_began(name)
    greet = None if recovered else (name, session.hub.place().offset)
    replay = replays.take(channel)
    welcomes.append(Welcome(channel, replay, recovered=recovered, greet=greet))
    return SubscribeResult(
        channel=name, serial=channel.serial, recovered=recovered, recovered_count=count
    )


def _join_wide(
    session: "Session", plan: Plan, welcomes: list[Welcome], replays: _Replays
) -> SubscribeResult:
    name, positions = plan.item.channel, plan.item.positions
    channels = plan.channels(session)
    session.bucket.owe(covered_cost(len(channels)))
    _hold(session, plan)
    by = (name,)
    covered: dict[str, Serial] = {}
    unrecovered: list[str] = []
    count = 0
    deciding = Deciding(session)
    for channel in channels:
        is_new = channel.cover(session.subscriber, by)
        if not channel.has(session.subscriber):
            continue  # one that the session may not read
        covered[channel.name] = channel.serial
        if positions is not None:
            whole, missed = replays.outcome(plan, channel)
            count += missed
            if not whole:
                unrecovered.append(channel.name)
        replay = replays.take(channel)
        if is_new or replay:
            # If it is here by another subscription, that need not have brought the same place along.
            welcomes.append(Welcome(channel if is_new else None, replay))
    deciding.charge()
    place = session.hub.place()
    if positions is None:
        welcomes.append(Welcome(None, greet=(name, place.offset)))
    else:
        unrecovered += plan.catchup.lost_with_closed(covered)
    limit = session.env.hub.limits.pattern_positions_len_max
    whole = len(covered) <= limit
    if positions is not None and not (whole and plan.catchup.proven):
        # It cannot be said in which channels: in any that it covers.
        unrecovered.insert(0, name)
    if whole:
        # Only who knows the place of every channel can come back and be sure.
        session.places[name] = covered[ALL_CHANNELS] = place
    return SubscribeResult(
        channel=name,
        recovered=positions is not None and not unrecovered,
        recovered_count=count,
        positions=dict(islice(covered.items(), limit + 1)),
        unrecovered=tuple(unrecovered[:limit]),
    )


def _joined_many(session: "Session", plan: Plan, welcomes: list[Welcome]) -> SubscribeResult:
    name = plan.item.channel
    if name not in session.subscriptions:
        raise ArautoError(Code.SUBSCRIBE_DENIED, "it is no longer allowed", field="channel")
    if plan.item.positions is not None:
        return SubscribeResult(channel=name, positions={}, unrecovered=(name,))
    welcomes.append(Welcome(None, greet=(name, session.hub.place().offset)))
    return SubscribeResult(channel=name, positions={})


# --- leaving and re-checking --------------------------------------------------------------------------


def handle_unsubscribe(session: "Session", request: UnsubscribeRequest) -> None:
    unknown = [name for name in request.channels if name not in session.subscriptions]
    for name in request.channels:
        session.drop_subscription(name)
    session.restorable.changed()
    if unknown:
        raise ArautoError(
            Code.NOT_SUBSCRIBED,
            f"{len(unknown)} of these are not subscriptions of this session",
            field="channels",
        )
    session.errors = 0
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
    name = _user_channel(session)
    if not name or name in session.subscriptions or session.is_restoring:
        return
    plans = [Plan(SubscribeItem(channel=name))]
    if not _must_wait(session, plans[0]):
        _announce(session, plans)
    else:
        session.env.hub.tasks.spawn(_join_user_channel_later(session, plans))


def _user_channel(session: "Session") -> str:
    settings = session.hub.state.settings
    if not settings.user_channel or not session.user:
        return ""
    return f"{settings.user_channel_namespace}:{session.user}"


async def _join_user_channel_later(session: "Session", plans: list[Plan]) -> None:
    await prepare(session, plans)
    if plans[0].item.channel == _user_channel(session):  # else it is somebody else's by now
        _announce(session, plans)


def _announce(session: "Session", plans: list[Plan]) -> None:
    # One that is being restored joins it with what it missed, or else afterwards.
    if (
        session.has_ended()
        or session.is_restoring
        or plans[0].item.channel in session.subscriptions
    ):
        return
    results, welcomes = subscribe_now(session, plans)
    session.send(SubscribeReply(id=0, results=results))
    for welcome in welcomes:
        welcome.send(session)


# --- helpers ------------------------------------------------------------------------------------------


def _check(session: "Session", item: SubscribeItem, *, is_admitted: bool = False) -> None:
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
    check_readable(session, name, is_admitted=is_admitted)
