"""By which names a port may be asked for. Pure.

Whoever owns a name may let it lead to any address, also to a machine that only its neighbours reach. A web
page of that name is then, for the browser, a page of this very node, and what it reads from here needs no
leave ("DNS rebinding"). So a `Host` counts only if nobody else decides where it leads: an address, which no
answer of a name server changes, loopback, what the port is bound to, and names that were configured.
"""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from arauto.errors import ArautoError, Code

__all__ = ["Hosts", "is_host", "is_loopback"]

_LEN_MAX = 255
_WITH_PORT = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::[0-9]*)?\Z")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?\Z", re.IGNORECASE)


class Hosts:
    """The names of one port."""

    __slots__ = ("_names", "_setting", "is_held")

    def __init__(
        self, bound: str, allowed: Iterable[str], *, setting: str, origins: Iterable[str] = ()
    ) -> None:
        """Take the names.

        Args:
            bound: the address the port is bound to.
            allowed: the configured names.
            setting: where they are configured, for whoever is refused.
            origins: web origins whose pages may come in anyway; so their names may, too.
        """
        names, pages = [_bare(name) for name in allowed], tuple(origins)
        self.is_held = (bool(names) or is_loopback(_bare(bound))) and "*" not in pages
        """Whether other names are refused. A port that is open to the network and has no list of its names
        cannot tell them from others."""
        self._setting = setting
        self._names = frozenset((_bare(bound), *names, *filter(None, map(_host_of, pages))))

    def is_known(self, host: str | None) -> bool:
        """Whether nobody else decides where the name in this header leads. No browser leaves it out."""
        if host is None:
            return True
        found = _WITH_PORT.match(host) if len(host) <= _LEN_MAX else None
        if found is None:
            return False
        name = _bare(found["address"] or found["name"])
        if name in self._names or name == "localhost":
            return True
        try:
            # 0.0.0.0 leads to the machine that asks, and no page is served there.
            return not ipaddress.ip_address(name).is_unspecified
        except ValueError:
            return False

    def check(self, host: str | None) -> None:
        """Refuse a request for a name that is not this node's.

        Raises:
            ArautoError: ORIGIN_DENIED.
        """
        if self.is_held and not self.is_known(host):
            raise ArautoError(
                Code.ORIGIN_DENIED,
                f"this port is reached by its address; {self._setting} names others",
                field="host",
            )


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this very machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_host(text: str) -> bool:
    """Whether this is a bare host name or address, as a list of names wants it."""
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return len(text) <= _LEN_MAX and _NAME.match(text) is not None
    return True


def _bare(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _host_of(origin: str) -> str:
    try:
        return _bare(urlsplit(origin).hostname or "")
    except ValueError:
        return ""
