"""Keeps the node's idea of this client's subscriptions in step with the client's own.

Each new connection starts without subscriptions (or, if the session was restored, with those of before).
All that the client wants are asked for in few, size-bounded requests, with the places to recover from.
"""

from collections.abc import Callable

import msgspec

from arauto.client.backoff import Backoff, delay_s
from arauto.client.positions import item_bytes
from arauto.client.router import Router
from arauto.client.subscription import Subscription
from arauto.client.wire import Wire
from arauto.clock import Clock, Timer
from arauto.codec.events import (
    ErrorEvent,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeRequest,
)
from arauto.entropy import Entropy
from arauto.errors import ArautoError, Code
from arauto.model import Serial
from arauto.names import ALL_CHANNELS

__all__ = ["Attachments"]

#: Channels asked for in one request.
_BATCH_LEN_MAX = 100
#: Bytes of one request: well below any node's frame limit.
_REQUEST_BYTES_MAX = 262_144


class Attachments:
    """Who is subscribed on the current connection, who waits for it, and who must ask again."""

    __slots__ = (
        "_asked",
        "_attempt",
        "_backoff",
        "_clock",
        "_entropy",
        "_explained",
        "_holds_back",
        "_later",
        "_leaving",
        "_made",
        "_made_ever",
        "_new_id",
        "_restorable",
        "_retaken",
        "_router",
        "_timer",
        "_waiting",
        "_wake",
    )

    def __init__(
        self,
        router: Router,
        clock: Clock,
        entropy: Entropy,
        backoff: Backoff,
        new_id: Callable[[], int],
        wake: Callable[[], None],
        holds_back: Callable[[int], bool],
        explained: Callable[[ErrorEvent], ErrorEvent],
    ) -> None:
        self._router = router
        self._clock = clock
        self._entropy = entropy
        self._backoff = backoff
        self._new_id = new_id
        self._wake = wake
        self._holds_back = holds_back
        """Whether a refusal with this number is for now only."""
        self._explained = explained
        """A refusal as its caller is told of it."""
        self._waiting: dict[Subscription, bool] = {}
        """To be asked for; True = in a request of its own."""
        self._asked: dict[int, list[Subscription]] = {}
        self._later: list[Subscription] = []
        """Refused for now; asked for again when the timer ends."""
        self._timer: Timer | None = None
        self._attempt = 0
        self._leaving: list[str] = []
        self._retaken: dict[str, None] = {}
        self._restorable: dict[str, None] = {}
        self._made: dict[str, SubscribeResult] = {}
        """Subscriptions the node made by itself on this connection (the user channel)."""
        self._made_ever: dict[str, None] = {}

    def want(self, subscription: Subscription) -> None:
        """Ask for a subscription at the end of the loop turn; no need if the node already made it."""
        made = self._made.get(subscription.channel)
        if made is not None:
            subscription.handle_result(made)
        else:
            self._waiting[subscription] = False

    def postpone(self, subscription: Subscription) -> None:
        """The node ended or refused a subscription for now: it is asked for again, from its place, at the
        next `flush`."""
        subscription.detach()
        self._waiting[subscription] = False

    def attach_all(self) -> None:
        """A new connection stands: ask for everything it does not carry yet."""
        waiting = [subscription for subscription in self._router if not subscription.is_attached]
        self._waiting = dict.fromkeys(waiting, False)

    def detach_all(self) -> None:
        """The connection is gone."""
        self._asked.clear()
        self._waiting.clear()
        self._later.clear()
        self._leaving.clear()
        self._retaken.clear()
        self._made.clear()
        self._attempt = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for subscription in self._router:
            subscription.detach()

    def flush(self, wire: Wire) -> None:
        """Send the requests for all that wait."""
        if self._leaving:
            wire.send(UnsubscribeRequest(channels=tuple(self._leaving)))
            self._leaving = []
        batch: list[Subscription] = []
        items: list[SubscribeItem] = []
        room_bytes = _REQUEST_BYTES_MAX
        waiting, self._waiting = self._waiting, {}
        for subscription, alone in waiting.items():
            if subscription.is_ended:
                continue
            item = subscription.positions.item(_REQUEST_BYTES_MAX, self._lowest)
            size_bytes = item_bytes(item)
            if batch and (alone or size_bytes > room_bytes or len(batch) >= _BATCH_LEN_MAX):
                self._send(wire, batch, items)
                batch, items, room_bytes = [], [], _REQUEST_BYTES_MAX
            batch.append(subscription)
            items.append(item)
            room_bytes -= size_bytes
            if alone:
                room_bytes = 0
        if batch:
            self._send(wire, batch, items)

    def _send(self, wire: Wire, batch: list[Subscription], items: list[SubscribeItem]) -> None:
        id = self._new_id()
        self._asked[id] = batch
        try:
            wire.send(SubscribeRequest(id=id, items=tuple(items)))
        except ArautoError as error:
            self.handle_refusal(id, error)

    # --- answers -----------------------------------------------------------------------------------

    def handle_reply(self, reply: SubscribeReply) -> None:
        """The node's answer, or its word that it subscribed us by itself (id 0)."""
        if not reply.id:
            for result in reply.results:
                self._note_made(result)
            return
        results = {result.channel: result for result in reply.results}
        for subscription in self._asked.pop(reply.id, []):
            if subscription.is_ended:
                continue
            answer = results.get(subscription.channel)
            if answer is None:
                self._refuse(subscription, _no_answer(subscription.channel))
            elif answer.error is not None and answer.error.code == Code.ALREADY_SUBSCRIBED:
                self._take_anew(subscription, answer)
            else:
                self._settle(subscription, answer)

    def handle_refusal(self, id: int, error: ArautoError) -> bool:
        """A whole request was refused; False if it is not one of these."""
        batch = self._asked.pop(id, None)
        if batch is None:
            return False
        alone = len(batch) > 1 and not error.retryable
        for subscription in batch:
            if alone:
                self._waiting[subscription] = True
            elif not subscription.is_ended:
                self._refuse(subscription, error)
        if alone:
            self._wake()
        return True

    def _note_made(self, result: SubscribeResult) -> None:
        if result.error is not None:
            return
        self._made[result.channel] = result
        self._made_ever[result.channel] = None
        subscription = self._router.get(result.channel)
        if subscription is not None and not subscription.was_ready:
            # One that was ready before is asked for instead, to recover what it missed.
            self._waiting.pop(subscription, None)
            subscription.handle_result(result)

    def _take_anew(self, subscription: Subscription, result: SubscribeResult) -> None:
        """The node holds it from before: leave and enter again, once per connection, so that what was
        missed meanwhile comes in order."""
        name = subscription.channel
        if name not in self._retaken:
            self._retaken[name] = None
            self._leaving.append(name)
            self._waiting[subscription] = True
            self._wake()
            return
        made = self._made.get(name)
        if made is not None:
            # The node does not let us leave: what was missed is unknown, what comes now is not.
            result = msgspec.structs.replace(made, recovered=False)
        self._settle(subscription, result)

    def _settle(self, subscription: Subscription, result: SubscribeResult) -> None:
        if result.error is not None and self._holds_back(result.error.code):
            self.postpone(subscription)
            return
        if result.error is not None:
            result = msgspec.structs.replace(result, error=self._explained(result.error))
        if subscription.handle_result(result):
            if subscription.is_ended:
                self._router.remove(subscription)
            return
        self._later.append(subscription)
        if self._timer is None:
            self._attempt += 1
            wait_s = delay_s(self._backoff, self._attempt, self._entropy.uniform)
            self._timer = self._clock.call_later(wait_s, self._retry)

    def _refuse(self, subscription: Subscription, error: ArautoError) -> None:
        refusal = ErrorEvent(
            code=int(error.code),
            message=error.message,
            field=error.field,
            retryable=error.retryable,
        )
        self._settle(subscription, SubscribeResult(channel=subscription.channel, error=refusal))

    def _retry(self) -> None:
        self._timer = None
        later, self._later = self._later, []
        self._waiting.update(dict.fromkeys(later, False))
        self._wake()

    def _lowest(self, channel: str, place: Serial) -> Serial:
        """The place furthest back among the subscriptions that cover a channel."""
        for subscription in self._router.route(channel):
            other = subscription.positions.place(channel)
            if other is not None and other < place:
                place = other
        return place

    # --- what the node made or kept ----------------------------------------------------------------

    def is_made_by_node(self, channel: str) -> bool:
        """Whether the node subscribed this session by itself on this connection (the user channel)."""
        return channel in self._made

    def forget_made(self, channel: str) -> None:
        """The node ended a subscription; if it makes it again, that is not the one of before."""
        self._made.pop(channel, None)
        self._retaken.pop(channel, None)

    def restore_positions(self) -> dict[str, Serial]:
        """The places to restore a session with. Subscriptions whose places do not all fit are asked for
        afterwards instead."""
        self._restorable = {}
        positions: dict[str, Serial] = {}
        room_bytes = _REQUEST_BYTES_MAX
        for subscription in self._router:
            if not subscription.was_ready:
                continue
            item = subscription.positions.item(room_bytes, self._lowest)
            places = dict(item.positions if item.positions is not None else {})
            # Where it began is kept with the session.
            places.pop(ALL_CHANNELS, None)
            if item.since is not None:
                places = {item.channel: item.since}
            if len(places) == subscription.positions.count and item_bytes(item) <= room_bytes:
                room_bytes -= item_bytes(item)
                positions.update(places)
                self._restorable[subscription.channel] = None
        return positions

    def handle_restored(self, results: tuple[SubscribeResult, ...]) -> None:
        """The node took the session up again, and with it these subscriptions."""
        for result in results:
            subscription = self._router.get(result.channel)
            if subscription is not None and result.channel in self._restorable:
                self._settle(subscription, result)

    def given_up(self, results: tuple[SubscribeResult, ...]) -> tuple[str, ...]:
        """What a restored session still holds on the node though the client gave it up meanwhile."""
        return tuple(
            result.channel
            for result in results
            if result.error is None
            and self._router.get(result.channel) is None
            and result.channel not in self._made_ever
        )


def _no_answer(channel: str) -> ArautoError:
    return ArautoError(Code.SERVER_ERROR, f"the node said nothing about {channel}")
