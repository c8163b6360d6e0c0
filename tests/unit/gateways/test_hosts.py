"""Which names a port answers to: those that nobody else can let lead to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import ArautoError, Code
from arauto.hosts import Hosts, is_host, is_loopback

LIST = ("Live.Example.com", "10.1.2.3")


def hosts(bound: str = "127.0.0.1", *allowed: str, origins: tuple[str, ...] = ()) -> Hosts:
    return Hosts(bound, allowed, setting="connection.allowedHosts", origins=origins)


#: A host header, and whether a port with `LIST` knows it.
HEADERS = [
    (None, True),
    ("127.0.0.1", True),
    ("127.0.0.1:8080", True),
    ("localhost", True),
    ("LocalHost:9000", True),
    ("[::1]", True),
    ("[::1]:8080", True),
    ("192.168.1.20:8080", True),
    ("[2001:DB8::7]:8080", True),
    ("live.example.com", True),
    ("LIVE.example.com:443", True),
    ("live.example.com.", True),
    ("10.1.2.3", True),
    ("", False),
    ("0.0.0.0:8080", False),
    ("[::]:8080", False),
    ("evil.example", False),
    ("evil.example:8080", False),
    ("live.example.com.evil.example", False),
    ("evil.live.example.com", False),
    ("localhost.evil.example", False),
    ("127.0.0.1.evil.example", False),
    ("evil.example:127.0.0.1", False),
    ("127.0.0.1, evil.example", False),
    ("localhost evil.example", False),
    ("user@localhost", False),
    ("[evil.example]", False),
    ("[::1]evil.example", False),
    ("[::1", False),
    ("::1", False),
    ("2130706433", False),
    ("localhost:80:80", False),
    ("a" * 300, False),
]


@pytest.mark.parametrize(("host", "known"), HEADERS)
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", "::"])
def test_addresses_and_names_of_the_list_are_known(
    bound: str, host: str | None, known: bool
) -> None:
    if host in (f"{bound}:8080", f"[{bound}]:8080"):
        known = True
    assert hosts(bound, *LIST).is_known(host) is known


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "[::1]", "localhost"])
def test_a_port_on_loopback_refuses_other_names_and_says_which_setting_names_them(
    bound: str,
) -> None:
    with pytest.raises(ArautoError, match=r"connection\.allowedHosts") as caught:
        hosts(bound).check("evil.example")
    assert (caught.value.code, caught.value.field) == (Code.ORIGIN_DENIED, "host")
    hosts(bound).check("localhost:8080")
    hosts(bound).check(None)


def test_an_open_port_refuses_other_names_only_if_it_was_told_its_own() -> None:
    hosts("0.0.0.0").check("any.example")
    with pytest.raises(ArautoError):
        hosts("0.0.0.0", *LIST).check("any.example")


def test_names_whose_pages_may_connect_anyway_are_taken() -> None:
    trusting = hosts(origins=("https://shop.example:8443", "https://[broken"))
    trusting.check("shop.example")
    with pytest.raises(ArautoError):
        trusting.check("evil.example")
    hosts(origins=("*",)).check("any.example")


@given(st.text(max_size=60))
def test_no_header_upsets_the_check_and_no_other_name_gets_in(host: str) -> None:
    if hosts("127.0.0.1", *LIST).is_known(host):
        assert set(host.lower()) <= set("0123456789abcdef:.[]%localhostivexmp.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("live.example.com", True),
        ("node-1", True),
        ("10.0.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("https://live.example.com", False),
        ("live.example.com:8080", False),
        ("*.example.com", False),
        ("*", False),
        ("", False),
        ("bücher.example", False),
        ("a b", False),
    ],
)
def test_an_entry_of_the_list_is_a_bare_name(text: str, expected: bool) -> None:
    assert is_host(text) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
