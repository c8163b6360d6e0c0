"""From a host's name to its addresses, in threads, without letting one hub's slow names take them all.

A thread that asks for a name cannot be called back: the system may make it wait for half a minute, long
after whoever wanted the answer has given up. So a hub has at most two of them at a time, counted until they
really end, and what else it wants waits, within the time its calls have anyway. What is being asked for
already is not asked for again, whoever wants it.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from arauto.session.auth.addresses import IpAddress

__all__ = ["Resolver", "SystemResolver"]

_THREADS = 32
_PER_HUB_MAX = 2

_Name = tuple[str, int]
_Answer = asyncio.Future[list[str]]
_LookUp = Callable[[str, int], list[str]]


class Resolver(Protocol):
    """Turns a host name into addresses."""

    async def resolve(self, hub: str, host: str, port: int) -> list[IpAddress]:
        """Return the addresses in the order to try them; OSError if there are none."""


def _getaddrinfo(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(info[4][0]) for info in infos]


class SystemResolver:
    """The operating system's resolver, in threads of its own: slow names must not hold up storage."""

    __slots__ = ("_look_up", "_threads", "_under_way")

    def __init__(self, look_up: _LookUp = _getaddrinfo, *, threads: int = _THREADS) -> None:
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(threads, "arauto-resolve")
        self._under_way: dict[_Name, tuple[str, _Answer]] = {}
        """With the hub that asked first, whose place it takes."""

    async def resolve(self, hub: str, host: str, port: int) -> list[IpAddress]:
        name = (host, port)
        while (under_way := self._under_way.get(name)) is None:
            own = [answer for of, answer in self._under_way.values() if of == hub]
            if len(own) < _PER_HUB_MAX:
                under_way = self._begin(hub, name)
                break
            await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
        # The thread goes on though its caller gives up, and others wait for the same answer.
        found = await asyncio.shield(under_way[1])
        return list(dict.fromkeys(ipaddress.ip_address(address) for address in found))

    def _begin(self, hub: str, name: _Name) -> tuple[str, _Answer]:
        answer = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, *name)
        self._under_way[name] = (hub, answer)

        def ended(answer: _Answer) -> None:
            del self._under_way[name]
            if not answer.cancelled():
                answer.exception()  # nobody may be left to hear of it

        answer.add_done_callback(ended)
        return hub, answer

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
