"""What a session does with each request: one line per event of the protocol.

A handler either finishes at once and returns None, or returns the coroutine that finishes it. What it raises
is the answer. Neighbours hold the longer ones: `publish.py`, `subscribe.py`, `identify.py`, `pages.py`,
`read.py`.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from arauto.codec.events import (
    AuthRequest,
    CloseRequest,
    DocumentChangeRequest,
    DocumentGetRequest,
    HistoryRequest,
    MarkReadRequest,
    OccupancyRequest,
    Ping,
    Pong,
    PresenceRequest,
    PublishRequest,
    Request,
    RestoreRequest,
    RpcRequest,
    StreamRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.session.documents import handle_document_change, handle_document_get
from arauto.session.identify import handle_auth, handle_restore
from arauto.session.pages import handle_history
from arauto.session.publish import handle_publish
from arauto.session.read import handle_occupancy, handle_presence
from arauto.session.subscribe import handle_subscribe, handle_unsubscribe, recheck_subscriptions

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["HANDLERS", "recheck_subscriptions"]

Work = Coroutine[Any, Any, None]


def handle_ping(session: "Session", request: Ping) -> None:
    session.send(Pong(id=request.id))


def handle_pong(session: "Session", request: Pong) -> None:
    """That anything was heard is all a pong says, and the session has noted it."""


def handle_close(session: "Session", request: CloseRequest) -> None:
    session.outbox.flush()
    session.connection.close(Code.CLOSED_BY_CLIENT, "")


def handle_unavailable(session: "Session", request: Request) -> None:
    raise ArautoError(Code.NOT_AVAILABLE, "this node does not offer that yet", field="event")


HANDLERS: dict[type[Request], Callable[["Session", Any], Work | None]] = {
    PublishRequest: handle_publish,
    Ping: handle_ping,
    Pong: handle_pong,
    SubscribeRequest: handle_subscribe,
    UnsubscribeRequest: handle_unsubscribe,
    AuthRequest: handle_auth,
    RestoreRequest: handle_restore,
    CloseRequest: handle_close,
    PresenceRequest: handle_presence,
    OccupancyRequest: handle_occupancy,
    HistoryRequest: handle_history,
    DocumentGetRequest: handle_document_get,
    DocumentChangeRequest: handle_document_change,
    RpcRequest: handle_unavailable,
    StreamRequest: handle_unavailable,
    MarkReadRequest: handle_unavailable,
}
