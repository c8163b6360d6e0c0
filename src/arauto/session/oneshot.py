"""Publishing without a session: one request over HTTP, with a token or as an administrator."""

import asyncio
from collections.abc import Callable

import msgspec

from arauto.codec import json_event_shapes as event_shapes
from arauto.codec import json_request_shapes as request_shapes
from arauto.codec.checks import check_items
from arauto.codec.events import Ack, AckItem, ErrorEvent, PublishItem, PublishRequest
from arauto.codec.json_body import decode_body
from arauto.codec.json_events import EVENT_TO_SHAPE
from arauto.codec.json_open import OpenPublishBody, note_unknown
from arauto.codec.json_requests import REQUEST_FROM_SHAPE
from arauto.codec.unknown import Unknown, UnknownFieldError
from arauto.errors import ArautoError
from arauto.flow.authorise import publish_refusal
from arauto.grants import GrantSet
from arauto.hub.hub import Hub
from arauto.hub.refusals import Asker, Refusals
from arauto.hub.rules import HubState
from arauto.hub.sender import Sender
from arauto.model import RESERVED_HEADERS, Identity, Serial
from arauto.names import check_channel
from arauto.session.access import withdrawn
from arauto.session.cost import deciding_cost, matching_cost, rate_error

__all__ = [
    "Caller",
    "PublishBody",
    "Published",
    "items_of",
    "publish_all",
    "published",
    "read_messages",
    "refuse_all",
]

#: Grants and patterns are tried for no more than this in one request: some 50 milliseconds.
_TRYING_TOKENS_MAX = 1_000

#: (hub, channel, headers) → headers to send on.
TracePublish = Callable[[str, str, dict[str, str] | None], dict[str, str] | None]


class PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to publish, in order. Each looks as in the protocol's JSON flavour."""

    messages: list[request_shapes.PublishItem]


class Published(msgspec.Struct, frozen=True):
    """One outcome per message, in the same order: its serial, or the error that refused it."""

    results: list[event_shapes.AckItem]


def read_messages(
    body: bytes, unknown: Unknown | None = None, *, is_strict: bool = False
) -> tuple[PublishItem, ...]:
    """The messages of a client's body, `{"messages": […]}`.

    Args:
        body: as it came.
        unknown: told of the fields that this version does not know and ignores.
        is_strict: refuse those fields, as the client asked for.

    Raises:
        ArautoError: BAD_FIELD or BATCH_TOO_LARGE, naming the field.
    """
    try:
        return items_of(decode_body(body, PublishBody))
    except UnknownFieldError:
        open_body = decode_body(body, OpenPublishBody)
        note_unknown(body, OpenPublishBody, unknown or Unknown())
        if is_strict:
            raise
    return items_of(PublishBody(open_body.messages))


def items_of(
    body: PublishBody, *, reserved: frozenset[str] = RESERVED_HEADERS
) -> tuple[PublishItem, ...]:
    """As `read_messages`, for who has read the JSON. An administrator has no `reserved` headers."""
    shape = request_shapes.Publish(messages=body.messages)
    request = REQUEST_FROM_SHAPE[request_shapes.Publish](shape)
    assert isinstance(request, PublishRequest)
    check_items(request.items, reserved=reserved)
    return request.items


def published(outcomes: list[AckItem]) -> Published:
    """The answer to a request's messages."""
    shape = EVENT_TO_SHAPE[Ack](Ack(id=0, results=tuple(outcomes)))
    assert isinstance(shape, event_shapes.Ack)
    return Published(shape.results)


class Caller:
    """Who asks: an identity, or nobody in particular. Implements `authorise.Who` and `correlate.Author`."""

    __slots__ = ("_is_revoked", "granted", "identity", "matching_tokens")

    def __init__(
        self,
        identity: Identity | None,
        is_revoked: Callable[[], bool] = lambda: False,
        *,
        granted: GrantSet | None = None,
    ) -> None:
        """`is_revoked` says whether the identity was withdrawn since it was established; `granted` is what it
        may, if that is at hand."""
        self._is_revoked = is_revoked
        self.identity = identity
        if granted is None and identity is not None:
            granted = GrantSet(identity.grants)
        self.granted = granted
        self.matching_tokens = 0.0
        """What finding the patterns has cost that lead to channels which opened."""

    @property
    def user(self) -> str:
        return self.identity.user if self.identity is not None else ""

    @property
    def deciding_tokens(self) -> float:
        """What deciding by the grants has cost so far, and trying patterns."""
        deciding = deciding_cost(self.granted.effort) if self.granted is not None else 0
        return deciding + self.matching_tokens

    def check_standing(self) -> None:
        """Ask again after each wait: an administrator may have shut the caller out meanwhile.

        Raises:
            ArautoError: AUTH_FAILED.
        """
        if self._is_revoked():
            raise withdrawn()


def refuse_all(
    state: HubState,
    items: tuple[PublishItem, ...],
    asker: Asker,
    caller: Caller | None,
    refusals: Refusals,
) -> list[AckItem] | None:
    """The outcomes if none of the messages may be published; None if one may. By a hub's settings, so
    that nobody opens a hub by asking for what they are denied. A caller of None may publish anywhere."""
    errors: list[ArautoError] = []
    for item in items:
        try:
            _check_rights(state, item, caller)
        except ArautoError as refusal:
            errors.append(refusal)
        else:
            return None
    for item, error in zip(items, errors, strict=True):
        refusals.note(error, asker, request="publish", channel=item.channel)
    return [AckItem(error=ErrorEvent.of(error)) for error in errors]


async def publish_all(
    hub: Hub,
    items: tuple[PublishItem, ...],
    asker: Asker,
    caller: Caller | None,
    trace: TracePublish | None = None,
    *,
    size_bytes: int,
) -> list[AckItem]:
    """Publish in order; each outcome stands for itself. A caller of None may publish anywhere.

    `size_bytes` is what the request took on the wire.
    """
    hub.counters.read(size_bytes)
    sender = Sender(user=asker.user, origin=asker.origin)
    waiting = [await _publish(hub, item, asker, sender, caller, trace) for item in items]
    return [await outcome for outcome in waiting]


async def _publish(
    hub: Hub,
    item: PublishItem,
    asker: Asker,
    sender: Sender,
    caller: Caller | None,
    trace: TracePublish | None,
) -> asyncio.Future[AckItem]:
    outcome: asyncio.Future[AckItem] = asyncio.get_running_loop().create_future()

    def reply(serial: Serial | None, duplicate: bool, error: ArautoError | None) -> None:
        if error is not None:
            hub.refusals.note(error, asker, request="publish", channel=item.channel)
        if not outcome.done():
            failed = ErrorEvent.of(error) if error is not None else None
            outcome.set_result(AckItem(serial=serial, duplicate=duplicate, error=failed))

    try:
        trying = hub.env.trying
        if trying.is_spent:
            await trying.turn()
        _decide(hub, item, caller)
        channel = hub.channels.get(item.channel)
        if channel is None:
            channel = await hub.open_channel(item.channel)
            cost = matching_cost(channel.matching_effort)
            trying.spend(cost)
            if caller is not None:
                caller.matching_tokens += cost
            _decide(hub, item, caller)
        hub.admit_publish(len(item.payload))
        if trace is not None:
            headers = trace(hub.name, item.channel, item.headers)
            item = msgspec.structs.replace(item, headers=headers)
        channel.publish(item, sender, reply)
    except ArautoError as error:
        reply(None, False, error)
    return outcome


def _decide(hub: Hub, item: PublishItem, caller: Caller | None) -> None:
    before = caller.deciding_tokens if caller is not None else 0
    _check_rights(hub.state, item, caller)
    if caller is not None:
        hub.env.trying.spend(caller.deciding_tokens - before)


def _check_rights(state: HubState, item: PublishItem, caller: Caller | None) -> None:
    check_channel(item.channel)
    if caller is None:
        return
    caller.check_standing()
    if caller.deciding_tokens > _TRYING_TOKENS_MAX:
        raise rate_error(state.settings.quotas)
    rules = state.resolve_rules(item.channel)
    refusal = publish_refusal(caller, item.channel, rules, state.settings)
    if refusal is not None:
        raise refusal
