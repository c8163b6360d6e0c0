"""Gives a new subscriber the retained messages of what it subscribed to, no faster than it reads them.

A pattern may cover very many. They go out in slices, in order of name, each when the connection has
taken the one before; nothing is collected beforehand. What changes meanwhile comes by itself, as a
message.
"""

from collections import deque
from typing import TYPE_CHECKING

from arauto.model import Message, When
from arauto.session.access import Deciding
from arauto.session.cost import deciding_wait_s

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Greeter"]

#: Names looked at, and bytes sent, before others get their turn.
_SLICE_LEN = 200
_SLICE_BYTES = 65_536
#: The same for what deciding by the session's grants takes: about a millisecond.
_SLICE_TOKENS = 20


class Greeter:
    """The greetings one session is still owed. One per session that subscribes to something retained."""

    __slots__ = ("_after", "_is_waiting", "_owed", "_session")

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._owed: deque[tuple[str, int]] = deque()
        self._after = ""
        self._is_waiting = False

    def greet(self, name: str, place_ms: int) -> None:
        """Owe what is retained for a channel, pattern or topic and was published up to that time. The
        first slice goes now, so its reply must be queued already."""
        self._owed.append((name, place_ms))
        if not self._is_waiting:
            self._go_on()

    def _go_on(self) -> None:
        self._is_waiting = False
        session = self._session
        left_len, left_bytes = _SLICE_LEN, _SLICE_BYTES
        while self._owed and not session.has_ended():
            outbox = session.outbox
            if left_len <= 0 or left_bytes <= 0 or not outbox.is_clear:
                self._is_waiting = True
                if outbox.is_clear:
                    session.env.hub.clock.call_later(self._rest_s(), self._go_on)
                else:
                    # Not by a timer: nobody is to pay for those who read nothing.
                    outbox.on_clear = self._go_on
                return
            left_bytes -= self._send_some(*self._owed[0], left_bytes)
            left_len -= _SLICE_LEN if self._after else 1

    def _send_some(self, name: str, place_ms: int, room_bytes: int) -> int:
        """Send what fits of the first that is owed; return its size."""
        session = self._session
        found: list[Message] = []
        after = ""
        if name in session.subscriptions:
            found, after = session.hub.retained.page(name, self._after, _SLICE_LEN)
        sent_bytes = 0
        deciding = Deciding(session)
        for index, message in enumerate(found):
            if message.ts_ms <= place_ms and self._is_for(message):
                session.outbox.put(session.outbox.format.encode_message(message))
                session.hub.count_deliveries(1)
                sent_bytes += len(message.payload)
            is_enough = sent_bytes >= room_bytes or deciding.cost >= _SLICE_TOKENS
            if is_enough and index + 1 < len(found):
                after = message.channel
                break
        deciding.charge()
        self._after = after
        if not after:
            self._owed.popleft()
        return sent_bytes

    def _rest_s(self) -> float:
        """How long until the next slice: where grants have to be tried, who owes for that waits."""
        granted = self._session.granted
        return deciding_wait_s(self._session) if granted is not None and granted.must_try else 0

    def _is_for(self, message: Message) -> bool:
        session = self._session
        rules = session.hub.state.resolve_rules(message.channel)
        return (
            rules.retain is not When.NEVER
            and session.may_read(message.channel, rules)
            and not session.subscriber.is_excluded(message)
        )
