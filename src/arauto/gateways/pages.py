"""Which web pages may use which hub: the node's list of origins, and each hub's own; and by which names."""

from arauto.errors import ArautoError, Code
from arauto.gateways.origin import is_allowed, is_same
from arauto.hosts import Hosts
from arauto.hub.directory import Directory

__all__ = ["Page", "Pages"]


class Page:
    """Where a request says it comes from, and what it addresses."""

    __slots__ = ("host", "hub", "origin", "secure")

    def __init__(self, origin: str | None, host: str | None, *, secure: bool, hub: str) -> None:
        self.origin = origin
        """None for everything but browsers, and for what a browser's page reads from its own address."""
        self.host = host
        self.secure = secure
        self.hub = hub


class Pages:
    """Decides by the origin and the host."""

    __slots__ = ("_allowed", "_directory", "_hosts")

    def __init__(
        self, directory: Directory, allowed_origins: tuple[str, ...], hosts: Hosts
    ) -> None:
        self._directory = directory
        self._allowed = allowed_origins
        self._hosts = hosts

    def check_host(self, host: str | None) -> None:
        """Refuse a request for a name that is not the node's, whoever asks.

        Raises:
            ArautoError: ORIGIN_DENIED.
        """
        self._hosts.check(host)

    def is_welcome_now(self, page: Page) -> bool | None:
        """Whether the page may use its hub; None if its settings have to be read: then use `is_welcome`."""
        if self._is_among(page, self._allowed):
            return True
        hub = self._directory.hubs.get(page.hub)
        return self._is_among(page, hub.state.settings.allowed_origins) if hub is not None else None

    async def is_welcome(self, page: Page) -> bool:
        """Whether the page may use its hub. A hub that there is not, nor can be, welcomes nobody."""
        welcome = self.is_welcome_now(page)
        if welcome is not None:
            return welcome
        try:
            state = await self._directory.look(page.hub)
        except ArautoError:
            return False
        return self._is_among(page, state.settings.allowed_origins)

    async def check(self, page: Page) -> None:
        """Refuse a request for a name that is not the node's, or of a page that may not use its hub.

        Raises:
            ArautoError: ORIGIN_DENIED.
        """
        self.check_host(page.host)
        if not await self.is_welcome(page):
            raise self.denial(page)

    def denial(self, page: Page) -> ArautoError:
        """What a page that is not welcome is told."""
        way = "connection.allowedOrigins names those that may"
        if is_same(page.origin or "", page.host, page.secure):
            way = "connection.allowedHosts names the hosts whose own pages may"
        return ArautoError(
            Code.ORIGIN_DENIED, f"pages of this origin may not use this node; {way}", field="origin"
        )

    def _is_among(self, page: Page, allowed: tuple[str, ...]) -> bool:
        # A page that is served under the name it addresses belongs here only if the name does.
        own = page.host if self._hosts.is_known(page.host) else None
        return is_allowed(page.origin, own, page.secure, allowed)
