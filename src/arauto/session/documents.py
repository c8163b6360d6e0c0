"""Reading and changing documents from a session."""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from arauto.codec.events import (
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentUpdated,
    EncodedValue,
    Operation,
    UnreadOperations,
)
from arauto.codec.unread import operations_of
from arauto.errors import ArautoError, Code
from arauto.features.document.channel import DocumentChannel
from arauto.hub.channel import Channel
from arauto.session.access import check_readable, open_readable, open_writable, readable, writable
from arauto.session.cost import bytes_cost, charge, document_cost, visits_cost
from arauto.tasks import in_turns

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["handle_document_change", "handle_document_get"]

#: Operations that take no more are read at once.
_AT_ONCE_BYTES = 8_192


def handle_document_get(
    session: "Session", request: DocumentGetRequest
) -> Coroutine[Any, Any, None] | None:
    channel = readable(session, request.channel)
    if channel is None:
        return _get_later(session, request)
    _get(session, channel, request)
    return None


async def _get_later(session: "Session", request: DocumentGetRequest) -> None:
    _get(session, await open_readable(session, request.channel), request)


def _get(session: "Session", channel: Channel, request: DocumentGetRequest) -> None:
    def reply(version: int, value: EncodedValue, changes: Sequence[DocumentUpdated]) -> None:
        if session.has_ended():
            return
        try:
            # It may have waited for changes and for other readers: what it gets was written since.
            check_readable(session, request.channel)
        except ArautoError as refusal:
            session.refuse(refusal, request.id, request)
            return
        session.send(
            DocumentGetReply(id=request.id, channel=request.channel, version=version, value=value)
        )
        session.errors = 0
        if channel.has(session.subscriber):
            for update in changes:
                session.send(update)

    document = _document(channel)
    charge(session, bytes_cost(document.size_bytes))
    document.get(session.outbox.format.codec, reply)


def handle_document_change(
    session: "Session", request: DocumentChangeRequest
) -> Coroutine[Any, Any, None] | None:
    # The right comes before the work: reading the values is most of it.
    channel = writable(session, request.channel)
    if channel is not None:
        _document(channel)
    unread = request.operations
    if isinstance(unread, UnreadOperations):
        charge(session, document_cost(unread.size_bytes))
        if unread.size_bytes > _AT_ONCE_BYTES:
            return _read_and_change(session, request, unread)
    operations = operations_of(request)
    if channel is None:
        return _change_later(session, request, operations)
    _change(session, channel, request, operations)
    return None


async def _read_and_change(
    session: "Session", request: DocumentChangeRequest, unread: UnreadOperations
) -> None:
    """Large ones are read one after another, in the whole node, each step by step."""
    async with session.env.reading:
        if session.has_ended():
            return
        operations = await in_turns(unread.read())
    await _change_later(session, request, operations)


async def _change_later(
    session: "Session", request: DocumentChangeRequest, operations: tuple[Operation, ...]
) -> None:
    channel = await open_writable(session, request.channel)
    _change(session, channel, request, operations)


def _change(
    session: "Session",
    channel: Channel,
    request: DocumentChangeRequest,
    operations: tuple[Operation, ...],
) -> None:
    def reply(version: int, error: ArautoError | None, visited_nodes: int) -> None:
        if session.has_ended():
            return
        session.bucket.owe(visits_cost(visited_nodes))
        if error is not None:
            session.refuse(error, request.id, request)
            return
        session.errors = 0
        if request.id:
            session.send(
                DocumentChangeReply(id=request.id, channel=request.channel, version=version)
            )

    document = _document(channel)
    session.hub.admit_publish(0)
    document.change(operations, request.if_version, session.sender, reply)


def _document(channel: Channel) -> DocumentChannel:
    if not isinstance(channel, DocumentChannel):
        raise ArautoError(
            Code.WRONG_CHANNEL_TYPE, "only channels named doc:… hold a document", field="channel"
        )
    return channel
