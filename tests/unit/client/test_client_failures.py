"""What a node says becomes the right error, and the error says whether to come back."""

import pytest

from arauto.client.failures import (
    ConnectionLostError,
    PartialPublishError,
    RefusedError,
    RequestTimeoutError,
    from_close,
    from_event,
    from_http,
)
from arauto.codec.events import ErrorEvent
from arauto.codec.websocket import close_code
from arauto.errors import ArautoError, Code, DisconnectError
from arauto.model import Serial


def test_a_refusal_carries_code_text_field_and_the_nodes_word_on_retrying() -> None:
    event = ErrorEvent(code=1003, message="must not be empty", field="channel", retryable=True)
    error = from_event(event)
    assert (error.code, error.message, error.field) == (Code.BAD_FIELD, event.message, "channel")
    assert error.retryable


def test_a_number_this_version_does_not_know_stays_visible() -> None:
    error = from_event(ErrorEvent(code=2999, message="new"))
    assert (error.number, error.code) == (2999, Code.UNAUTHENTICATED)


@pytest.mark.parametrize("code", [code for code in Code if 4000 <= code < 6000])
def test_every_reason_to_disconnect_survives_the_close_frame(code: Code) -> None:
    error = from_close(close_code(code), "why")
    assert error.retryable == (code < 5000 or code is Code.CLOSED_BY_CLIENT)
    if code is not Code.CLOSED_BY_CLIENT:
        assert error.code is code


@pytest.mark.parametrize(
    ("number", "returns"),
    [
        *((number, True) for number in (0, 1000, 1001, 1006, 1011, 1012, 1013, 3000, 4400)),
        *((number, False) for number in (1002, 1003, 1007, 1008, 1009, 1010, 4999)),
    ],
)
def test_close_codes_say_whether_to_come_back(number: int, returns: bool) -> None:
    assert from_close(number, "").retryable is returns


@pytest.mark.parametrize(
    ("status", "body", "code", "returns"),
    [
        (503, b"", Code.OVERLOADED, True),
        (429, b"busy", Code.OVERLOADED, True),
        (404, b"", Code.HANDSHAKE_REFUSED, False),
        (403, b'{"code":2009,"message":"origin"}', Code.ORIGIN_DENIED, False),
        (503, b'{"code":0,"message":"no more"}', Code.OVERLOADED, True),
        (503, b'{"code":4006,"message":"no more","field":""}', Code.OVERLOADED, True),
        (408, b'{"code":4008,"message":"slow","field":""}', Code.REQUEST_TOO_SLOW, True),
        (503, b'{"code":6002,"message":"away","field":""}', Code.STORAGE_UNAVAILABLE, True),
        (431, b'{"code":3012,"message":"large","field":""}', Code.REQUEST_TOO_LARGE, False),
        (426, b'{"code":5006,"message":"old","field":""}', Code.HANDSHAKE_REFUSED, False),
        (503, b'{"code":4999,"message":"newer","field":""}', Code.SERVER_ERROR, True),
        (503, b'{"code":3002,"message":"full","retryable":true}', Code.TOO_MANY_SESSIONS, True),
        (400, b"[1", Code.HANDSHAKE_REFUSED, False),
    ],
)
def test_a_refused_upgrade_says_whether_to_come_back(
    status: int, body: bytes, code: Code, returns: bool
) -> None:
    error = from_http(status, body)
    assert (error.code, error.retryable) == (code, returns)


def test_errors_can_be_caught_the_usual_python_way() -> None:
    timeout, lost = RequestTimeoutError(3), ConnectionLostError("gone")
    assert isinstance(timeout, TimeoutError)
    assert isinstance(lost, ConnectionError)
    assert isinstance(lost, DisconnectError)
    assert str(timeout) == "[1021 NO_ANSWER] no answer within 3 s"
    assert str(lost) == "[4007 CONNECTION_LOST] gone"
    assert lost.retryable


def test_what_a_log_shows_of_an_error_has_its_number() -> None:
    refusal = RefusedError(Code.PUBLISH_DENIED, "no grant", field="channel")
    assert repr([refusal]) == "[<RefusedError [2006 PUBLISH_DENIED] no grant (channel)>]"


def test_a_partial_failure_names_the_first_and_keeps_all() -> None:
    refusal = RefusedError(Code.PUBLISH_DENIED, "no grant", field="channel")
    results: tuple[Serial | ArautoError, ...] = (Serial(1, 1), refusal, refusal)
    error = PartialPublishError(results)
    assert (error.code, error.results) == (Code.PUBLISH_DENIED, results)
    assert "2 of 3" in str(error)
