"""The client's connection as a state machine: every legal step is a line of one table. Pure."""

from enum import StrEnum

from arauto.errors import ArautoError, Code

__all__ = ["TABLE", "State", "Trigger", "next_state"]


class State(StrEnum):
    """What `Client.state` shows."""

    NEW = "new"
    """Not started."""
    CONNECTING = "connecting"
    """Opening a connection."""
    JOINING = "joining"
    """Connected; the session is being restored or authenticated."""
    CONNECTED = "connected"
    """Everything works."""
    WAITING = "waiting"
    """The connection is gone; another attempt follows."""
    CLOSING = "closing"
    """Saying goodbye."""
    CLOSED = "closed"
    """Ended on request. Final."""
    FAILED = "failed"
    """Ended by an error that reconnecting would not cure. Final."""


class Trigger(StrEnum):
    """What can happen to a connection."""

    START = "start"
    OPENED = "opened"
    JOINED = "joined"
    LOST = "lost"
    RETRY = "retry"
    REFUSED = "refused"
    CLOSE = "close"
    ENDED = "ended"


TABLE: dict[tuple[State, Trigger], State] = {
    (State.NEW, Trigger.START): State.CONNECTING,
    (State.NEW, Trigger.CLOSE): State.CLOSING,
    (State.CONNECTING, Trigger.OPENED): State.JOINING,
    (State.CONNECTING, Trigger.LOST): State.WAITING,
    (State.CONNECTING, Trigger.REFUSED): State.FAILED,
    (State.CONNECTING, Trigger.CLOSE): State.CLOSING,
    (State.JOINING, Trigger.JOINED): State.CONNECTED,
    (State.JOINING, Trigger.LOST): State.WAITING,
    (State.JOINING, Trigger.REFUSED): State.FAILED,
    (State.JOINING, Trigger.CLOSE): State.CLOSING,
    (State.CONNECTED, Trigger.LOST): State.WAITING,
    (State.CONNECTED, Trigger.REFUSED): State.FAILED,
    (State.CONNECTED, Trigger.CLOSE): State.CLOSING,
    (State.WAITING, Trigger.RETRY): State.CONNECTING,
    (State.WAITING, Trigger.CLOSE): State.CLOSING,
    (State.CLOSING, Trigger.ENDED): State.CLOSED,
}


def next_state(state: State, trigger: Trigger) -> State:
    """Return the state after `trigger`.

    Raises:
        ArautoError: CONFLICT if the step is not in the table.
    """
    after = TABLE.get((state, trigger))
    if after is None:
        raise ArautoError(Code.CONFLICT, f"a client that is {state} cannot take the step {trigger}")
    return after
