"""Requests on their way out: bounds, order, batches, and what a broken connection does to them."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arauto.client.outgoing import BATCH_BYTES_MAX, BATCH_LEN_MAX, Call, Outgoing
from arauto.codec.events import PresenceRequest, PublishItem, PublishRequest
from arauto.errors import ArautoError, Code


class _Future:
    """As much of a future as the queue looks at, without an event loop."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        return self.is_done


def _publish(name: str, size_bytes: int = 1, *, wait: bool = True) -> Call:
    item = PublishItem(channel=name, payload=b"x" * size_bytes)
    future: Any = _Future() if wait else None
    return Call(None, item, future, resend=wait)


def _ask(*, resend: bool = True) -> Call:
    future: Any = _Future()
    return Call(PresenceRequest(channel="c"), None, future, resend=resend)


def _names(request: object) -> list[str]:
    assert isinstance(request, PublishRequest)
    return [item.channel for item in request.items]


def _done(call: Call) -> None:
    future: Any = call.future
    future.is_done = True


def _queue(len_max: int = 1_000, bytes_max: int = 10**7) -> Outgoing:
    return Outgoing(len_max, bytes_max)


def test_publishes_in_a_row_leave_as_one_request() -> None:
    queue = _queue()
    for name in "abc":
        queue.add(_publish(name))
    assert _names(queue.next()) == ["a", "b", "c"]
    assert queue.next() is None


def test_another_request_splits_the_batch_and_keeps_its_place() -> None:
    queue = _queue()
    for call in (_publish("a"), _ask(), _publish("b")):
        queue.add(call)
    assert _names(queue.next()) == ["a"]
    assert isinstance(queue.next(), PresenceRequest)
    assert _names(queue.next()) == ["b"]


def test_what_wants_no_answer_is_not_mixed_with_what_does() -> None:
    queue = _queue()
    for call in (_publish("a"), _publish("b", wait=False), _publish("c", wait=False)):
        queue.add(call)
    first, second = queue.next(), queue.next()
    assert _names(first) == ["a"]
    assert _names(second) == ["b", "c"]
    assert isinstance(second, PublishRequest)
    assert second.id == 0
    assert len(queue) == 1


def test_a_batch_is_bounded_in_number_and_bytes() -> None:
    queue = _queue()
    for _ in range(BATCH_LEN_MAX + 1):
        queue.add(_publish("small"))
    assert len(_names(queue.next())) == BATCH_LEN_MAX
    queue.next()
    for name in "ab":
        queue.add(_publish(name, BATCH_BYTES_MAX))
    assert [_names(queue.next()), _names(queue.next())] == [["a"], ["b"]]


@pytest.mark.parametrize(("len_max", "bytes_max"), [(2, 10**7), (1_000, 1_000)])
def test_a_full_queue_refuses_with_a_code_and_keeps_what_it_has(
    len_max: int, bytes_max: int
) -> None:
    queue = _queue(len_max, bytes_max)
    queue.add(_publish("a", 200))
    queue.add(_publish("b", 200))
    with pytest.raises(ArautoError) as caught:
        queue.add(_publish("c", 200))
    assert caught.value.code is Code.TOO_MANY_PENDING
    assert caught.value.retryable
    assert _names(queue.next()) == ["a", "b"]


def test_sent_requests_count_until_they_are_answered() -> None:
    queue = _queue(len_max=1)
    queue.add(_publish("a"))
    request = queue.next()
    assert isinstance(request, PublishRequest)
    with pytest.raises(ArautoError):
        queue.add(_publish("b"))
    assert len(queue.answered(request.id)) == 1
    queue.add(_publish("b"))
    assert len(queue) == 1


def test_an_answer_nobody_waits_for_is_nothing() -> None:
    assert _queue().answered(99) == []


def test_what_was_sent_without_an_answer_goes_first_on_the_next_connection() -> None:
    queue = _queue()
    for name in "ab":
        queue.add(_publish(name))
    queue.next()
    queue.add(_publish("c"))
    assert queue.connection_lost() == []
    assert _names(queue.next()) == ["a", "b", "c"]


def test_what_must_not_be_sent_twice_is_handed_back() -> None:
    queue = _queue()
    once = _ask(resend=False)
    queue.add(once)
    queue.next()
    assert queue.connection_lost() == [once]
    assert queue.next() is None
    assert len(queue) == 0


def test_an_unsent_request_survives_a_lost_connection_even_if_it_goes_once() -> None:
    queue = _queue()
    queue.add(_ask(resend=False))
    assert queue.connection_lost() == []
    assert isinstance(queue.next(), PresenceRequest)


def test_a_call_that_was_given_up_is_not_sent() -> None:
    queue = _queue()
    gone, wanted = _publish("gone"), _publish("wanted")
    queue.add(gone)
    queue.add(wanted)
    _done(gone)
    queue.discard(gone)
    assert _names(queue.next()) == ["wanted"]


def test_giving_up_again_and_again_does_not_fill_the_memory() -> None:
    queue = _queue(len_max=10)
    for _ in range(10_000):
        call = _publish("a")
        queue.add(call)
        _done(call)
        queue.discard(call)
    assert len(queue._unsent) < 200
    assert (len(queue), queue.size_bytes) == (0, 0)


def test_answers_that_never_come_do_not_fill_the_memory() -> None:
    queue = _queue()
    for _ in range(1_000):
        call = _publish("a")
        queue.add(call)
        queue.next()
        _done(call)
        queue.discard(call)
    assert queue._sent == {}


def test_the_parts_of_a_refused_batch_are_sent_one_by_one() -> None:
    queue = _queue()
    for name in "ab":
        queue.add(_publish(name))
    request = queue.next()
    assert isinstance(request, PublishRequest)
    queue.add(_publish("c"))
    queue.put_back(queue.answered(request.id))
    assert [_names(queue.next()) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_clearing_returns_everyone_who_still_waits() -> None:
    queue = _queue()
    sent, unsent, nobody = _publish("a"), _ask(), _publish("b", wait=False)
    queue.add(sent)
    queue.next()
    queue.add(unsent)
    queue.add(nobody)
    assert set(queue.clear()) == {sent, unsent}
    assert (len(queue), queue.size_bytes, queue.next()) == (0, 0, None)


class OutgoingMachine(RuleBasedStateMachine):
    """Whatever happens: bounds hold, order holds, and each message is answered or still waiting."""

    LEN_MAX, BYTES_MAX = 40, 40 * 300

    def __init__(self) -> None:
        super().__init__()
        self.queue = Outgoing(self.LEN_MAX, self.BYTES_MAX)
        self.calls: dict[str, Call] = {}
        self.open: dict[int, list[str]] = {}
        self.delivered: list[str] = []
        self.number = 0

    @rule(size_bytes=st.integers(0, 400))
    def publish(self, size_bytes: int) -> None:
        self.number += 1
        name = f"{self.number:06}"
        call = _publish(name, size_bytes)
        full = len(self.calls) >= self.LEN_MAX
        full = full or self.queue.size_bytes + call.size_bytes > self.BYTES_MAX
        if not full:
            self.queue.add(call)
            self.calls[name] = call
            return
        with pytest.raises(ArautoError):
            self.queue.add(call)

    @rule()
    def send(self) -> None:
        request = self.queue.next()
        if isinstance(request, PublishRequest):
            self.open[request.id] = _names(request)

    @rule()
    def answer(self) -> None:
        if self.open:
            id = min(self.open)
            names = self.open.pop(id)
            assert len(self.queue.answered(id)) == len([n for n in names if n in self.calls])
            for name in names:
                self.delivered.append(name)
                call = self.calls.pop(name, None)
                if call is not None:
                    _done(call)

    @rule()
    def lose(self) -> None:
        assert self.queue.connection_lost() == []
        self.open.clear()

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        unsent = sorted(self.calls.keys() - {n for names in self.open.values() for n in names})
        if unsent:
            call = self.calls.pop(data.draw(st.sampled_from(unsent)))
            _done(call)
            self.queue.discard(call)

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.queue) == len(self.calls) <= self.LEN_MAX
        assert self.queue.size_bytes == sum(c.size_bytes for c in self.calls.values())
        assert self.queue.size_bytes <= self.BYTES_MAX

    def teardown(self) -> None:
        self.lose()
        rest: list[str] = []
        while (request := self.queue.next()) is not None:
            rest += _names(request)
        assert rest == sorted(self.calls)
        assert self.delivered == sorted(self.delivered)


TestOutgoing = OutgoingMachine.TestCase


@given(st.lists(st.integers(0, 3_000), max_size=200))
def test_batches_keep_every_message_in_order(sizes: list[int]) -> None:
    queue = _queue()
    for index, size_bytes in enumerate(sizes):
        queue.add(_publish(str(index), size_bytes))
    sent: list[str] = []
    while (request := queue.next()) is not None:
        sent += _names(request)
    assert sent == [str(index) for index in range(len(sizes))]


async def test_a_call_is_over_when_its_future_is_cancelled() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call = Call(None, PublishItem(channel="a", payload=b""), future, resend=True)
    assert not call.is_over
    future.cancel()
    assert call.is_over
