"""Hubs: get, set, list and delete."""

import msgspec

from arauto.admin.operations.changes import Changes
from arauto.admin.operations.checks import check_hub_settings
from arauto.admin.operations.secrets import masked, unmasked, version_of
from arauto.admin.operations.states import ANY_VERSION, States
from arauto.admin.paging import first_after, page_of
from arauto.admin.records import HubInfo, HubPage, HubSummary
from arauto.errors import ArautoError, Code
from arauto.hub.directory import Directory
from arauto.names import check_hub
from arauto.session.restore import Restorer
from arauto.settings import HubSettings
from arauto.storage.base import SettingsStore

__all__ = ["Hubs"]

#: Everything a hub's settings are made of; the hub itself goes last when all are deleted, so that a
#: deletion that was cut short can be seen and repeated.
_PARTS = ("channel", "namespace", "rules", "correlation")

#: Sorts after every id: ids are valid UTF-8 without this noncharacter.
_LAST_ID = "\U0010ffff"


class Hubs:
    """The verbs on hubs."""

    def __init__(
        self,
        directory: Directory,
        store: SettingsStore,
        states: States,
        changes: Changes,
        restorer: Restorer,
    ) -> None:
        self._directory = directory
        self._store = store
        self._states = states
        self._changes = changes
        self._restorer = restorer

    async def get(self, hub: str) -> HubInfo:
        """A hub that has settings, or is open.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB.
        """
        check_hub(hub)
        own = await self._states.own_settings(hub)
        is_open = hub in self._directory.hubs
        if own is None and not is_open and not await self._has_parts(hub):
            raise self._states.unknown()
        return HubInfo(
            name=hub,
            stored=own is not None,
            open=is_open,
            settings=masked(own or self._states.unset(hub)),
            version=version_of(own) if own is not None else "",
        )

    async def list(self, *, after: str = "", limit: int) -> HubPage:
        """Hubs that have settings or are open on this node, in order of name.

        Raises:
            ArautoError: BAD_HUB_NAME if `after` is not one.
        """
        if after:
            check_hub(after)
        rows = await self._store.list("hub", None, after=(after, _LAST_ID), limit=limit + 1)
        stored = {hub for hub, _, _ in rows}
        names = {*stored, *await self._hubs_with_parts(after, limit + 1), *self._directory.hubs}
        page, cursor = page_of(await first_after(sorted(names), after, limit + 1), limit)
        return HubPage(items=[self._summary(name, name in stored) for name in page], next=cursor)

    async def set(
        self, hub: str, settings: HubSettings, *, by: str, if_version: str = ANY_VERSION
    ) -> HubInfo:
        """Replace a hub's settings, making it if need be. Masked secrets keep their value.

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD, UNKNOWN_RULES, CONFLICT (not at `if_version`).
        """
        check_hub(hub)
        async with self._changes.to(hub, "hub.set", by=by):
            own = await self._states.own_settings(hub)
            self._states.check_version(own, if_version)
            wanted = unmasked(settings, own or self._states.defaults)
            check_hub_settings(await self._states.of_new(hub), wanted)
            await self._store.put("hub", hub, "", msgspec.json.encode(wanted))
        return await self.get(hub)

    async def delete(
        self, hub: str, *, by: str, force: bool = False, if_version: str = ANY_VERSION
    ) -> None:
        """Delete a hub's settings with all that was set inside it, and close it. None of its sessions can
        be restored.

        What was stored in its channels stays, and is there again if a hub of that name is made.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, CONFLICT (sessions are connected and not `force`, or
                not at `if_version`); StorageError.
        """
        check_hub(hub)
        async with self._changes.to(hub, "hub.delete", by=by):
            own = await self._states.own_settings(hub)
            self._states.check_version(own, if_version)
            rows = await self._store.load(hub)
            running = self._directory.hubs.get(hub)
            if not rows and running is None:
                raise self._states.unknown()
            if running is not None and running.sessions and not force:
                raise ArautoError(
                    Code.CONFLICT,
                    f"{len(running.sessions)} sessions are connected; force=true disconnects them",
                    field="force",
                )
            await self._restorer.end(hub)  # first: a deletion that fails here can be repeated
            for kind in (*_PARTS, "hub"):
                for row_kind, id, _ in rows:
                    if row_kind == kind:
                        await self._store.delete(kind, hub, id)
            await self._directory.close_hub(hub)
            await self._restorer.end(hub)  # those of connections lost meanwhile, also of new ones

    def _summary(self, name: str, stored: bool) -> HubSummary:
        running = self._directory.hubs.get(name)
        return HubSummary(
            name=name,
            stored=stored,
            open=running is not None,
            sessions=len(running.sessions) if running is not None else 0,
            channels=len(running.channels) if running is not None else 0,
        )

    async def _has_parts(self, hub: str) -> bool:
        return any([await self._store.list(kind, hub, limit=1) for kind in _PARTS])

    async def _hubs_with_parts(self, after: str, limit: int) -> dict[str, None]:
        """Hubs made on use that were given rules, namespaces or channel settings."""
        found: dict[str, None] = {}
        for kind in _PARTS:
            at = after
            for _ in range(limit):
                rows = await self._store.list(kind, None, after=(at, _LAST_ID), limit=1)
                if not rows:
                    break
                at = rows[0][0]
                found[at] = None
        return found
