"""Requests that two readers could take for different things are refused, and upgrades that are none."""

import pytest

from arauto.errors import Code
from fuzz.http_laws import feed

CUTS = pytest.mark.parametrize("how", [0, 1, 2])
UPGRADE = (
    b"Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
)


def is_refused(request: bytes, how: int) -> bool:
    outcome = feed(request, how)
    if outcome.requests or outcome.upgrades:
        return False
    assert outcome.statuses == [400]
    assert outcome.refused == [Code.PROTOCOL_VIOLATION]
    return outcome.closed


@CUTS
def test_an_upgrade_is_a_get_over_http_1_1(how: int) -> None:
    assert len(feed(b"GET /ws HTTP/1.1\r\n" + UPGRADE, how).upgrades) == 1


@CUTS
@pytest.mark.parametrize(
    "line",
    [
        b"POST /ws HTTP/1.1",
        b"HEAD /ws HTTP/1.1",
        b"OPTIONS /ws HTTP/1.1",
        b"PUT /ws HTTP/1.1",
        b"GET /ws HTTP/1.0",
        b"GET /ws HTTP/0.9",
    ],
)
def test_any_other_upgrade_is_refused(line: bytes, how: int) -> None:
    assert is_refused(line + b"\r\n" + UPGRADE, how)


@CUTS
@pytest.mark.parametrize(
    "header",
    [
        b"Host",
        b"Origin",
        b"Authorization",
        b"Last-Event-ID",
        b"Sec-WebSocket-Key",
        b"Sec-WebSocket-Version",
    ],
)
def test_a_header_of_which_one_value_counts_comes_once(header: bytes, how: int) -> None:
    once = b"GET /a HTTP/1.1\r\n" + header + b": 1\r\n"
    assert feed(once + b"\r\n", how).statuses == [204]
    assert is_refused(once + header.lower() + b": 2\r\n\r\n", how)
    assert is_refused(once + header.upper() + b": 1\r\n\r\n", how)


@CUTS
@pytest.mark.parametrize("host", [b"a:80", b"A:80"])
def test_a_target_that_names_its_host_names_that_of_the_host_header(host: bytes, how: int) -> None:
    outcome = feed(b"GET http://a:80/b?c HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", how)
    assert outcome.statuses == [204]
    assert (outcome.requests[0]["path"], outcome.requests[0]["query_string"]) == ("/b", b"c")


@CUTS
def test_a_target_that_names_its_host_counts_as_the_host_header(how: int) -> None:
    [request] = feed(b"GET http://other/b HTTP/1.0\r\n\r\n", how).requests
    assert request["headers"] == [(b"host", b"other")]


@CUTS
@pytest.mark.parametrize(
    "target", [b"http://b/", b"http://a:81/", b"http://u@a/", b"ws://b?c", b"http://a/\r\nHost: b"]
)
def test_a_target_and_a_host_header_that_differ_are_refused(target: bytes, how: int) -> None:
    line, _, more = target.partition(b"\r\n")
    headers = more or b"Host: a"
    assert is_refused(b"GET " + line + b" HTTP/1.1\r\n" + headers + b"\r\n\r\n", how)


@CUTS
def test_the_host_of_an_upgrade_may_be_in_its_target_too(how: int) -> None:
    assert feed(b"GET ws://a/ws HTTP/1.1\r\n" + UPGRADE, how).upgrades
    assert is_refused(b"GET ws://b/ws HTTP/1.1\r\n" + UPGRADE, how)
