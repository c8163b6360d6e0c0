"""Which pages may connect: exactly those on the list, and those the node itself serves (T8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.gateways.origin import is_allowed, normalise

LIST = ("https://shop.example", "http://localhost:3000", "https://[2001:db8::1]:8443")

#: (origin, host the node was addressed as, over TLS, allowed)
TABLE = [
    (None, "node.example", False, True),
    ("https://shop.example", "node.example", False, True),
    ("https://shop.example:443", "node.example", False, True),
    ("HTTPS://SHOP.example", "node.example", False, True),
    ("https://[2001:DB8::1]:8443", "node.example", False, True),
    ("http://localhost:3000", "node.example", False, True),
    ("http://node.example", "node.example", False, True),
    ("http://node.example:80", "node.example", False, True),
    ("http://node.example:8080", "node.example:8080", False, True),
    ("https://node.example", "node.example", True, True),
    ("null", "node.example", False, False),
    ("", "node.example", False, False),
    ("http://shop.example", "node.example", False, False),
    ("https://shop.example:8443", "node.example", False, False),
    ("https://shop.example.evil.example", "node.example", False, False),
    ("https://evilshop.example", "node.example", False, False),
    ("https://sub.shop.example", "node.example", False, False),
    ("https://shop.example@evil.example", "node.example", False, False),
    ("https://evil.example#https://shop.example", "node.example", False, False),
    ("https://evil.example/https://shop.example", "node.example", False, False),
    ("https://evil.example?https://shop.example", "node.example", False, False),
    ("https://shop.example.", "node.example", False, False),
    ("file://shop.example", "node.example", False, False),
    ("ftp://shop.example", "node.example", False, False),
    ("//shop.example", "node.example", False, False),
    ("shop.example", "node.example", False, False),
    ("https://", "node.example", False, False),
    ("https://shop.example:notaport", "node.example", False, False),
    ("https://shop.example:99999", "node.example", False, False),
    ("https://[::1", "node.example", False, False),
    ("http://localhost", "node.example", False, False),
    ("http://localhost:3001", "node.example", False, False),
    ("https://node.example", "node.example", False, True),
    ("https://node.example:8443", "node.example:8443", False, True),
    ("https://node.example:8443", "node.example", False, False),
    ("http://node.example", "node.example", True, False),
    ("http://node.example:81", "node.example:8080", False, False),
    ("http://node.example", None, False, False),
    ("https://" + "a" * 600 + ".example", "node.example", False, False),
]


@pytest.mark.parametrize(("origin", "host", "secure", "allowed"), TABLE)
def test_the_table_of_origins(
    origin: str | None, host: str | None, secure: bool, allowed: bool
) -> None:
    assert is_allowed(origin, host, secure, LIST) is allowed


@given(st.text(max_size=60), st.none() | st.text(max_size=30))
def test_no_origin_upsets_the_check_and_none_gets_in_by_accident(
    origin: str, host: str | None
) -> None:
    if is_allowed(origin, host, False, LIST):
        wanted = normalise(origin)
        assert wanted in {
            normalise(entry) for entry in (*LIST, f"http://{host}", f"https://{host}")
        }


@pytest.mark.parametrize("origin", ["null", "https://any.example", "", "garbage"])
def test_a_star_lets_any_page_in(origin: str) -> None:
    assert is_allowed(origin, "node.example", False, ("*",))


@pytest.mark.parametrize("entry", ["shop.example", "null", "", "https://*.shop.example", "http://"])
def test_an_entry_that_is_no_origin_lets_nobody_in(entry: str) -> None:
    for origin in ("null", "https://shop.example", "https://a.shop.example", "http://", ""):
        assert not is_allowed(origin, "node.example", False, (entry,))
