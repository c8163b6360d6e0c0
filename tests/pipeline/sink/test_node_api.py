"""The client of the admin API: batches, outcomes, retries, and secrets that stay secret."""

import base64
import logging
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import msgspec
import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import NodeApi, Outgoing, Retry, World, batches
from tests.pipeline.sink.nodes import QUICK, TOKEN, KeepingNode, free_port, running_node
from tests.pipeline.waiting import LAST_RESORT_S


def message(number: int, channel: str = "a:1", size_bytes: int = 1) -> Outgoing:
    return Outgoing(channel, b"x" * size_bytes, id=f"m-{number}")


def test_batches_keep_to_the_number_the_api_takes() -> None:
    assert [len(part) for part in batches(message(n) for n in range(2_500))] == [1000, 1000, 500]


def test_batches_keep_to_a_size_and_lose_nothing() -> None:
    parts = list(batches(message(n, size_bytes=300_000) for n in range(12)))
    assert [len(part) for part in parts] == [5, 5, 2]
    assert [m.id for part in parts for m in part] == [f"m-{n}" for n in range(12)]


def test_a_message_arrives_byte_for_byte_with_all_its_parts(node: KeepingNode) -> None:
    sent = Outgoing("a:1", b'{"n": 1}', "application/json", "one", "k", {"x-a": "b"}, 60_000)
    with node.api() as api:
        assert [outcome.error for outcome in api.publish("whole", [sent])] == [None]
    (got,) = node.history("whole", "a:1")
    assert got["data"] == {"n": 1}
    assert (got["idempotency_key"], got["key"], got["headers"]["x-a"]) == ("one", "k", "b")
    assert got["expires_ms"] == got["ts_ms"] + 60_000


def test_bytes_that_are_no_text_arrive(node: KeepingNode) -> None:
    with node.api() as api:
        api.publish("bytes", [Outgoing("a:1", bytes(range(256)))])
    assert base64.b64decode(node.history("bytes", "a:1")[0]["base64"]) == bytes(range(256))


def test_publishing_again_with_the_same_ids_publishes_nothing(node: KeepingNode) -> None:
    sent = [message(n) for n in range(1_500)]
    with node.api() as api:
        api.publish("again", sent)
        assert all(outcome.duplicate for outcome in api.publish("again", sent))
    assert len(node.history("again", "a:1")) == 1_500


def test_a_refused_channel_name_leaves_the_others_alone(node: KeepingNode) -> None:
    with node.api() as api:
        outcomes = api.publish("names", [message(1), message(2, "no spaces"), message(3)])
    codes = [outcome.error.code if outcome.error else None for outcome in outcomes]
    assert codes == [None, Code.BAD_CHANNEL_NAME, None]


def test_an_ill_formed_message_is_found_among_many_and_the_others_go_out(node: KeepingNode) -> None:
    sent = [message(n) for n in range(50)]
    sent[33] = Outgoing("a:1", b"x", headers={"no spaces": "x"})
    with node.api() as api:
        outcomes = api.publish("shapes", sent)
    refused = {n: o.error.code for n, o in enumerate(outcomes) if o.error}
    assert refused == {33: Code.BAD_FIELD}
    wanted = [f"m-{n}" for n in range(50) if n != 33]
    assert [got["idempotency_key"] for got in node.history("shapes", "a:1")] == wanted


def test_a_message_over_the_body_limit_is_refused_alone(node: KeepingNode) -> None:
    with node.api() as api:
        outcomes = api.publish("large", [message(1), message(2, size_bytes=5_000_000), message(3)])
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]


def test_a_used_up_quota_is_waited_for() -> None:
    with running_node() as node:
        node.put("/v1/hubs/slow", {"quotas": {"messagesPerS": 50}})
        with NodeApi(node.url, TOKEN, retry=Retry(first_s=0.3)) as api:
            outcomes = api.publish("slow", [message(n) for n in range(80)])
            assert api.messages_per_s("slow") == 50
        assert not any(outcome.error for outcome in outcomes)
        assert len(node.history("slow", "a:1")) == 80


def test_a_quota_that_stays_used_up_shows_in_the_outcomes() -> None:
    with running_node() as node:
        node.put("/v1/hubs/tiny", {"quotas": {"messagesPerS": 1}})
        with node.api() as api:
            outcomes = api.publish("tiny", [message(1), message(2)])
    assert outcomes[0].error is None
    assert outcomes[1].error is not None
    assert outcomes[1].error.code is Code.HUB_RATE_LIMITED


def test_a_hub_for_which_the_node_has_no_room_makes_no_other_wait() -> None:
    with running_node(limits={"hubsMax": 1}) as node:
        node.put("/v1/hubs/shop", {})
        with NodeApi(node.url, TOKEN, retry=Retry(total_s=3_600)) as api:
            assert api.publish("first", [message(1)])[0].error is None
            # Whoever waited for it would wait for longer than this test may take.
            [outcome] = api.publish("second", [message(2)], wait_for_hub=False)
            assert outcome.error is not None
            assert outcome.error.code is Code.OVERLOADED
            assert api.publish("shop", [message(3)], wait_for_hub=False)[0].error is None


def test_a_node_that_admits_no_more_connections_is_waited_for() -> None:
    busy = msgspec.json.encode({"code": 4006, "message": "no more connections", "field": ""})
    with (
        answering((503, busy)) as (url, asked),
        NodeApi(url, "t", retry=QUICK) as api,
        pytest.raises(ArautoError) as caught,
    ):
        api.publish("h", [message(1)], wait_for_hub=False)
    assert caught.value.code is Code.OVERLOADED
    assert len(asked) == QUICK.attempts_max


def test_no_node_is_an_error_with_the_address_after_bounded_tries() -> None:
    slept: list[float] = []
    world = World(sleep=slept.append, now_s=lambda: 0.0, chance=lambda: 1.0)
    url = f"http://127.0.0.1:{free_port()}"
    api = NodeApi(url, "secret-token", retry=Retry(attempts_max=5), world=world)
    with api, pytest.raises(ArautoError) as caught:
        api.publish("h", [message(1)])
    assert caught.value.code is Code.NODE_UNREACHABLE
    assert url in caught.value.message
    assert "secret-token" not in str(caught.value)
    assert slept == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_retrying_ends_when_its_time_is_over() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    world = World(sleep=sleep, now_s=lambda: now[0], chance=lambda: 0.0)
    retry = Retry(attempts_max=1_000, total_s=10, first_s=1, most_s=2)
    api = NodeApi(f"http://127.0.0.1:{free_port()}", "t", retry=retry, world=world)
    with api, pytest.raises(ArautoError):
        api.correlations()
    assert 8 < now[0] <= 10


def test_a_wrong_token_is_said_plainly_and_not_retried(node: KeepingNode) -> None:
    with node.api("wrong-token") as api, pytest.raises(ArautoError) as caught:
        api.publish("h", [message(1)])
    assert caught.value.code is Code.ADMIN_DENIED
    assert "wrong-token" not in str(caught.value)


def test_the_token_is_in_no_repr_and_no_log(
    node: KeepingNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with node.api() as api:
        api.publish("h", [message(1)])
        assert TOKEN not in repr(api)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("url", ["", "127.0.0.1:4040", "ftp://x", "http://", "http://[::"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ArautoError) as caught:
        NodeApi(url, "t")
    assert caught.value.code is Code.BAD_CONFIG


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server of a few scripted answers, for what a node cannot be made to say."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


RULE = {"hub": "h", "id": "r", "text": "rule: r", "enabled": True, "version": "1"}


def page(next_: str) -> tuple[int, bytes]:
    return 200, msgspec.json.encode({"items": [RULE], "next": next_})


def test_rules_are_read_from_all_pages() -> None:
    with answering(page("h/r"), page("")) as (url, asked), NodeApi(url, "t") as api:
        assert len(api.correlations()) == 2
    assert asked == ["/v1/correlations?limit=1000", "/v1/correlations?limit=1000&after=h%2Fr"]


def test_a_proxy_without_its_node_is_tried_again() -> None:
    with (
        answering((502, b"<html>"), page("")) as (url, asked),
        NodeApi(url, "t", retry=QUICK) as api,
    ):
        assert len(api.correlations()) == 1
    assert len(asked) == 2


@pytest.mark.parametrize("answer", [(404, b"<html>"), (200, b"{}"), (302, b"")])
def test_an_answer_of_something_else_is_said_to_be_that(answer: tuple[int, bytes]) -> None:
    odd = pytest.raises(ArautoError, match="is this the admin port")
    with answering(answer) as (url, asked), NodeApi(url, "t", retry=QUICK) as api, odd as caught:
        api.correlations()
    assert caught.value.code is Code.BAD_CONFIG
    assert len(asked) == 1


RULE_TEXT = """
rule: busy
version: 1
from: {channels: ["a:*"]}
key: [channel]
count: {}
window: 1m
when: "count >= 2"
emit: {channel: alerts}
"""


def test_a_rule_is_set_and_found_again(node: KeepingNode) -> None:
    with node.api() as api:
        made = api.put_correlation("rules", "busy", RULE_TEXT)
        assert (made.hub, made.id, made.enabled, made.rule_version) == ("rules", "busy", True, 1)
        assert made in api.correlations()
        off = api.put_correlation("rules", "busy", RULE_TEXT, enabled=False)
        assert off.version != made.version


def test_a_bad_rule_is_refused_with_the_nodes_words(node: KeepingNode) -> None:
    with node.api() as api, pytest.raises(ArautoError, match="line") as caught:
        api.put_correlation("rules", "busy", "rule: busy\nnonsense: 1")
    assert caught.value.code is Code.BAD_RULE


def test_rollups_are_stored_in_as_many_requests_as_it_takes(node: KeepingNode) -> None:
    last_ms = time.time_ns() // 1_000_000 // 300_000 * 300_000
    rows = [
        {"period": "5m", "hub": "", "startMs": last_ms - n * 300_000, "values": {"messagesIn": n}}
        for n in range(1_200)
    ]
    with node.api() as api:
        assert api.upsert_rollups(rows) == 1_200
        assert api.upsert_rollups([]) == 0
    answer = httpx.get(
        f"{node.url}/v1/analytics/5m",
        params={"fromMs": str(rows[-1]["startMs"]), "limit": "1500"},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=LAST_RESORT_S,
    )
    items = answer.json()["items"]
    assert [item["values"]["messagesIn"] for item in items] == list(range(1_199, -1, -1))


def test_a_message_can_travel_to_an_executor() -> None:
    assert pickle.loads(pickle.dumps(message(1))) == message(1)
