"""T6: where the node may be sent. Evil URLs and addresses, and what an operator can open."""

import ipaddress
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import ArautoError, Code
from arauto.session.auth.addresses import AddressPolicy, parse_url
from arauto.session.auth.outbound import OutboundClient, OutboundError

#: Refused while reading them: no resolver and no second parser ever sees these.
MALFORMED = [
    "",
    "http://",
    "https://",
    "//example.com/",
    "example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:6379/_FLUSHALL",
    "javascript:alert(1)",
    "HTTP://example.com/",  # schemes are written small in settings
    "http:/example.com/",
    "http:///example.com/",
    "http:example.com/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:99999999/",
    "http://example.com:80a/",
    "http://example.com:-1/",
    "http://example.com:/",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://example.com#fragment",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://example.com/\r\nX-Evil: 1",
    "http://example.com\r\nHost: evil/",
    "http://example.com\x00.evil.example/",
    "\thttp://example.com/",
    " http://example.com/",
    "http://example.com/ ",
    "http://example.com/\n",
    "http://ex%61mple.com/",
    "http://%31%32%37.0.0.1/",
    "http://2130706433/",  # 127.0.0.1 as one number
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://256.256.256.256/",
    "http://1.2.3.4.5/",
    "http://1.2.3.0x4/",
    "http://example.1/",
    "http://example.0x/",
    "http://127.0.0.1./",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://[::ffff:127.0.0.1.5]/",
    "http://[]/",
    "http://\u24d4xample.com/",
    "http://example\u3002com/",
    "http://ex\u00e4mple.com/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://.example.com/",
    "http://example..com/",
    "http://example.com./",
    "http://-example.com/",
    "http://example-/",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 130 + "com/",
    "http://example.com/" + "a" * 2_048,
]

#: Well formed, and refused for where they lead.
FORBIDDEN = [
    "http://127.0.0.1/",
    "http://127.255.255.254:8080/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://192.168.1.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.255/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:0.0.0.0]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2001::1]/",
    "http://[2001:db8::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
]


#: Nothing gets as far as TLS here; loading the system's certificates each time is slow.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class FixedResolver:
    """Answers every name with the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = [ipaddress.ip_address(a) for a in addresses]
        self.asked: list[str] = []

    async def resolve(
        self, hub: str, host: str, port: int
    ) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
        self.asked.append(host)
        return self.addresses


async def reason_for(url: str, resolver: FixedResolver, policy: AddressPolicy) -> str:
    client = OutboundClient(policy, resolver=resolver, tls=TLS)
    try:
        with pytest.raises(OutboundError) as caught:
            await client.request("shop", "GET", url)
    finally:
        await client.aclose()
    assert caught.value.code is Code.AUTH_UNAVAILABLE
    assert url not in str(caught.value) or not url
    return caught.value.reason


def test_the_tables_are_long_enough() -> None:
    assert len(MALFORMED) + len(FORBIDDEN) >= 40


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_or_ambiguous_url_is_refused_when_it_is_set(url: str) -> None:
    with pytest.raises(ArautoError) as caught:
        parse_url(url)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "url")


async def test_a_malformed_url_is_refused_at_the_call_too_without_being_resolved() -> None:
    resolver = FixedResolver("93.184.215.14")
    for url in MALFORMED:
        assert await reason_for(url, resolver, AddressPolicy()) == "url"
    assert resolver.asked == []


@pytest.mark.parametrize("url", FORBIDDEN)
async def test_a_url_that_leads_inside_is_refused(url: str) -> None:
    resolver = FixedResolver("93.184.215.14")
    assert await reason_for(url, resolver, AddressPolicy()) == "address-refused"
    assert resolver.asked == []


@pytest.mark.parametrize("url", FORBIDDEN)
async def test_a_name_that_leads_inside_is_refused(url: str) -> None:
    address = parse_url(url).ip
    resolver = FixedResolver(str(address))
    policy = AddressPolicy()
    assert await reason_for("http://innocent.example/", resolver, policy) == "address-refused"


async def test_one_inner_address_among_outer_ones_is_enough_to_refuse() -> None:
    resolver = FixedResolver("93.184.215.14", "2606:2800:21f::1", "10.0.0.1")
    policy = AddressPolicy()
    assert await reason_for("http://innocent.example/", resolver, policy) == "address-refused"


async def test_a_name_without_or_with_too_many_addresses_is_refused() -> None:
    for addresses in ([], ["93.184.215.14"] * 17):
        resolver = FixedResolver(*addresses)
        assert await reason_for("http://x.example/", resolver, AddressPolicy()) == "resolve"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://example.com", ("http", "example.com", 80, "/", "example.com")),
        ("https://example.com/", ("https", "example.com", 443, "/", "example.com")),
        ("https://A.Example:8443/a?b=c", ("https", "a.example", 8443, "/a?b=c", "a.example:8443")),
        ("http://example.com?x", ("http", "example.com", 80, "/?x", "example.com")),
        ("http://example.com/a@b", ("http", "example.com", 80, "/a@b", "example.com")),
        ("http://8.8.8.8:80/", ("http", "8.8.8.8", 80, "/", "8.8.8.8")),
        ("https://[2606::1]:1/", ("https", "2606::1", 1, "/", "[2606::1]:1")),
        ("http://auth_service:3000/x", ("http", "auth_service", 3000, "/x", "auth_service:3000")),
    ],
)
def test_ordinary_urls_are_taken_apart(url: str, parts: tuple[str, str, int, str, str]) -> None:
    target = parse_url(url)
    assert (target.scheme, target.host, target.port, target.path, target.authority) == parts


@given(st.text(max_size=60).map(lambda tail: "http://" + tail))
def test_a_taken_url_has_only_a_plain_host(url: str) -> None:
    try:
        target = parse_url(url)
    except ArautoError:
        return
    assert target.host.isascii()
    assert not set(target.host) & set("@\\#?%/ []")
    assert 1 <= target.port <= 65_535


def permits(policy: AddressPolicy, url: str, address: str) -> bool:
    return policy.permits(parse_url(url), ipaddress.ip_address(address))


def test_public_addresses_are_permitted() -> None:
    for address in ("93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"):
        assert permits(AddressPolicy(), "http://x.example/", address)


def test_an_allowed_host_may_lead_to_private_networks_and_loopback_only() -> None:
    policy = AddressPolicy(["auth.internal"])
    for address in ("10.0.0.1", "127.0.0.1", "192.168.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"):
        assert permits(policy, "http://auth.internal:8080/", address)
        assert permits(policy, "http://AUTH.internal/", address)
        assert not permits(policy, "http://other.internal/", address)
        assert not permits(policy, "http://x.auth.internal/", address)
    for address in ("169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "::", "64:ff9b::1"):
        assert not permits(policy, "http://auth.internal/", address)


def test_an_allowed_host_with_a_port_is_allowed_at_that_port() -> None:
    policy = AddressPolicy(["auth.internal:8443", "10.0.0.7:8443", "[fd00::7]:1"])
    assert permits(policy, "https://auth.internal:8443/", "10.0.0.1")
    assert not permits(policy, "https://auth.internal/", "10.0.0.1")
    assert permits(policy, "https://10.0.0.7:8443/", "10.0.0.7")
    assert not permits(policy, "https://10.0.0.7:6379/", "10.0.0.7")
    assert permits(policy, "http://[fd00::7]:1/", "fd00::7")
    assert not permits(policy, "http://[fd00::7]:2/", "fd00::7")


def test_an_allowed_network_opens_itself_and_nothing_else() -> None:
    policy = AddressPolicy(["10.1.0.0/16", "fd00::7", "169.254.10.0/24"])
    assert permits(policy, "http://any.example/", "10.1.2.3")
    assert permits(policy, "http://any.example/", "::ffff:10.1.2.3")
    assert permits(policy, "http://any.example/", "fd00::7")
    assert permits(policy, "http://any.example/", "169.254.10.1")
    for address in ("10.2.0.1", "fd00::8", "169.254.169.254", "127.0.0.1"):
        assert not permits(policy, "http://any.example/", address)


def test_allowing_private_networks_does_not_open_link_local_addresses() -> None:
    policy = AddressPolicy(allow_private=True)
    for address in ("127.0.0.1", "::1", "10.0.0.1", "fd00::1"):
        assert permits(policy, "http://localhost/", address)
    for address in ("169.254.169.254", "0.0.0.0", "fe80::1", "224.0.0.1"):
        assert not permits(policy, "http://localhost/", address)


def test_an_address_with_a_zone_is_refused() -> None:
    assert not permits(AddressPolicy(["fe80::/10"]), "http://x.example/", "fe80::1%eth0")


@pytest.mark.parametrize(
    "entry", ["", "http://x/", "10.0.0.0/33", "10.0.0.1/8", "a b", "user@host", "host:0", "127.1"]
)
def test_a_malformed_entry_of_the_operators_list_is_an_error(entry: str) -> None:
    with pytest.raises(ArautoError) as caught:
        AddressPolicy(["good.example", entry])
    assert caught.value.code is Code.BAD_CONFIG
    assert caught.value.field == "auth.providerAllowlist[1]"
