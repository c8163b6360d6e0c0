"""What one connection is owed by channels it joined: made no faster than the connection takes it.

One request may join very many channels, each with something to tell a newcomer. So what they tell is made
when it goes out, and for a connection that does not read it is not made at all.
"""

from typing import TYPE_CHECKING, Protocol

from arauto.hub.fanout import Turn

if TYPE_CHECKING:
    from arauto.hub.outbox import Outbox

__all__ = ["Debtor", "Owed"]

#: About so much goes out in one turn.
_SLICE_BYTES = 65_536
#: What each counts beside its bytes, for the work; some have none.
_FRAME_BYTES = 64


class Debtor(Protocol):
    """Who has something to tell a newcomer. Implemented by features of channels."""

    def owed_to(self, outbox: "Outbox") -> bytes:
        """The frames, as they are now; b"" if that connection is no longer to be told."""


class Owed:
    """To one connection, while anything is. Each debtor is in it once, however often it was joined."""

    __slots__ = ("_debtors", "_outbox", "_room_bytes", "_slice_is_due", "_turn")

    def __init__(self, outbox: "Outbox", turn: Turn) -> None:
        self._outbox = outbox
        self._turn = turn
        self._debtors: dict[object, Debtor] = {}
        self._room_bytes = 0
        """In this turn."""
        self._slice_is_due = False

    def add(self, debtor: Debtor, *, at_once: bool) -> None:
        """It goes out at once, if so wished and little else did in this turn, and the connection takes it."""
        self._debtors[debtor] = debtor
        if not self._slice_is_due:
            self._begin_slice()
        if at_once:
            self._send()

    def forgive(self, debtor: object) -> None:
        """It is owed no more, if it ever was."""
        self._debtors.pop(debtor, None)

    def resume(self) -> None:
        """The connection takes more again."""
        if not self._slice_is_due:
            self._begin_slice()
            self._send()

    def _begin_slice(self) -> None:
        self._room_bytes = _SLICE_BYTES
        self._slice_is_due = True
        self._turn.soon(self._next_slice)

    def _next_slice(self) -> None:
        self._slice_is_due = False
        if not self._debtors:
            self._outbox.owes_nothing(self)
        elif self._outbox.is_clear:  # else `resume` goes on, or nobody is there any more
            self._begin_slice()
            self._send()

    def _send(self) -> None:
        outbox = self._outbox
        while self._debtors and self._room_bytes > 0 and outbox.is_clear:
            # The last first: their order does not matter, and finding the first of a dict costs a walk.
            _, debtor = self._debtors.popitem()
            data = debtor.owed_to(outbox)
            self._room_bytes -= len(data) + _FRAME_BYTES
            if data:
                outbox.send_frame(data)
