"""Hubs that were made on use: how many there may be, and how little a stranger's takes.

Whoever can connect can make a name up. So hubs that an administrator has set up are not counted here and
always have a place, and of the others those that nobody known asked for have bounds of their own: in number,
per address they came from, in size and in time. What a stranger opened becomes like any other as soon as
somebody known uses it. Neighbour: `directory.py`, which opens and closes hubs.
"""

import ipaddress
from dataclasses import dataclass

import msgspec

from arauto.errors import ArautoError, Code
from arauto.settings import HubSettings

__all__ = ["MadeOnUse", "StrangerLimits", "network_of"]

#: Who has an IPv6 address usually has as many as this leaves room for.
_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class StrangerLimits:
    """What hubs may take that nobody known has asked for; 0 = no more limit than others have."""

    hubs_max: int = 1_000
    hubs_per_address_max: int = 100
    close_s: float = 10.0
    sessions_max: int = 1_000
    channels_max: int = 1_000
    live_history_bytes_max: int = 1 << 18
    idempotency_bytes_max: int = 1 << 22
    retained_bytes_max: int = 1 << 18
    backlogs_bytes_max: int = 1 << 18
    documents_bytes_max: int = 1 << 18


#: The quotas that are lower in such a hub; they are called the same there and here.
_LOWERED = (
    "sessions_max",
    "channels_max",
    "live_history_bytes_max",
    "idempotency_bytes_max",
    "retained_bytes_max",
    "backlogs_bytes_max",
    "documents_bytes_max",
)


class MadeOnUse:
    """The hubs without settings of their own that are open, or about to be."""

    __slots__ = ("_by_network", "_hubs_max", "_limits", "_made", "stranger_count")

    def __init__(self, hubs_max: int, limits: StrangerLimits) -> None:
        self._hubs_max = hubs_max
        self._limits = limits
        self._made: dict[str, str | None] = {}
        """By hub: the network of the stranger who opened it; None if it was somebody known."""
        self._by_network: dict[str, int] = {}
        self.stranger_count = 0

    def enter(self, name: str, stranger: str | None) -> None:
        """A hub is about to open, for a stranger at that address or for somebody known.

        Raises:
            ArautoError: OVERLOADED, TOO_MANY_HUBS.
        """
        if self._hubs_max and len(self._made) >= self._hubs_max:
            raise ArautoError(Code.OVERLOADED, "this node holds no more hubs", field="hub")
        if stranger is None:
            self._made[name] = None
            return
        limits, network = self._limits, network_of(stranger)
        here = self._by_network.get(network, 0)
        if limits.hubs_per_address_max and here >= limits.hubs_per_address_max:
            raise _too_many("from your address")
        if limits.hubs_max and self.stranger_count >= limits.hubs_max:
            raise _too_many("on this node")
        self._made[name] = network
        self._by_network[network] = here + 1
        self.stranger_count += 1

    def leave(self, name: str) -> None:
        """The hub has closed, or has settings of its own now."""
        self.adopt(name)
        self._made.pop(name, None)

    def adopt(self, name: str) -> bool:
        """Somebody known uses the hub; whether it was a stranger's until now."""
        network = self._made.get(name)
        if network is None:
            return False
        self._made[name] = None
        self.stranger_count -= 1
        left = self._by_network[network] - 1
        if left:
            self._by_network[network] = left
        else:
            del self._by_network[network]
        return True

    def keep(self, name: str) -> None:
        """An open hub has lost its settings: it is like one that somebody known made on use."""
        self._made.setdefault(name, None)

    def is_strangers(self, name: str) -> bool:
        return self._made.get(name) is not None

    def settings(self, name: str, defaults: HubSettings) -> HubSettings:
        """The settings of a hub that has none of its own."""
        if not self.is_strangers(name):
            return defaults
        limits, quotas = self._limits, defaults.quotas
        lowered = {name: _lower(getattr(quotas, name), getattr(limits, name)) for name in _LOWERED}
        smaller = msgspec.structs.replace(quotas, **lowered)
        return msgspec.structs.replace(defaults, quotas=smaller)

    def close_s(self, name: str, otherwise_s: float) -> float:
        """How long the hub stays open while nobody uses it."""
        return min(self._limits.close_s, otherwise_s) if self.is_strangers(name) else otherwise_s


def _lower(one: int, other: int) -> int:
    """The lower of two limits, of which 0 is none."""
    return min(one, other) if one and other else one or other


def network_of(address: str) -> str:
    """What an address counts as: itself, or for IPv6 the network it lies in."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(int(parsed) >> (128 - _NETWORK_BITS))


def _too_many(where: str) -> ArautoError:
    return ArautoError(
        Code.TOO_MANY_HUBS,
        f"too many hubs were made up {where}; wait until some have closed, use a hub that"
        " is set up, or authenticate",
        field="hub",
    )
