"""Which URLs and IP addresses the node may call on a hub's behalf. Pure.

URLs are read by one strict grammar of our own, and nothing later parses them again: most ways past such a
filter live on two parsers that disagree. Plain ASCII, `http` or `https`, no user part, no fragment, no
backslash; a host is a DNS name, a dotted quad of four plain decimal numbers, or an IPv6 literal without zone.

An address must be public, unless the operator allowed it: by network or by host name. A host name can open
loopback and private networks only, so that no DNS answer leads to a cloud's metadata service (link-local).
"""

import ipaddress
import re
from collections.abc import Iterable

import msgspec

from arauto.errors import ArautoError, Code

__all__ = ["AddressPolicy", "IpAddress", "Target", "parse_url"]

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

URL_LEN_MAX = 2_048
_HOST_LEN_MAX = 253

_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$%&'()*+,./0-9:;=@A-Z_a-z~-]*)?"
    r"(?P<query>\?[!$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?\Z",
    re.ASCII,
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")
#: What some resolvers take for a number: decimal, octal or hexadecimal.
_NUMBER_LIKE = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_QUAD = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})\Z")

#: What an allowed host name may lead to besides public addresses.
_PRIVATE: tuple[_Network, ...] = tuple(
    ipaddress.ip_network(n)
    for n in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)

#: Not public, whatever the version of Python thinks of them. The IPv6 ones from 64:ff9b on carry an IPv4
#: address inside, so that a gateway may turn them into a private one.
_NEVER_PUBLIC: tuple[_Network, ...] = tuple(
    ipaddress.ip_network(n)
    for n in (
        "0.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "::/96", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "fe80::/10", "fec0::/10",
        "ff00::/8", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16",
    )
)  # fmt: skip


class Target(msgspec.Struct, frozen=True):
    """A URL, taken apart."""

    scheme: str
    host: str
    """Lower case; an IPv6 literal without brackets."""
    port: int
    path: str
    """With the query; starts with `/`."""
    ip: IpAddress | None
    """The address, if the host is one already."""

    @property
    def authority(self) -> str:
        """What belongs into the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.scheme == "https" else 80)
        return host if usual else f"{host}:{self.port}"


def parse_url(url: str, field: str = "url") -> Target:
    """Take a URL apart.

    Raises:
        ArautoError: BAD_FIELD. Does not repeat the URL, which may hold a secret.
    """
    form = _URL.match(url) if len(url) <= URL_LEN_MAX else None
    if form is None:
        raise _bad(
            "a URL is http:// or https://, a host, an optional port and path, in plain ASCII, "
            "without user, fragment or backslash",
            field,
        )
    scheme = form["scheme"]
    port = int(form["port"]) if form["port"] else (443 if scheme == "https" else 80)
    if not 1 <= port <= 65_535:
        raise _bad("a port is 1-65535", field)
    host, ip = _parse_host(form["host"].lower(), field)
    path = (form["path"] or "/") + (form["query"] or "")
    return Target(scheme, host, port, path, ip)


def _parse_host(host: str, field: str) -> tuple[str, IpAddress | None]:
    if host.startswith("["):
        try:
            six = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise _bad("the host is not an IPv6 address", field) from None
        return str(six), six
    labels = host.split(".")
    if _NUMBER_LIKE.match(labels[-1]):
        try:
            four = ipaddress.IPv4Address(host) if _QUAD.match(host) else None
        except ValueError:
            four = None
        if four is None:
            raise _bad("an IPv4 address is four decimal numbers without leading zeros", field)
        return host, four
    if len(host) > _HOST_LEN_MAX or not all(_LABEL.match(label) for label in labels):
        raise _bad("the host is not a DNS name", field)
    return host, None


class AddressPolicy:
    """Decides whether a URL's addresses may be called."""

    __slots__ = ("_allow_private", "_hosts", "_networks")

    def __init__(self, allow: Iterable[str] = (), *, allow_private: bool = False) -> None:
        """Read the operator's list.

        Args:
            allow: `auth.internal`, `auth.internal:8443`, `10.0.0.7`, `[fd00::7]:8443`, `10.0.0.0/24`.
            allow_private: let every host lead to loopback and private networks (development).

        Raises:
            ArautoError: BAD_CONFIG, naming the entry.
        """
        self._allow_private = allow_private
        self._networks: list[tuple[_Network, int]] = []
        self._hosts: set[tuple[str, int]] = set()
        for index, entry in enumerate(allow):
            try:
                self._add(entry)
            except (ArautoError, ValueError):
                raise ArautoError(
                    Code.BAD_CONFIG,
                    "an entry is a host, an address or a network, with a port if need be",
                    field=f"auth.providerAllowlist[{index}]",
                ) from None

    def _add(self, entry: str) -> None:
        if "/" in entry:
            self._networks.append((ipaddress.ip_network(entry), 0))
            return
        bare_six = entry.count(":") > 1 and not entry.startswith("[")
        target = parse_url(f"http://[{entry}]" if bare_six else f"http://{entry}")
        named_port = bool(re.search(r"\]:|\A[^:]*:[0-9]+\Z", entry))
        port = target.port if named_port else 0
        if target.ip is not None:
            self._networks.append((ipaddress.ip_network(target.ip), port))
        else:
            self._hosts.add((target.host, port))

    def permits(self, target: Target, address: IpAddress) -> bool:
        """Whether `address`, which the target's host leads to, may be called."""
        if isinstance(address, ipaddress.IPv6Address):
            if address.scope_id is not None:
                return False
            if address.ipv4_mapped is not None:
                # The system would connect to the IPv4 address inside, so that is the one to judge.
                address = address.ipv4_mapped
        if any(address in net for net, port in self._networks if port in (0, target.port)):
            return True
        if any(address in network for network in _PRIVATE):
            return self._allow_private or any(
                (target.host, port) in self._hosts for port in (0, target.port)
            )
        return address.is_global and not any(address in network for network in _NEVER_PUBLIC)


def _bad(rule: str, field: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, rule, field=field)
