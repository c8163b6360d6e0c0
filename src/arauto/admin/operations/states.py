"""A hub's settings as stored, for whoever is about to show or change them."""

from typing import TypeVar

import msgspec
import structlog

from arauto.admin.operations.secrets import version_of
from arauto.errors import ArautoError, Code
from arauto.hub.directory import Directory
from arauto.hub.hub import Hub
from arauto.hub.rules import HubState
from arauto.settings import HubSettings, Rules
from arauto.storage.base import SettingsStore

__all__ = ["ANY_VERSION", "States", "decode"]

#: In place of a version: whatever the settings are.
ANY_VERSION = "*"

_log = structlog.get_logger("arauto.admin")
_S = TypeVar("_S", bound=msgspec.Struct)


def decode(data: bytes, wanted: type[_S], hub: str) -> _S | None:
    """A stored setting; None if no version of ours could have written it."""
    try:
        return msgspec.json.decode(data, type=wanted)
    except msgspec.MsgspecError:
        _log.error("stored setting cannot be read", hub=hub, type=wanted.__name__)
        return None


class States:
    """Reads settings of hubs, open or not."""

    def __init__(
        self,
        directory: Directory,
        store: SettingsStore,
        *,
        defaults: HubSettings,
        builtin_rules: Rules,
        dynamic_hubs: bool,
    ) -> None:
        self._directory = directory
        self._store = store
        self.defaults = defaults
        self._builtin_rules = builtin_rules
        self._dynamic_hubs = dynamic_hubs

    async def of(self, hub: str) -> HubState:
        """The settings in the store; the configured defaults for a hub that is made on use.

        Raises:
            ArautoError: UNKNOWN_HUB.
        """
        state = await self._directory.read_state(hub)
        if state is not None:
            return state
        if self._dynamic_hubs:
            return self._empty()
        unset = self._directory.unset_state(hub)
        if unset is None:
            raise self.unknown()
        return unset

    async def of_new(self, hub: str) -> HubState:
        """As `of`, for a hub that is being made."""
        return await self._directory.read_state(hub) or self._empty()

    def unset(self, hub: str) -> HubSettings:
        """The settings of a hub that has none of its own."""
        unset = None if self._dynamic_hubs else self._directory.unset_state(hub)
        return unset.settings if unset is not None else self.defaults

    async def own_settings(self, hub: str) -> HubSettings | None:
        """What was set on the hub itself; None if nothing was, or what was cannot be read."""
        data = await self._store.get("hub", hub, "")
        return decode(data, HubSettings, hub) if data is not None else None

    async def running(self, hub: str) -> Hub | None:
        """The hub if it is open on this node; None if it exists but is not.

        Raises:
            ArautoError: UNKNOWN_HUB.
        """
        if hub not in self._directory.hubs:
            await self.of(hub)
        # Looked up last: it may have opened while the settings were read.
        return self._directory.hubs.get(hub)

    def check_version(self, current: msgspec.Struct | None, wanted: str) -> None:
        """Refuse a change that was made in view of other settings; "" stands for none at all.

        Raises:
            ArautoError: CONFLICT.
        """
        if wanted == ANY_VERSION:
            return
        version = version_of(current) if current is not None else ""
        if wanted != version:
            raise ArautoError(
                Code.CONFLICT,
                "the settings have changed since that version; look at them again"
                if version
                else "there are no settings yet, so they have no version",
                field="ifVersion",
            )

    def unknown(self) -> ArautoError:
        return ArautoError(Code.UNKNOWN_HUB, "there is no such hub", field="hub")

    def _empty(self) -> HubState:
        return HubState(self.defaults, {}, {}, {}, self._builtin_rules)
