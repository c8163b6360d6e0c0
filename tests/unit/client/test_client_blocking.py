"""The blocking face: same methods, one thread, interruptible, nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from arauto.client import Draft, RequestTimeoutError, State
from arauto.client.blocking import Client, _LoopThread
from arauto.codec.events import (
    ErrorEvent,
    HistoryReply,
    HistoryRequest,
    Occupancy,
    OccupancyRequest,
    Presence,
    PresenceRequest,
    PublishRequest,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
)
from arauto.errors import ArautoError, Code
from arauto.model import Serial
from tests.unit.client.fake_node import EPOCH, FakeNode, Peer, message
from tests.unit.client.test_client_documents import Documents, add


class NodeThread:
    """A fake node in a thread of its own."""

    def __init__(self) -> None:
        self._thread = _LoopThread()
        self.node: FakeNode = self._thread.run(self._start())

    async def _start(self) -> FakeNode:
        node = FakeNode()
        await node.start()
        return node

    def peer(self) -> Peer:
        return self._thread.run(self.node.peer())

    def do(self, action: Any, *arguments: Any) -> None:
        async def act() -> None:
            action(*arguments)

        self._thread.run(act())

    def stop(self) -> None:
        self._thread.run(self.node.stop())
        self._thread.stop()


@pytest.fixture
def hosted() -> Iterator[NodeThread]:
    hosted = NodeThread()
    threads = threading.active_count()
    yield hosted
    assert threading.active_count() == threads, "a client left its thread behind"
    hosted.stop()


def at(offset: int) -> Serial:
    return Serial(EPOCH, offset)


def test_a_round_trip_without_an_event_loop(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop", credentials="ana") as client:
        peer = hosted.peer()
        assert (client.state, client.session, client.user) == (State.CONNECTED, "s1", "ana")
        with client.subscribe("stock:42") as subscription:
            hosted.do(peer.publish, *(message("stock:42", n, b"%d" % n) for n in (1, 2, 3)))
            seen = []
            for received in subscription:
                seen.append(received.payload)
                if len(seen) == 3:
                    break
            assert seen == [b"1", b"2", b"3"]
            assert (subscription.channel, subscription.serial) == ("stock:42", at(3))
            assert (subscription.recovered, subscription.dropped) == (None, 0)
    assert client.state is State.CLOSED


def test_publishing_waits_for_the_acknowledgement(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop") as client:
        assert client.publish("c", {"a": 1}, retain=True) == at(1)
        assert client.publish_many([Draft(channel="c", data=n) for n in range(3)])[-1] == at(4)
        client.publish_nowait("c", "no answer")
    hosted.peer()
    assert [item.payload for item in hosted.node.published][-1] == b"no answer"


def test_asking_works_as_in_the_asynchronous_client(hosted: NodeThread) -> None:
    handlers = hosted.node.handlers
    handlers[PresenceRequest] = lambda peer, request: peer.send(
        Presence(id=request.id, channel=request.channel, members=(), total=0)
    )
    handlers[OccupancyRequest] = lambda peer, request: peer.send(
        Occupancy(id=request.id, channel=request.channel, count=4)
    )

    def page(peer: Peer, request: HistoryRequest) -> None:
        first = request.since is None
        messages = (message("c", 1), message("c", 2)) if first else (message("c", 3),)
        peer.send(
            HistoryReply(id=request.id, channel="c", messages=messages, more=first, next=at(2))
        )

    handlers[HistoryRequest] = page
    with Client(hosted.node.url, hub="shop") as client:
        assert client.presence("c").total == 0
        assert client.occupancy("c") == 4
        assert [m.serial.offset for m in client.history("c")] == [1, 2, 3]
        assert client.authenticate("bob").user == client.user == "bob"
        assert not client.may_publish("c")
        assert not client.may_subscribe("c")
        assert client.standing.node == "n1"
        assert client.grants.channels == ()


def test_events_are_iterated_over(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop") as client:
        peer = hosted.peer()
        subscription = client.subscribe("room").ready()
        hosted.do(peer.send, Occupancy(channel="room", count=7))
        events = subscription.events()
        assert isinstance(next(events), SubscribeResult)
        assert next(events) == Occupancy(channel="room", count=7)


def test_documents_work_too(hosted: NodeThread) -> None:
    documents = Documents(hosted.node, {"a": 1}, 1)
    with Client(hosted.node.url, hub="shop") as client:
        peer = hosted.peer()
        with client.document("doc:a") as document:
            assert (document.value, document.version, document.channel) == ({"a": 1}, 1, "doc:a")
            assert document.change([add("/b", 2)]) == 2
            hosted.do(lambda: peer.send(documents.change(add("/c", 3))))
            updates = document.updates()
            assert [next(updates).version for _ in range(2)] == [2, 3]
            assert document.get("/c") == 3


def test_errors_cross_the_thread_with_their_codes(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop") as client:
        peer = hosted.peer()
        with pytest.raises(ArautoError) as caught:
            client.subscribe("a b")
        assert caught.value.code is Code.BAD_CHANNEL_NAME
        subscription = client.subscribe("c").ready()
        error = ErrorEvent(code=2005, message="no more")
        hosted.do(peer.send, UnsubscribeReply(channels=("c",), error=error))
        with pytest.raises(ArautoError) as ended:
            next(subscription)
        assert ended.value.code is Code.SUBSCRIBE_DENIED


def test_waiting_for_a_message_can_have_a_limit(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop") as client:
        peer = hosted.peer()
        subscription = client.subscribe("c").ready()
        with pytest.raises(RequestTimeoutError):
            subscription.get(timeout_s=0.01)
        hosted.do(peer.publish, message("c", 1))
        received = subscription.get(timeout_s=10)
        assert received is not None
        assert received.serial == at(1)
        subscription.unsubscribe()
        assert subscription.get() is None


def test_a_client_that_cannot_connect_leaves_no_thread(hosted: NodeThread) -> None:
    hosted.node.refuse_with = (404, b"")
    client = Client(hosted.node.url, hub="shop")
    with pytest.raises(ArautoError) as caught:
        client.connect()
    assert (caught.value.code, client.error) == (Code.HANDSHAKE_REFUSED, caught.value)


def test_a_client_that_is_not_connected_says_so(hosted: NodeThread) -> None:
    client = Client(hosted.node.url, hub="shop")
    with pytest.raises(ArautoError) as early:
        client.publish("c", 1)
    with client:
        subscription = client.subscribe("c")
    with pytest.raises(ArautoError) as late:
        client.publish("c", 1)
    with pytest.raises(ArautoError) as stale:
        subscription.ready()
    codes = [caught.value.code for caught in (early, late, stale)]
    assert codes == [Code.CONFLICT, Code.CLOSED_BY_CLIENT, Code.CLOSED_BY_CLIENT]


def test_a_callback_that_calls_the_client_is_refused_instead_of_waiting_for_itself(
    hosted: NodeThread,
) -> None:
    caught: list[ArautoError] = []
    done = threading.Event()

    def call_back(event: object) -> None:
        try:
            client.publish("c", 1)
        except ArautoError as error:
            caught.append(error)
        done.set()

    with Client(hosted.node.url, hub="shop") as client:
        client.subscribe("c", on_event=call_back).ready()
        assert done.wait(10)
    assert caught[0].code is Code.CONFLICT


def test_an_interrupt_breaks_any_wait_and_loses_no_message(hosted: NodeThread) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Client(hosted.node.url, hub="shop") as client:
            peer = hosted.peer()
            subscription = client.subscribe("c").ready()
            timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                next(subscription)
            timer.join()
            hosted.do(peer.publish, message("c", 1))
            assert next(subscription).serial == at(1)
            assert client.publish("c", 1) == at(1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_several_threads_may_use_one_client(hosted: NodeThread) -> None:
    with Client(hosted.node.url, hub="shop") as client:
        serials: list[Serial] = []

        def publish() -> None:
            serials.extend(client.publish("c", 1) for _ in range(20))

        threads = [threading.Thread(target=publish) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(serial.offset for serial in serials) == list(range(1, 101))


def test_a_subscription_is_asked_for_with_its_options(hosted: NodeThread) -> None:
    asked: list[SubscribeRequest] = []

    def note(peer: Peer, request: SubscribeRequest) -> None:
        asked.append(request)
        hosted.node.on_subscribe(peer, request)

    hosted.node.handlers[SubscribeRequest] = note
    with Client(hosted.node.url, hub="shop") as client:
        client.subscribe("c", since=at(5)).ready()
    assert asked[0].items[0].since == at(5)


def test_a_close_ends_what_other_threads_wait_for(hosted: NodeThread) -> None:
    client = Client(hosted.node.url, hub="shop").connect()
    subscription = client.subscribe("c").ready()
    ends: list[object] = []
    waiting = threading.Event()

    def wait_for_message() -> None:
        waiting.set()
        try:
            ends.append(subscription.get())
        except ArautoError as error:
            ends.append(error.code)

    thread = threading.Thread(target=wait_for_message)
    thread.start()
    assert waiting.wait(10)
    client.close()
    thread.join(10)
    assert not thread.is_alive()
    assert ends in ([None], [Code.CLOSED_BY_CLIENT])


def test_a_call_under_way_fails_when_another_thread_closes(hosted: NodeThread) -> None:
    arrived = threading.Event()
    hosted.node.handlers[PublishRequest] = lambda peer, request: arrived.set()  # never answered
    client = Client(hosted.node.url, hub="shop").connect()
    ends: list[Code] = []

    def publish() -> None:
        try:
            client.publish("c", 1)
        except ArautoError as error:
            ends.append(error.code)

    thread = threading.Thread(target=publish)
    thread.start()
    assert arrived.wait(10)
    client.close()
    thread.join(10)
    assert not thread.is_alive()
    assert ends == [Code.CLOSED_BY_CLIENT]


@pytest.mark.parametrize("turn", range(20))
def test_many_threads_may_close_one_client_while_others_use_it(
    hosted: NodeThread, turn: int
) -> None:
    client = Client(hosted.node.url, hub="shop").connect()
    begin = threading.Barrier(6)
    unexpected: list[BaseException] = []

    def use() -> None:
        begin.wait()
        try:
            while True:
                client.publish("c", 1)
        except ArautoError as error:
            if error.code is not Code.CLOSED_BY_CLIENT:
                unexpected.append(error)
        except BaseException as error:
            unexpected.append(error)

    def close() -> None:
        begin.wait()
        client.close()

    threads = [threading.Thread(target=target) for target in (use, use, use, close, close, close)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert unexpected == []


def test_a_callback_that_raises_costs_no_message(hosted: NodeThread) -> None:
    called = threading.Event()

    def fail(event: object) -> None:
        called.set()
        raise ValueError("a mistake in a callback")

    with Client(hosted.node.url, hub="shop") as client:
        peer = hosted.peer()
        subscription = client.subscribe("c", on_event=fail).ready()
        assert called.wait(10)
        hosted.do(peer.publish, message("c", 1))
        assert next(subscription).serial == at(1)
        assert client.publish("c", 1) == at(1)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_that_the_client_is_not_its_own(hosted: NodeThread) -> None:
    """Seen: it was told that it had closed the client itself."""
    with Client(hosted.node.url, hub="shop") as client:
        subscription = client.subscribe("c").ready()
        tries: list[Callable[[], object]] = [
            lambda: client.publish("c", 1),
            lambda: client.subscribe("d"),
            lambda: client.connect(),
            lambda: subscription.get(timeout_s=1),
        ]
        child = os.fork()
        if child == 0:  # no assertion may leave this block
            codes = []
            for attempt in tries:
                try:
                    attempt()
                except ArautoError as error:
                    codes.append(error.code)
            client.close()
            with Client(hosted.node.url, hub="shop") as own:
                own.subscribe("c").ready()
            os._exit(0 if codes == [Code.CONFLICT] * len(tries) else 1)
        assert _exit_code(child, 20) == 0
        # The connection is still the parent's.
        assert client.publish("c", 1) == at(1)


def _exit_code(child: int, timeout_s: float) -> int:
    """How a child ended; it is killed if it does not."""
    killer = threading.Timer(timeout_s, os.kill, (child, signal.SIGKILL))
    killer.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        killer.cancel()
        killer.join()


@pytest.mark.parametrize("last", ["", "raise ValueError('over')", "import sys; sys.exit(3)"])
def test_a_program_that_forgets_to_close_ends_all_the_same(hosted: NodeThread, last: str) -> None:
    program = (
        "import threading\n"
        "from arauto.client.blocking import Client\n"
        f"client = Client({hosted.node.url!r}, hub='shop').connect()\n"
        "subscription = client.subscribe('c').ready()\n"
        "threading.Thread(target=subscription.get, daemon=True).start()\n"
        "assert client.publish('c', 1)\n"
        f"{last}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == (0 if not last else 3 if "exit" in last else 1), done.stderr
    expected = "ValueError: over" if "raise" in last else ""
    assert done.stderr.strip().splitlines()[-1:] == [expected] * bool(expected), done.stderr


@pytest.mark.parametrize("what", ["token", "credentials"])
def test_a_plain_function_gives_the_token_or_the_credentials(hosted: NodeThread, what: str) -> None:
    asked: list[str] = []

    def fresh() -> str:
        asked.append("ana")
        return "ana"

    options: dict[str, Any] = {what: fresh}
    with Client(hosted.node.url, hub="shop", **options) as client:
        assert client.state is State.CONNECTED
        assert asked == ["ana"]
