"""Publishing from a session. The hot path: a cached target, two checks, and the channel."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from arauto.codec.events import Ack, AckItem, ErrorEvent, PublishItem, PublishRequest
from arauto.errors import ArautoError
from arauto.hub.channel import Channel
from arauto.hub.inflight import PublishReply
from arauto.model import Serial
from arauto.session.access import open_writable, withdrawn, writable

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["handle_publish"]

#: Channels a session has lately published to, each checked once per settings generation. By name, so that
#: who publishes to a channel does not keep it once it has closed.
_TARGETS_MAX = 4_096


class _Acks:
    """Collects the outcomes of one request's items and answers when the last one is in."""

    __slots__ = ("_id", "_is_refused", "_left", "_results", "_session")

    def __init__(self, session: "Session", id: int, count: int) -> None:
        self._session = session
        self._id = id
        self._left = count
        self._results: list[AckItem | None] = [None] * count
        self._is_refused = False
        """Whether any of them was refused, which counts once."""

    def slot(self, index: int, channel: str) -> PublishReply:
        def reply(serial: Serial | None, duplicate: bool, error: ArautoError | None) -> None:
            if error is not None:
                counts, self._is_refused = not self._is_refused, True
                self._session.note_refusal(error, "publish", channel, counts=counts)
            self._results[index] = AckItem(
                serial=serial, duplicate=duplicate, error=ErrorEvent.of(error) if error else None
            )
            self._left -= 1
            if not self._left:
                results = tuple(item for item in self._results if item is not None)
                self._session.send(Ack(id=self._id, results=results))

        return reply


def handle_publish(session: "Session", request: PublishRequest) -> Coroutine[Any, Any, None] | None:
    items = request.items
    acks = _Acks(session, request.id, len(items)) if request.id else None
    refused_len = 0
    for index, item in enumerate(items):
        reply = acks.slot(index, item.channel) if acks is not None else None
        try:
            channel = _target(session, item.channel)
            if channel is None:
                return _publish_rest(session, items, index, acks)
            _publish(session, channel, item, reply)
        except ArautoError as error:
            _refuse(session, error, item.channel, reply, counts=not refused_len)
            refused_len += 1
            if session.has_ended():
                break  # one refusal too many: what else it asked for is no more work
    return None


async def _publish_rest(
    session: "Session", items: tuple[PublishItem, ...], start: int, acks: _Acks | None
) -> None:
    """The rest of a request whose next channel has to be opened first. What opens others goes on in the next
    turn whenever enough was tried in this one."""
    trying = session.env.hub.trying
    refused_len = 0
    for index in range(start, len(items)):
        item = items[index]
        reply = acks.slot(index, item.channel) if acks is not None else None
        try:
            if trying.is_spent:
                await trying.turn()
            if session.is_revoked():
                raise withdrawn()
            channel = _target(session, item.channel) or await open_writable(session, item.channel)
            _publish(session, channel, item, reply)
        except ArautoError as error:
            _refuse(session, error, item.channel, reply, counts=not refused_len)
            refused_len += 1
            if session.has_ended():
                return


def _target(session: "Session", name: str) -> Channel | None:
    """The channel, if the session may publish to it; None if that has to wait: it must be opened first, or
    enough was tried in this turn."""
    targets = session.targets
    hub = session.hub
    if targets is not None and session.targets_generation == hub.generation and name in targets:
        channel = hub.channels.get(name)
        if channel is not None and channel.is_open:
            return channel
    return _find_target(session, name)


def _find_target(session: "Session", name: str) -> Channel | None:
    hub = session.hub
    if hub.env.trying.is_spent:
        return None
    if session.targets is None or session.targets_generation != hub.generation:
        session.targets = set()
        session.targets_generation = hub.generation
    channel = writable(session, name)
    if channel is not None:
        if len(session.targets) >= _TARGETS_MAX:
            session.targets.clear()
        session.targets.add(name)
    return channel


def _publish(
    session: "Session", channel: Channel, item: PublishItem, reply: PublishReply | None
) -> None:
    session.hub.admit_publish(len(item.payload))
    trace = session.env.trace_publish
    if trace is not None:
        headers = trace(session.hub.name, channel.name, item.headers)
        if headers is not item.headers:
            item = msgspec.structs.replace(item, headers=headers)
    channel.publish(item, session.sender, reply)
    session.errors = 0


def _refuse(
    session: "Session",
    error: ArautoError,
    channel: str,
    reply: PublishReply | None,
    *,
    counts: bool,
) -> None:
    if reply is not None:
        reply(None, False, error)
        return
    session.send(ErrorEvent.of(error, 0))
    session.note_refusal(error, "publish", channel, counts=counts)
