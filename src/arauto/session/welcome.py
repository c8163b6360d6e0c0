"""What follows a successful subscription, once its reply is queued."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arauto.hub.channel import Channel
from arauto.model import Message
from arauto.session.cost import bytes_cost, page_cost

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Welcome"]


class Welcome:
    """What was missed, what the channel tells a newcomer, and what is retained."""

    __slots__ = ("channel", "greet", "recovered", "replay")

    def __init__(
        self,
        channel: Channel | None,
        replay: Sequence[Message] = (),
        *,
        recovered: bool = True,
        greet: tuple[str, int] | None = None,
    ) -> None:
        self.channel = channel
        self.replay = replay
        self.recovered = recovered
        self.greet = greet
        """What to look for retained messages of, and up to when."""

    def send(self, session: "Session") -> None:
        session.bucket.owe(bytes_cost(sum(len(message.payload) for message in self.replay)))
        if self.channel is not None:
            session.bucket.owe(page_cost(self.channel.greeting_len, 0))
            self.channel.welcome(session.subscriber, self.replay, recovered=self.recovered)
        elif self.replay:
            encode = session.outbox.format.encode_message
            session.outbox.put(b"".join(map(encode, self.replay)))
            session.hub.count_deliveries(len(self.replay))
        if self.greet is not None:
            session.greet(*self.greet)
