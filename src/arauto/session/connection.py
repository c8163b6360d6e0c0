"""What a session needs of whatever carries it, and what is left of that when it has ended."""

from typing import Protocol

from arauto.errors import Code
from arauto.hub.outbox import Sink

__all__ = ["Connection", "EndedConnection"]


class Connection(Sink, Protocol):
    """A gateway's connection: the outbox's sink, and the control a session needs over its reading."""

    address: str
    transport: str
    """The kind of transport, "websocket" or "sse"; goes to the journal."""
    send_buffer_bytes: int
    """What may wait for a slow client."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, code: Code, reason: str) -> None:
        """Send what was written so far, then end the connection with that code."""


class EndedConnection:
    """Where the client was, for the records of what it had asked for before. Implements `Connection`.

    The real one holds its session; a session that has ended must not hold it in turn.
    """

    __slots__ = ("address", "send_buffer_bytes", "transport")

    def __init__(self, ended: Connection) -> None:
        self.address = ended.address
        self.transport = ended.transport
        self.send_buffer_bytes = 0

    def write(self, data: bytes) -> None:
        """Nobody is there to read it."""

    def close_slow(self, code: Code, reason: str) -> None:
        """It is closed."""

    def pause_reading(self) -> None:
        """Nothing comes."""

    def resume_reading(self) -> None:
        """Nothing comes."""

    def close(self, code: Code, reason: str) -> None:
        """It is closed."""
