"""Which web pages may use which hub: the node's list of origins, and each hub's own."""

from arauto.errors import ArautoError
from arauto.gateways.origin import is_allowed
from arauto.hub.directory import Directory

__all__ = ["Page", "Pages"]


class Page:
    """Where a request says it comes from, and what it addresses."""

    __slots__ = ("host", "hub", "origin", "secure")

    def __init__(self, origin: str | None, host: str | None, *, secure: bool, hub: str) -> None:
        self.origin = origin
        """None for everything but browsers, which are what this is about."""
        self.host = host
        self.secure = secure
        self.hub = hub

    def is_among(self, allowed: tuple[str, ...]) -> bool:
        return is_allowed(self.origin, self.host, self.secure, allowed)


class Pages:
    """Decides by the origin."""

    __slots__ = ("_allowed", "_directory")

    def __init__(self, directory: Directory, allowed_origins: tuple[str, ...]) -> None:
        self._directory = directory
        self._allowed = allowed_origins

    def is_welcome_now(self, page: Page) -> bool | None:
        """Whether the page may use its hub; None if its settings have to be read: then use `is_welcome`."""
        if page.is_among(self._allowed):
            return True
        hub = self._directory.hubs.get(page.hub)
        return page.is_among(hub.state.settings.allowed_origins) if hub is not None else None

    async def is_welcome(self, page: Page) -> bool:
        """Whether the page may use its hub. A hub that there is not, nor can be, welcomes nobody."""
        welcome = self.is_welcome_now(page)
        if welcome is not None:
            return welcome
        try:
            state = await self._directory.look(page.hub)
        except ArautoError:
            return False
        return page.is_among(state.settings.allowed_origins)
