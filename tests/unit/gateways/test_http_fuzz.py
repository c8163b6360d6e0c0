"""The law of the client port's HTTP, with Hypothesis instead of a fuzzer, and on the fuzzer's own seeds."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from fuzz import http_laws
from fuzz.http_laws import LIMITS, check_http, feed

SEEDS = Path(http_laws.__file__).parent / "corpus" / "http"

words = st.sampled_from([b"a", b"/", b"?q=1", b"%00", b"\xe9", b" ", b"\t", b"*", b"x" * 300])
headers = st.one_of(
    st.sampled_from(
        [
            b"Host: a",
            b"Content-Length: 3",
            b"Content-Length: 0",
            b"Content-Length: -1",
            b"Content-Length: 513",
            b"Content-Length: 3, 3",
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: identity, chunked",
            b"Connection: close",
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Upgrade: h2c",
            b"Expect: 100-continue",
            b" folded",
            b"no colon",
            b": no name",
            b"Cookie: " + b"c" * 260,
        ]
    ),
    st.tuples(words, words).map(b": ".join),
)
bodies = st.one_of(
    st.sampled_from([b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"41\r\n"]),
    st.binary(max_size=80),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Something like a request."""
    method = draw(st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b""]))
    target = b"".join(draw(st.lists(words, max_size=4))) or b"/ws"
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""]))
    end = draw(st.sampled_from([b"\r\n", b"\n", b"\r"]))
    lines = [b" ".join((method, target, version)), *draw(st.lists(headers, max_size=10))]
    return end.join(lines) + end + end + draw(bodies)


@given(data=st.binary(max_size=200))
def test_the_law_holds_for_any_bytes(data: bytes) -> None:
    check_http(data)


@given(how=st.integers(0, 255), parts=st.lists(requests(), min_size=1, max_size=3))
def test_the_law_holds_for_likely_requests_cut_anyhow(how: int, parts: list[bytes]) -> None:
    check_http(bytes((how,)) + b"".join(parts))


@pytest.mark.parametrize("seed", sorted(SEEDS.iterdir()), ids=lambda path: path.name)
def test_the_law_holds_for_the_seeds(seed: Path) -> None:
    data = seed.read_bytes()
    for how in range(20):
        check_http(bytes((how,)) + data[1:])


@pytest.mark.parametrize("how", [0, 1, 2])
def test_good_requests_are_answered_however_they_are_cut(how: int) -> None:
    outcome = feed(b"POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" * 3, how)
    assert outcome.statuses == [204] * 3
    assert outcome.bodies == [b"abc"] * 3


@pytest.mark.parametrize("how", [0, 1, 2])
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 513\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n201\r\n" + b"x" * 513, 413),
        (b"GET / HTTP/1.1\r\nCookie: " + b"c" * LIMITS.header_bytes_max + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"C: " + b"d" * 60 + b"\r\n", 408),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(9)) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
    ],
)
def test_each_limit_has_its_refusal(request_: bytes, status: int, how: int) -> None:
    outcome = feed(request_, how)
    assert outcome.statuses == [status]
    assert outcome.closed


def chunked(headers: bytes, trailers: bytes) -> bytes:
    head = b"POST /a HTTP/1.1\r\n" + headers + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"3\r\nabc\r\n0\r\n" + trailers + b"\r\n"


@pytest.mark.parametrize("how", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "trailer",
    [
        b"Host: other",
        b"Origin: http://other",
        b"Authorization: Bearer x",
        b"X-Forwarded-For: 192.0.2.9",
        b"Expect: 100-continue",
        b"Connection: Upgrade\r\nUpgrade: websocket",
        b"Transfer-Encoding: chunked",
        b"A:",
    ],
)
def test_trailers_of_a_body_are_never_headers(trailer: bytes, how: int) -> None:
    good = chunked(b"Host: a\r\n", b"")
    outcome = feed(chunked(b"Host: a\r\n", trailer + b"\r\n") + good, how)
    assert outcome.statuses[:1] in ([204], [400])
    assert not outcome.upgrades
    for scope in outcome.requests:
        assert scope["headers"] == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize("how", [0, 1, 2])
@pytest.mark.parametrize(
    "rest",
    [
        b"".join(b"a%d: b\r\n" % n for n in range(9)) + b"\r\n",
        b"a: " + b"b" * LIMITS.header_bytes_max + b"\r\n\r\n",
    ],
    ids=["many", "large"],
)
def test_trailers_have_the_limits_of_headers(rest: bytes, how: int) -> None:
    head = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    outcome = feed(head + rest, how)
    assert outcome.refused == [Code.REQUEST_TOO_LARGE]
    assert outcome.statuses == [431]
    assert outcome.closed


@pytest.mark.parametrize(
    "endless", [b"0\r\na: ", b"0\r\n", b"1;a="], ids=["value", "name", "extension"]
)
def test_what_is_no_part_of_a_body_is_not_collected_without_end(endless: bytes) -> None:
    head = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    outcome = feed(head + endless + b"b" * LIMITS.header_bytes_max * 2, 2)
    assert outcome.refused == [Code.REQUEST_TOO_LARGE]
    assert outcome.statuses == [431]
